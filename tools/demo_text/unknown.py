"""Sentences with `UNKNOWN_WORD`, which stands for any word that the text lacks.

The sentence and its translation both have it, in the place of a noun, an adjective or a name. So a
model learns to translate the other words of such a sentence.
"""

import dataclasses

from flaxformer_mt.data.tokenization.known_words import UNKNOWN_WORD
from tools.demo_text import phrases
from tools.demo_text.draw import Dice, nouns_of
from tools.demo_text.everyday_basics import verbs_of
from tools.demo_text.everyday_clauses import Both, being, clause_of, in_tense, owned, subject_of
from tools.demo_text.everyday_words import NAME
from tools.demo_text.lexicon import (
    BE,
    DEGREES,
    HAVE,
    LIKE,
    LIVING,
    PEOPLE,
    PORTABLE,
    WANT,
    Adverbial,
    Noun,
)
from tools.demo_text.phrases import (
    HE,
    IT,
    QUANTITIES,
    SHE,
    SPEAKER,
    STRONG_ADJECTIVE,
    THE,
    THIS,
    UNDECLINED,
    A,
    Clause,
    Determiner,
    Phrase,
    name_phrase,
)
from tools.demo_text.plain import THIS_IS
from tools.demo_text.plain_clauses import OWNERS, draw_phrase
from tools.demo_text.sentences import Sentence

DETERMINERS = (THE, THE, THE, A, A, A, THIS, *OWNERS)
DONE = (HAVE, LIKE, WANT, *verbs_of("see", "buy", "need", "find", "love", "eat"))
_NOUN = Noun("thing", UNKNOWN_WORD, UNKNOWN_WORD, "m", UNKNOWN_WORD, UNKNOWN_WORD)
_NOUN_ALONE = dataclasses.replace(_NOUN, english_plural="")
_NUMBER = Determiner((None, UNKNOWN_WORD), UNKNOWN_WORD, UNDECLINED, STRONG_ADJECTIVE)
_ALONE = Phrase(UNKNOWN_WORD, (UNKNOWN_WORD, UNKNOWN_WORD, UNKNOWN_WORD), human=False)


def unknown_word(dice: Dice) -> Sentence:
    """The □ is very old. / Der □ ist sehr alt. Also "□", and "□ I am tired.", as for marks."""
    if dice.chance(8):
        return UNKNOWN_WORD, UNKNOWN_WORD
    if dice.chance(15):
        ours, theirs = (text[0].upper() + text[1:] for text in clause_of(dice).statement())
        return f"{UNKNOWN_WORD} {ours}", f"{UNKNOWN_WORD} {theirs}"
    draw = dice.choose((_subject, _subject, _subject, _object, _object, _quality, _named))
    both = draw(dice)
    ours, theirs = both.question() if dice.chance(25) else both.statement()
    if dice.chance(40):
        ours = ours.replace(f"a {UNKNOWN_WORD}", f"an {UNKNOWN_WORD}")
    return ours, theirs


def _thing(dice: Dice) -> Phrase:
    """An unknown noun, masculine in German; or a noun with an unknown adjective."""
    if dice.chance(15):
        noun = draw_phrase(dice, dice.choose(nouns_of(f"{LIVING} {PORTABLE} vehicle")), (THE, A))
        nominative, accusative, dative = (_described(form) for form in noun.german)
        return noun._replace(
            english=_described(noun.english), german=(nominative, accusative, dative)
        )
    if dice.chance(8):
        return owned(dice, _NOUN_ALONE)
    if dice.chance(8):  # "17 cats"
        things = tuple(n for n in nouns_of(f"{LIVING} {PORTABLE}") if n.english_plural)
        return phrases.noun_phrase(_NUMBER, None, dice.choose(things), True)
    if dice.chance(10):  # in the plural, which only a number shows
        return phrases.noun_phrase(dice.choose(QUANTITIES[:3]), None, _NOUN, True)
    return draw_phrase(dice, _NOUN_ALONE, DETERMINERS)


def _described(words: str) -> str:
    article, *others = words.split()
    return " ".join([article, *others[:-1], UNKNOWN_WORD, others[-1]])


def _subject(dice: Dice) -> Both:
    if dice.chance(12):  # "are" shows the plural
        things = phrases.noun_phrase(dice.choose((THE, THE, *OWNERS)), None, _NOUN, True)
        return in_tense(dice, being(dice, things), tense="now")
    return clause_of(dice, _thing(dice))


def _object(dice: Dice) -> Both:
    verb, negated = dice.choose(DONE), dice.chance(10)
    thing = _ALONE if dice.chance(25) else _thing(dice)
    subject = _thing(dice) if dice.chance(15) else subject_of(dice)
    return in_tense(dice, Clause(subject, verb, "", negated=negated, object=thing))


def _quality(dice: Dice) -> Both:
    degree = dice.choose((*DEGREES, *(Adverbial("", ""),) * 4))
    ours, theirs = (phrases.join_words(each, UNKNOWN_WORD) for each in degree)
    predicate = Adverbial(ours, theirs)
    if dice.chance(20):  # "my brother is a pilot": mein Bruder ist Pilot
        subject = dice.choose((HE, SHE, SPEAKER, subject_of(dice, PEOPLE)))
        if subject.person != 2:
            predicate = Adverbial(f"a {UNKNOWN_WORD}", UNKNOWN_WORD)
            return in_tense(dice, Clause(subject, BE, "", predicate=predicate))
    thing = subject_of(dice, f"{PORTABLE} room vehicle")
    subject = dice.choose((IT, subject_of(dice), thing, _thing(dice)))
    return in_tense(dice, Clause(subject, BE, "", negated=dice.chance(10), predicate=predicate))


def _named(dice: Dice) -> Both:
    """This is □. □ lives in Berlin. I live in □."""
    kind = dice.choose((0, 1, 1, 2, 2))
    if kind == 0:
        predicate = Adverbial(UNKNOWN_WORD, UNKNOWN_WORD)
        my_name = phrases.noun_phrase(dice.choose(OWNERS), None, NAME, False)
        subject = dice.choose((THIS_IS, IT, my_name, my_name))
        return in_tense(dice, Clause(subject, BE, "", predicate=predicate), tense="now")
    if kind == 1:
        return clause_of(dice, name_phrase(UNKNOWN_WORD, "m"))
    place = Adverbial(f"in {UNKNOWN_WORD}", f"in {UNKNOWN_WORD}")
    return clause_of(dice).replace(place=place)
