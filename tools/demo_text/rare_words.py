"""Sentences with rarer words: the nouns, verbs and adjectives of tables.

All nouns are equally likely, and so are all verbs and all adjectives.

A new word needs one row and no code:

    nouns.txt       kind: English/plural, gender, German/plural   (see `further_words`)
    frames.tsv      kinds, and a phrase-book row for all nouns of these kinds
    verbs.txt       English forms | German forms | what may follow | options
    adjectives.txt  English = German: kinds of nouns that it describes

What may follow a verb: fixed words in both languages ("a cake/einen Kuchen"), a kind of nouns
("food"), or nothing ("-"). Options of a verb: `sein` (the perfect), `simple` (no progressive),
`nocommand` (no imperative), and `by` with the kinds of its subjects, or nouns. Options of an
adjective: `predicate` (not before a noun) and `absolute` (not after "very").
"""

import dataclasses
import re
from functools import cache
from typing import NamedTuple

from tools.demo_text import further_words as words
from tools.demo_text import phrases
from tools.demo_text.draw import NAME_PHRASES, Dice, nouns_of, times_in, with_words
from tools.demo_text.everyday_basics import commanded, doing, said, verbs_of
from tools.demo_text.lexicon import (
    BE,
    HAVE,
    LIKE,
    LIVING,
    MODALS,
    PEOPLE,
    PLACES,
    Adjective,
    Adverbial,
    Noun,
    Verb,
)
from tools.demo_text.phrasebook import fill, named_nouns, read_rows
from tools.demo_text.phrases import BARE, HE, SHE, SPEAKER, THE, THIS, YOU, A, Clause, Phrase
from tools.demo_text.plain import as_question_or_statement, described_as
from tools.demo_text.plain_clauses import (
    OWNERS,
    PRONOUNS,
    draw_deed,
    draw_object,
    draw_phrase,
    draw_somebody,
)
from tools.demo_text.sentences import Sentence

# ------------------------------------------------------------------ nouns

FRAMES = tuple(
    (kinds.split(), ours, theirs) for kinds, ours, theirs in read_rows("frames.tsv", r"\t")
)
WITH_ARTICLE = re.compile(r"=[aA] \*")  # hardly "he has a future"
RARE_NOUNS = tuple(dict.fromkeys(words.LISTED))
WALKS = (*verbs_of("go"), *verbs_of("run"))
SEEN = (HAVE, HAVE, LIKE, *verbs_of("see", "buy", "need", "find", "look", "draw"))


@cache
def frames_for(noun: Noun) -> tuple[tuple[str, str], ...]:
    """The phrase-book rows for the noun: those of its kind."""
    return tuple(
        (ours, theirs)
        for kinds, ours, theirs in FRAMES
        if noun.kind in kinds and (noun.english_plural or not WITH_ARTICLE.search(ours))
    )


def rare_noun(dice: Dice) -> Sentence:
    """Where is my comb? She works in a gym. / Wo ist mein Kamm? Sie arbeitet in einem ..."""
    noun = dice.choose(RARE_NOUNS)
    if noun.kind in PLACES.split() and dice.chance(50):
        moves = dice.chance(40)
        clause = draw_deed(dice, verbs=WALKS if moves else verbs_of("work", "sleep", "play"))
        phrase = phrases.noun_phrase(dice.choose((THE, THE, A, THIS)), None, noun, False)
        place = (phrases.direction if moves else phrases.location)(phrase, noun)
        if not moves and dice.chance(40):
            clause = Clause(clause.subject, BE, "now", negated=clause.negated)
        return said(dice, clause._replace(place=place, time=None, company=None))
    return fill(dice, *dice.choose(frames_for(noun)), noun)


# ------------------------------------------------------------------ verbs


class RareVerb(NamedTuple):
    """A row of `verbs.txt`."""

    verb: Verb
    after: tuple[str, ...]
    subjects: str
    """Kinds of the subjects or nouns, separated by commas; "" for people."""
    commands: bool


def _rare_verb(ours: str, theirs: str, after: str, options: str) -> RareVerb:
    flags, _, subjects = options.partition("by")
    verb = Verb(
        ours,
        theirs,
        perfect="sein" if "sein" in flags else "haben",
        simple="simple" in flags,
    )
    commands = not subjects and "nocommand" not in flags
    return RareVerb(verb, tuple(re.split(r", *", after)), ",".join(subjects.split()), commands)


RARE_VERBS = tuple(_rare_verb(*row) for row in read_rows("verbs.txt", r" \| ?"))
TENSES = (*("habit",) * 6, *("now",) * 4, *("past",) * 7, *("modal",) * 4)
PRONOUN = re.compile(r"(mich|mir|ihn|ihm|sie|es|uns|das|es mir)$")
DEFINITE = re.compile(r"(der|die|das|den|dem)( \w+)? [A-ZÄÖÜ][\w-]*$")
OTHER_OBJECT = re.compile(r"(der|die|das|den|dem|es|eine?n?|nichts|etwas|niemande?[nm])\b|[A-ZÄÖÜ]")
OURS = re.compile(r"\b(me|us)\b")


def rare_verb(dice: Dice) -> Sentence:
    """Did you bake a cake? The dog is barking. / Hast du einen Kuchen gebacken? ..."""
    row = dice.choose(RARE_VERBS)
    after = dice.choose(row.after)
    subject = dice.choose((YOU, SPEAKER, None, None, None, None))
    if row.subjects:
        noun = dice.choose(named_nouns(row.subjects))
        plural = bool(noun.english_plural) and dice.chance(25)
        subject = phrases.noun_phrase(dice.choose((THE, THE, THIS)), None, noun, plural)
    subject = subject or draw_somebody(dice, PEOPLE)
    tense = dice.choose(TENSES)
    base, past = row.verb.english.split()[:2]
    if tense == "habit" and base == past and subject.person != 1:
        tense = "now"  # "they cut" could be the past
    negated = dice.chance(12)
    modals = tuple(modal for modal in MODALS if not negated or modal.english != "must")
    modal = dice.choose(modals) if tense == "modal" else None
    clause = Clause(subject, row.verb, tense, modal, negated)
    clause = _followed_by(dice, clause, after)
    timed = tense in ("past", "modal", "habit") and not clause.predicate
    if not negated and timed and dice.chance(20):
        clause = clause._replace(time=dice.choose(times_in(tense)))
    if subject is YOU and row.commands and dice.chance(40):
        return commanded(dice, clause._replace(tense="habit", modal=None))
    return as_question_or_statement(dice, clause)


def _followed_by(dice: Dice, clause: Clause, after: str) -> Clause:
    """The clause with what follows its verb."""
    if after == "-":
        return clause
    ours, slash, theirs = after.partition("/")
    if not slash:
        verb = dataclasses.replace(clause.verb, objects=after)
        object_ = draw_object(dice, verb, clause.subject, clause.negated)
        if {object_.english, clause.subject.english} <= {"I", "we"}:
            clause = clause._replace(subject=dice.choose((HE, SHE)))
        return clause._replace(object=object_)
    if OURS.search(ours) and clause.subject.english in ("I", "we"):
        clause = clause._replace(subject=dice.choose((HE, SHE)))  # hardly "I call me"
    personal = bool(PRONOUN.match(theirs))
    definite = personal or bool(DEFINITE.match(theirs))
    if definite or OTHER_OBJECT.match(theirs):
        # Only definite objects have one place before "nicht".
        object_ = Phrase(ours, (theirs, theirs, theirs), human=personal, definite=definite)
        return clause._replace(object=object_, negated=clause.negated and definite)
    return clause._replace(predicate=Adverbial(ours, theirs))


# ------------------------------------------------------------------ adjectives


class RareAdjective(NamedTuple):
    """A row of `adjectives.txt`."""

    adjective: Adjective
    nouns: tuple[Noun, ...]
    attributive: bool


def _rare_adjective(ours: str, theirs: str, kinds: str) -> RareAdjective:
    german, _, stem = theirs.rstrip(")").partition("(")
    graded = "absolute" not in kinds
    adjective = Adjective(ours, german, kinds, graded=graded, stem=stem)
    with with_words(1):
        return RareAdjective(adjective, nouns_of(kinds), "predicate" not in kinds)


RARE_ADJECTIVES = tuple(_rare_adjective(*row) for row in read_rows("adjectives.txt", " = |: "))


def rare_adjective(dice: Dice) -> Sentence:
    """The snake is poisonous. I have a proud cat. / Die Schlange ist giftig. ..."""
    row = dice.choose(RARE_ADJECTIVES)
    noun = dice.choose(row.nouns)
    if row.attributive and dice.chance(40):
        numbers = (False, False, True) if noun.english_plural else (False,)
        plural = dice.choose(numbers)
        determiners = (THE, BARE, THIS) if plural else (THE, A, A, THIS)
        if noun.kind == "family":
            determiners = OWNERS
        phrase = phrases.noun_phrase(dice.choose(determiners), row.adjective, noun, plural)
        if noun.kind in LIVING.split() and dice.chance(40):
            return said(dice, draw_deed(dice, subject=phrase))
        clause = doing(dice, SEEN, phrase)
        negated = clause.negated and phrase.definite  # "not a" would be "kein"
        return as_question_or_statement(dice, clause._replace(negated=negated))
    subject = draw_phrase(dice, noun)
    if noun.kind in PEOPLE.split() and dice.chance(60):
        subject = dice.choose((*PRONOUNS, YOU, SPEAKER, *NAME_PHRASES[:4]))
    word, negated = row.adjective, dice.chance(12)
    if subject is YOU and row.attributive and dice.chance(20):
        predicate = Adverbial(word.english, word.german)
        return commanded(dice, Clause(YOU, BE, "now", negated=negated, predicate=predicate))
    return described_as(dice, subject, word, negated=negated, degrees=20)


def rare_word(dice: Dice) -> Sentence:
    """A sentence with a rarer word."""
    kind = dice.choose((*(rare_noun,) * 4, *(rare_verb,) * 5, *(rare_adjective,) * 2))
    with with_words(1):
        return kind(dice)
