"""Dice, and what they decide: the nouns, verbs and tenses of a clause that makes sense."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from hashlib import blake2b
from typing import TypeVar

from tools.demo_text import english, further_words, phrases
from tools.demo_text.lexicon import (
    ADJECTIVES,
    BE,
    DEGREES,
    FREQUENCIES,
    MODALS,
    NAMES,
    NOUNS,
    OWNED,
    PEOPLE,
    TIMES,
    Adjective,
    Adverbial,
    Noun,
    Verb,
)
from tools.demo_text.phrases import (
    BARE,
    HE,
    KEIN,
    POSSESSIVES,
    QUANTITIES,
    SHE,
    SPEAKER,
    THE,
    THEY,
    THIS,
    WE,
    A,
    Clause,
    Determiner,
    Phrase,
)

T = TypeVar("T")


class Dice:
    """Choices read off one large random number, digit by digit, each to its own base."""

    def __init__(self, seed: str, blocks: int = 1) -> None:
        # A block has 512 bits. The choices of a sentence must not use up all of them.
        digests = [blake2b((seed + " more" * i).encode()).digest() for i in range(blocks)]
        self._number = int.from_bytes(b"".join(digests), "little")

    def choose(self, options: tuple[T, ...]) -> T:
        """One of the options, all equally likely; repeat one to make it likelier."""
        self._number, choice = divmod(self._number, len(options))
        return options[choice]

    def chance(self, percent: int) -> bool:
        """True with the given probability."""
        self._number, roll = divmod(self._number, 100)
        return roll < percent


_words: ContextVar[int] = ContextVar("words", default=0)


@contextmanager
def with_words(level: int) -> Iterator[None]:
    """Inside, `nouns_of` and `adjectives_for` return more words.

    Level 0 has the words of `lexicon`, level 1 also those of `further_words`, and level 2 also the
    nouns of `nouns.txt`.
    """
    token = _words.set(level)
    try:
        yield
    finally:
        _words.reset(token)


def nouns_of(kinds: str) -> tuple[Noun, ...]:
    """All nouns of the kinds (words separated by spaces)."""
    return _nouns_of(kinds, _words.get())


@cache
def _nouns_of(kinds: str, level: int) -> tuple[Noun, ...]:
    nouns = (NOUNS, further_words.NOUNS, further_words.LISTED)[: level + 1]
    return tuple(noun for part in nouns for noun in part if noun.kind in kinds.split())


def adjectives_for(kind: str) -> tuple[Adjective, ...]:
    """All adjectives that describe nouns of the kind."""
    return _adjectives_for(kind, _words.get() > 0)


@cache
def _adjectives_for(kind: str, further: bool) -> tuple[Adjective, ...]:
    adjectives = ADJECTIVES + further_words.ADJECTIVES if further else ADJECTIVES
    return tuple(adjective for adjective in adjectives if kind in adjective.kinds.split())


@cache
def times_in(tense: str) -> tuple[Adverbial, ...]:
    """All times that go with the tense."""
    fitting = (time for time in TIMES if tense in time.tenses.split())
    return tuple(Adverbial(time.english, time.german) for time in fitting)


DEFINITE = (THE, THE, THE, THIS)
INDEFINITE = (A, A, BARE, *QUANTITIES)
PRONOUNS = (SPEAKER, HE, SHE, WE, THEY)
NAME_PHRASES = tuple(phrases.name_phrase(name, gender) for name, gender in NAMES)
TENSES = ("past", "past", "past", "now", "now", "habit", "modal", "modal")


@cache
def determiners_for(kind: str, determiners: tuple[Determiner, ...]) -> tuple[Determiner, ...]:
    """Those that suit the kind: one says "my brother", hardly "a brother", never "my tourist"."""
    if kind == "family":
        return POSSESSIVES
    if kind in PEOPLE.split():
        return tuple(determiner for determiner in determiners if determiner is not BARE)
    owned = kind in OWNED.split() and THE in determiners
    return determiners + POSSESSIVES if owned else determiners


def draw_noun_phrase(
    dice: Dice, noun: Noun, determiners: tuple[Determiner, ...], *, plain: bool = False
) -> Phrase:
    """The noun with a determiner, in the singular or plural; with an adjective unless `plain`."""
    determiner = dice.choose(determiners_for(noun.kind, determiners))
    numbers = (False, False, True) if noun.english_plural else (False,)
    plural = dice.choose(tuple(n for n in numbers if determiner.english[n] is not None))
    described = not plain and dice.chance(35)
    adjective = dice.choose(adjectives_for(noun.kind)) if described else None
    return phrases.noun_phrase(determiner, adjective, noun, plural)


def draw_subject(dice: Dice, kinds: str = PEOPLE, *, referable: bool = False) -> Phrase:
    """Who does it; plain and not neuter if `referable`, so that a pronoun can take it up."""
    if dice.chance(25):
        return dice.choose(PRONOUNS)
    if dice.chance(33):
        return dice.choose(NAME_PHRASES)
    nouns = nouns_of(kinds)
    if referable:
        nouns = tuple(noun for noun in nouns if noun.gender != "n")
    determiners = (*DEFINITE, A, *QUANTITIES)
    return draw_noun_phrase(dice, dice.choose(nouns), determiners, plain=referable)


def draw_head(dice: Dice, noun: Noun, *, plain: bool = False) -> Phrase:
    """The noun as head of a relative clause, which takes the place of a possessive."""
    plural = bool(noun.english_plural) and dice.chance(33)
    adjective = dice.choose(adjectives_for(noun.kind)) if not plain and dice.chance(35) else None
    return phrases.noun_phrase(dice.choose((THE, THE, THE, THIS)), adjective, noun, plural)


def draw_person(dice: Dice, subject: Phrase) -> Phrase:
    """To whom or with whom: somebody known; no pronoun beside a pronoun ("I help me")."""
    if subject not in PRONOUNS and dice.chance(25):
        return dice.choose(PRONOUNS)
    if dice.chance(25):
        return dice.choose(NAME_PHRASES)
    return draw_noun_phrase(dice, dice.choose(nouns_of(PEOPLE)), DEFINITE)


def draw_object(dice: Dice, clause: Clause, noun: Noun | None = None) -> Phrase:
    """What the verb of the clause is done to; a given noun gets no adjective."""
    verb, plain = clause.verb, noun is not None
    noun = noun or dice.choose(nouns_of(verb.objects))
    # English would put a pronoun inside a phrasal verb ("picks him up"): those take nouns.
    personal = noun.kind in PEOPLE.split() and not plain and not english.verb_forms(verb).particle
    if personal and dice.chance(35):
        return draw_person(dice, clause.subject)
    if clause.negated:
        kein = not verb.preposition and noun.kind != "family" and dice.chance(50)
        determiners = (KEIN,) if kein else DEFINITE
    elif clause.tense == "habit" and not verb.repeated:
        determiners = (BARE,)  # one sells cars every day, but not the same car
    else:
        determiners = DEFINITE + INDEFINITE
    return draw_noun_phrase(dice, noun, determiners, plain=plain)


def draw_place(dice: Dice, kinds: str, *, motion: bool = False) -> Adverbial:
    """In, at or to a place."""
    noun = dice.choose(nouns_of(kinds))
    adjective = dice.choose(adjectives_for(noun.kind)) if dice.chance(30) else None
    phrase = phrases.noun_phrase(dice.choose((THE, THE, THE, THE, A, THIS)), adjective, noun, False)
    return (phrases.direction if motion else phrases.location)(phrase, noun)


def draw_clause(
    dice: Dice,
    verb: Verb,
    *,
    subject: Phrase | None = None,
    tense: str | None = None,
    negated: bool | None = None,
    noun: Noun | None = None,
) -> Clause:
    """A clause around the verb; what is None is drawn (`noun`: that of the object)."""
    subject = subject or draw_subject(dice, verb.subjects)
    tense = tense or dice.choose(TENSES)
    if verb.simple and tense != "past":
        tense = "now"
    negated = dice.chance(18) if negated is None else negated
    # "must not" forbids (darf nicht) where muss nicht only spares: we say neither.
    modals = tuple(m for m in MODALS if m.english != "must") if negated else MODALS
    modal = dice.choose(modals) if tense == "modal" else None
    clause = Clause(subject, verb, tense, modal, negated)
    return _add_adverbials(
        dice,
        clause._replace(
            recipient=draw_person(dice, subject) if verb.recipient else None,
            object=draw_object(dice, clause, noun) if verb.objects else None,
        ),
    )


def _add_adverbials(dice: Dice, clause: Clause) -> Clause:
    verb, tense, negated = clause.verb, clause.tense, clause.negated
    place = company = frequency = time = None
    fullness = 35 if clause.object else 65  # so that short sentences repeat less often
    if verb.destination:
        place = draw_place(dice, verb.destination, motion=True)
    # A place would draw the nicht to itself (das Auto nicht im Laden gekauft, but elsewhere).
    elif verb.place and not (negated and clause.object) and dice.chance(fullness):
        place = draw_place(dice, verb.place)
    if verb.social and dice.chance(20):
        company = phrases.company(draw_person(dice, clause.subject))
    # A habit says so, by its time or frequency: only thus is "they read" no past. A denied habit
    # says neither ("not every day" is not "every day not") but its "do not" gives it away.
    habit = tense == "habit" and not negated
    timed = tense == "past" or (tense != "habit" and not verb.simple)
    if habit and dice.chance(50):
        frequency = dice.choose(FREQUENCIES)
    elif habit or (timed and dice.chance(fullness)):
        time = dice.choose(times_in(tense))
    return clause._replace(place=place, company=company, frequency=frequency, time=time)


def draw_quality(
    dice: Dice,
    subject: Phrase,
    qualities: tuple[Adjective, ...],
    *,
    tense: str,
    negated: bool | None = False,
) -> Clause:
    """The subject is old, very old or (None: perhaps) not old."""
    quality = dice.choose(qualities)
    predicate = Adverbial(quality.english, quality.german)  # a predicate takes no ending
    negated = dice.chance(20) if negated is None else negated
    if quality.graded and not negated and dice.chance(40):
        degree = dice.choose(DEGREES)
        predicate = Adverbial(*(f"{d} {q}" for d, q in zip(degree, predicate, strict=True)))
    return Clause(subject, BE, tense, negated=negated, predicate=predicate)
