"""The clauses of plain sentences: who does what, and where or when.

All verbs are equally likely, and so are all nouns. They combine more freely than in `draw`: "the
horse loves the museum" occurs, "the table sleeps" does not.
"""

import dataclasses
from functools import cache

from tools.demo_text import english, phrases
from tools.demo_text.draw import NAME_PHRASES, Dice, adjectives_for, nouns_of, times_in
from tools.demo_text.lexicon import (
    ADJECTIVES,
    DATIVE,
    FREQUENCIES,
    HAVE,
    LIKE,
    LIVING,
    MODALS,
    NOUNS,
    PEOPLE,
    PLACES,
    VERBS,
    WANT,
    Adjective,
    Adverbial,
    Noun,
    Verb,
)
from tools.demo_text.phrases import (
    BARE,
    HE,
    IT,
    KEIN,
    NO,
    NOT_BARE,
    POSSESSIVES,
    QUANTITIES,
    SHE,
    SPEAKER,
    THE,
    THEY,
    THIS,
    WE,
    YOU,
    YOUR,
    A,
    Clause,
    Determiner,
    Phrase,
)

PRONOUNS = (SPEAKER, SPEAKER, YOU, YOU, HE, SHE, WE, THEY)
OWNERS = (*POSSESSIVES, POSSESSIVES[0], YOUR)
DETERMINERS = (*(THE,) * 12, *(A,) * 6, THIS, THIS, BARE, BARE, *OWNERS, *QUANTITIES)
DENIED = (KEIN, KEIN, NOT_BARE, THE, THE, THE, THIS, *OWNERS)
LOCATING = (*(THE,) * 16, A, A, THIS, *OWNERS)
SPOUSES = ("man", "woman")  # meine Frau is my wife
TRANSPORT = "transport vehicle"

ANYTHING = " ".join(dict.fromkeys(noun.kind for noun in NOUNS))
THINGS = " ".join(kind for kind in ANYTHING.split() if kind not in LIVING.split())
# Verbs of any object, and of any thing or animal: "I see the house", "she buys a flower".
OF_ANYTHING = ["see", "love", "need", "find", "draw", "look", "have", "like", "want", "show"]
OF_ANYTHING += ["forget", "dream"]
OF_THINGS = ["buy", "sell", "bring", "lose", "give"]
# These do without their object: "she is reading", "we are waiting".
OBJECTLESS = ["eat", "read", "draw", "wait", "talk", "listen", "translate", "dream", "help"]


def _base(verb: Verb) -> str:
    return verb.english.split()[0]


def _without_object(verb: Verb) -> Verb:
    english_parts = " ".join(verb.english.split()[:3])
    return dataclasses.replace(verb, english=english_parts, objects="", preposition="")


# "The train is arriving", but hardly a command: `simple` says both in the varied sentences.
UNWILLING = ["arrive", "lose"]
PLAIN_VERBS = tuple(
    dataclasses.replace(verb, simple=False) if _base(verb) in UNWILLING else verb for verb in VERBS
)
POSSESSION = (HAVE, HAVE, LIKE, LIKE, WANT)
TRANSITIVE = tuple(verb for verb in PLAIN_VERBS if verb.objects) + POSSESSION
ALONE = tuple(verb for verb in PLAIN_VERBS if not verb.objects)
LEFT_ALONE = tuple(_without_object(verb) for verb in VERBS if _base(verb) in OBJECTLESS)
INTRANSITIVE = ALONE + ALONE + LEFT_ALONE
LOCATED = tuple(v for v in (*INTRANSITIVE, *TRANSITIVE) if v.place or v.destination)
LOCATED = tuple(v for v in LOCATED if not v.preposition)
ASKED_FOR = tuple(v for v in TRANSITIVE if not v.preposition)
COMMANDS = tuple(
    v for v in (*INTRANSITIVE, *TRANSITIVE) if not v.simple and _base(v) not in UNWILLING
)


# ------------------------------------------------------------------ noun phrases


def draw_phrase(
    dice: Dice, noun: Noun, determiners: tuple[Determiner, ...] = DETERMINERS
) -> Phrase:
    """The noun with a determiner that its number allows, sometimes with an adjective."""
    if noun.english in SPOUSES:
        determiners = tuple(d for d in determiners if d not in OWNERS)
    if not noun.english_plural:
        determiners = tuple(d for d in determiners if d.english[0] is not None)
    determiner = dice.choose(determiners)
    numbers = (False, False, True) if noun.english_plural else (False,)
    plural = dice.choose(tuple(n for n in numbers if determiner.english[n] is not None))
    adjective = draw_adjective(dice, noun) if dice.chance(25) else None
    return phrases.noun_phrase(determiner, adjective, noun, plural)


LOOSE = {
    "old big small new beautiful dirty clean heavy interesting boring famous": ANYTHING,
    "young friendly polite clever tired hungry sick happy quiet": LIVING,
    "red blue black white expensive cheap": f"animal {THINGS}",
    "broken modern": THINGS,
}


@cache
def _loose_adjectives(kind: str) -> tuple[Adjective, ...]:
    """All adjectives that can describe nouns of the kind, though it may be unusual."""
    words = [words.split() for words, kinds in LOOSE.items() if kind in kinds.split()]
    return tuple(a for a in ADJECTIVES if a.english in sum(words, []))


def draw_adjective(dice: Dice, noun: Noun) -> Adjective:
    """An adjective that suits the noun."""
    adjectives = (adjectives_for if dice.chance(50) else _loose_adjectives)(noun.kind)
    return dice.choose(adjectives or adjectives_for(noun.kind) or adjectives_for("text"))


def draw_spot(dice: Dice, *, motion: bool = False) -> Adverbial:
    """In, at or to a place."""
    noun = dice.choose(nouns_of(f"room {PLACES}"))
    adjective = draw_adjective(dice, noun) if dice.chance(15) else None
    phrase = phrases.noun_phrase(dice.choose(LOCATING), adjective, noun, False)
    return (phrases.direction if motion else phrases.location)(phrase, noun)


def draw_somebody(dice: Dice, kinds: str = LIVING) -> Phrase:
    """A pronoun, a name, a noun, or two of them."""
    roll = dice.choose(tuple(range(20)))
    if roll < 6:
        return dice.choose(PRONOUNS)
    if roll < 9:
        return dice.choose(NAME_PHRASES)
    noun = draw_phrase(dice, dice.choose(nouns_of(kinds)))
    if roll < 10 and kinds == LIVING:
        other = draw_phrase(dice, dice.choose(nouns_of(kinds)))
        return phrases.joined(dice.choose((*NAME_PHRASES, noun)), other)
    return noun


# ------------------------------------------------------------------ verbs


def draw_object(dice: Dice, verb: Verb, subject: Phrase, negated: bool) -> Phrase:
    """What it is done to: a noun, or a pronoun unless the verb is phrasal ("picks him up")."""
    kinds = verb.objects or ANYTHING
    if _base(verb) in OF_THINGS + OF_ANYTHING and dice.chance(60):
        kinds = ANYTHING if _base(verb) in OF_ANYTHING else f"animal {THINGS}"
    noun = dice.choose(nouns_of(kinds))
    particle = english.verb_forms(verb).particle
    personal = noun.kind in PEOPLE.split() or _base(verb) in OF_ANYTHING
    if personal and not verb.recipient and particle in ("", "for", "to", "of"):
        others = tuple(p for p in (*PRONOUNS, *NAME_PHRASES[::3]) if p is not subject)
        if dice.chance(25 if verb not in POSSESSION else 5):
            return dice.choose(others)
    if not particle and verb.case != DATIVE and verb is not HAVE and dice.chance(4):
        return IT
    if negated:
        kein = DENIED if not verb.preposition else DENIED[3:]
        return draw_phrase(dice, noun, kein)
    if verb is HAVE and dice.chance(8):
        return draw_phrase(dice, noun, (NO,))
    return draw_phrase(dice, noun)


def _tense(dice: Dice, verb: Verb, subject: Phrase) -> str:
    """Most often the present, simple or progressive; "they read" would be past as well."""
    if verb in (LIKE, HAVE, WANT):
        return "now" if verb is not HAVE or dice.chance(85) else "modal"
    tense = dice.choose((*("habit",) * 9, *("now",) * 6, "past", "past", "modal", "modal", "modal"))
    return "now" if tense == "habit" and _base(verb) == "read" and subject.person != 1 else tense


def complete(dice: Dice, clause: Clause) -> Clause:
    """The clause with its object and perhaps a place, a time or a frequency."""
    verb, subject, negated, tense = clause.verb, clause.subject, clause.negated, clause.tense
    if verb.recipient:
        others = tuple(p for p in (*PRONOUNS, *NAME_PHRASES) if p is not subject)
        noun = dice.choose(nouns_of(LIVING))
        recipient = dice.choose(others) if dice.chance(50) else draw_phrase(dice, noun)
        clause = clause._replace(recipient=recipient)
    if verb in TRANSITIVE:
        clause = clause._replace(object=draw_object(dice, verb, subject, negated))
    extra = dice.choose(tuple(range(20)))
    if verb.destination:
        if dice.chance(60):
            clause = clause._replace(place=draw_spot(dice, motion=True))
    elif extra < (2 if clause.object else 6) and not negated and (verb.place or clause.object):
        clause = clause._replace(place=draw_spot(dice))
    if verb.social and extra == 19:
        clause = clause._replace(company=phrases.company(draw_somebody(dice)))
    elif extra > 16 and not negated and tense == "habit":
        clause = clause._replace(frequency=dice.choose(FREQUENCIES))
    elif extra > 16 and (tense in ("past", "modal") or not (verb.simple or negated)):
        clause = clause._replace(time=dice.choose(times_in(tense)))
    return clause


def draw_deed(
    dice: Dice,
    *,
    verbs: tuple[Verb, ...] = (),
    subject: Phrase | None = None,
    negated: bool | None = None,
) -> Clause:
    """Somebody does something."""
    verb = dice.choose(verbs or (INTRANSITIVE if dice.chance(40) else TRANSITIVE))
    arrives = _base(verb) in ("arrive", "come") and dice.chance(50)
    subject = subject or draw_somebody(dice, TRANSPORT if arrives else LIVING)
    tense = _tense(dice, verb, subject)
    negated = dice.chance(12) if negated is None else negated
    refused = ("must",) * negated + ("want",) * (_base(verb) == "need")
    modals = tuple(m for m in MODALS if m.english not in refused)
    modal = dice.choose(modals) if tense == "modal" else None
    return complete(dice, Clause(subject, verb, tense, modal, negated))
