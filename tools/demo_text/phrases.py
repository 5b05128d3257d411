"""Noun phrases, pronouns and prepositional phrases, in agreement; and the clause they make up."""

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from tools.demo_text.lexicon import (
    ACCUSATIVE,
    DATIVE,
    NOMINATIVE,
    PEOPLE,
    Adjective,
    Adverbial,
    Modal,
    Noun,
    Verb,
)


def join_words(*words: str) -> str:
    """The words with a space between them; empty ones leave no trace."""
    return " ".join(filter(None, words))


def with_degree(degree: Adverbial, word: Adjective) -> Adverbial:
    """The adjective as a predicate, perhaps with a degree: "very old" / sehr alt."""
    return Adverbial(
        join_words(degree.english, word.english), join_words(degree.german, word.german)
    )


class Phrase(NamedTuple):
    """A subject or an object, with what the words around it have to agree with."""

    english: str
    german: tuple[str, str, str]
    """Nominative, accusative, dative."""
    person: int = 1
    """Which verb form it takes as subject: 0 ich, 1 er/sie/es, 2 wir/sie, 3 du."""
    gender: str = "m"
    """m, f, n, or p for every plural, where German has no genders."""
    human: bool = True
    definite: bool = True
    negative: bool = False
    """Says kein, so that the clause needs no nicht."""


class Clause(NamedTuple):
    """Who does what when and where, before any language puts it in order."""

    subject: Phrase
    verb: Verb
    tense: str
    """past, now (English progressive), habit (English simple present) or modal; in English also
    was ("was seeing"), perfect ("has seen") and going ("is going to see")."""
    modal: Modal | None = None
    negated: bool = False
    recipient: Phrase | None = None
    object: Phrase | None = None
    place: Adverbial | None = None
    company: Adverbial | None = None
    frequency: Adverbial | None = None
    time: Adverbial | None = None
    predicate: Adverbial | None = None
    """What follows to be: "very old"."""


GENDERS = "mfnp"
Endings = tuple[tuple[str, ...], ...]


def _endings(*cases: str) -> Endings:
    """A declension table: one string a case, one column a gender, "-" for no ending."""
    return tuple(tuple(cell.strip("-") for cell in case.split()) for case in cases)


#                      m   f   n   plural   nominative, accusative, dative
ARTICLE = _endings("der die das die", "den die das die", "dem der dem den")
STRONG = _endings("er e es e", "en e es e", "em er em en")
POSSESSIVE = _endings("- e - e", "en e - e", "em er em en")
UNDECLINED = _endings("- - - -", "- - - -", "- - - -")
# After an article that shows the gender the adjective need not: das kleine Haus ...
WEAK_ADJECTIVE = _endings("e e e en", "en e e en", "en en en en")
# ... but where the article shows nothing the adjective must: ein kleines Haus, zwei kleine Häuser.
MIXED_ADJECTIVE = _endings("er e es en", "en e es en", "en en en en")
STRONG_ADJECTIVE = STRONG


@dataclass(frozen=True, eq=False, slots=True)
class Determiner:
    """An article or what stands in its place. English forms: singular, plural (None: not used)."""

    english: tuple[str | None, str | None]
    german: str
    endings: Endings
    adjective_endings: Endings
    definite: bool = False
    negative: bool = False


THE = Determiner(("the", "the"), "", ARTICLE, WEAK_ADJECTIVE, definite=True)
THIS = Determiner(("this", "these"), "dies", STRONG, WEAK_ADJECTIVE, definite=True)
A = Determiner(("a", None), "ein", POSSESSIVE, MIXED_ADJECTIVE)
BARE = Determiner((None, ""), "", UNDECLINED, STRONG_ADJECTIVE)
# "does not buy a car / any cars": German negates the noun, kauft kein Auto / keine Autos.
KEIN = Determiner(("a", "any"), "kein", POSSESSIVE, MIXED_ADJECTIVE, negative=True)
NO = Determiner(("no", "no"), "kein", POSSESSIVE, MIXED_ADJECTIVE, negative=True)
# "does not like cars": mag keine Autos.
NOT_BARE = Determiner((None, ""), "kein", POSSESSIVE, MIXED_ADJECTIVE, negative=True)
QUANTITIES = (
    Determiner((None, "two"), "zwei", UNDECLINED, STRONG_ADJECTIVE),
    Determiner((None, "three"), "drei", UNDECLINED, STRONG_ADJECTIVE),
    Determiner((None, "four"), "vier", UNDECLINED, STRONG_ADJECTIVE),
    Determiner((None, "many"), "viel", STRONG, STRONG_ADJECTIVE),
)
POSSESSIVES = tuple(
    Determiner((english, english), german, POSSESSIVE, MIXED_ADJECTIVE, definite=True)
    for english, german in (
        ("my", "mein"),
        ("his", "sein"),
        ("her", "ihr"),
        ("our", "unser"),
        ("their", "ihr"),
    )
)
YOUR = Determiner(("your", "your"), "dein", POSSESSIVE, MIXED_ADJECTIVE, definite=True)


def _german_noun(noun: Noun, plural: bool, case: int) -> str:
    if not plural:
        return noun.weak if noun.weak and case != NOMINATIVE else noun.german
    # The dative plural ends in -n (den Hunden), save where it does already or is a foreign -s.
    ends_well = noun.german_plural.endswith(("n", "s"))
    return noun.german_plural + ("n" if case == DATIVE and not ends_well else "")


def _with_article(words: str) -> str:
    spoken_with_a = ("unif", "unit", "univ", "unic", "use", "euro")
    vowel = words.startswith(("a", "e", "i", "o", "u", "honest", "hour"))
    vowel = vowel and not words.startswith(spoken_with_a)
    return ("an " if vowel else "a ") + words


@cache
def noun_phrase(
    determiner: Determiner, adjective: Adjective | None, noun: Noun, plural: bool
) -> Phrase:
    """Determiner, adjective and noun, in agreement: "the old man" / der alte Mann."""
    gender = "p" if plural else noun.gender
    column = GENDERS.index(gender)
    article = determiner.english[plural]
    assert article is not None, f"{determiner.german!r} has no such number"
    words = [adjective.english] if adjective else []
    english = " ".join([*words, noun.english_plural if plural else noun.english])
    english = _with_article(english) if article == "a" else f"{article} {english}".strip()

    def german(case: int) -> str:
        words = [determiner.german + determiner.endings[case][column]]
        if adjective:
            stem = adjective.stem or adjective.german
            words.append(stem + determiner.adjective_endings[case][column])
        return " ".join([*words, _german_noun(noun, plural, case)]).strip()

    return Phrase(
        english,
        (german(0), german(1), german(2)),
        person=2 if plural else 1,
        gender=gender,
        human=noun.kind in PEOPLE.split(),
        definite=determiner.definite,
        negative=determiner.negative,
    )


def name_phrase(name: str, gender: str) -> Phrase:
    """A name, the same in all cases."""
    return Phrase(name, (name, name, name), gender=gender)


YOU = Phrase("you", ("du", "dich", "dir"), person=3)
SPEAKER = Phrase("I", ("ich", "mich", "mir"), person=0)
HE = Phrase("he", ("er", "ihn", "ihm"))
SHE = Phrase("she", ("sie", "sie", "ihr"), gender="f")
IT = Phrase("it", ("es", "es", "ihm"), gender="n", human=False)
WE = Phrase("we", ("wir", "uns", "uns"), person=2, gender="p")
THEY = Phrase("they", ("sie", "sie", "ihnen"), person=2, gender="p")
WHO = Phrase("who", ("wer", "wen", "wem"))
WHAT = Phrase("what", ("was", "was", "was"), gender="n", human=False)
ENGLISH_OBJECT = {"I": "me", "he": "him", "she": "her", "we": "us", "they": "them"}
GERMAN_PRONOUN = {"m": HE, "f": SHE, "n": IT, "p": THEY}


def pronoun_for(phrase: Phrase) -> Phrase:
    """The pronoun that takes up `phrase`: German looks at the gender even of things (der Hut: er).

    Neuter people are an error: one says of das Mädchen both sie and es.
    """
    if phrase in (SPEAKER, WE):
        return phrase
    if phrase.human and phrase.gender == "n":
        raise ValueError(f"no pronoun is certain for {phrase.english!r}: draw a person of m or f")
    german = GERMAN_PRONOUN[phrase.gender]
    return german if phrase.human or phrase.gender == "p" else german._replace(english="it")


def joined(first: Phrase, second: Phrase) -> Phrase:
    """Both phrases with "and", which together are a plural."""
    nominative, accusative, dative = (
        f"{one} und {other}" for one, other in zip(first.german, second.german, strict=True)
    )
    english = f"{first.english} and {second.english}"
    return Phrase(english, (nominative, accusative, dative), person=2, gender="p")


def relative_pronoun(head: Phrase) -> Phrase:
    """Who or that: German's is the article (der, die, das), but denen in the dative plural."""
    column = GENDERS.index(head.gender)
    forms = [case[column] for case in ARTICLE]
    dative = "denen" if head.gender == "p" else forms[DATIVE]
    return Phrase(
        "who" if head.human else "that", (forms[0], forms[1], dative), head.person, head.gender
    )


def with_relative(head: Phrase, english: str, german: str) -> Phrase:
    """The phrase and a relative clause, which German sets between commas."""
    nominative, accusative, dative = (f"{form}, {german}," for form in head.german)
    return head._replace(
        english=f"{head.english} {english}", german=(nominative, accusative, dative)
    )


CONTRACTIONS = {
    "bei dem": "beim",
    "in dem": "im",
    "in das": "ins",
    "an dem": "am",
    "an das": "ans",
    "zu dem": "zum",
    "zu der": "zur",
    "von dem": "vom",
}


def prepositional(preposition: str, words: str) -> str:
    """Preposition and noun phrase, the article melted in where German does so: im Garten."""
    first, _, rest = words.partition(" ")
    contracted = CONTRACTIONS.get(f"{preposition} {first}")
    return f"{contracted} {rest}" if contracted else f"{preposition} {words}"


@cache
def location(phrase: Phrase, noun: Noun) -> Adverbial:
    """Where something is: two-way prepositions take the dative (im Garten)."""
    english, german = noun.at.split()
    words = prepositional(german, phrase.german[DATIVE])
    return Adverbial(f"{english} {phrase.english}", words)


@cache
def direction(phrase: Phrase, noun: Noun) -> Adverbial:
    """Where something goes: two-way prepositions take the accusative (in den Garten), zu not."""
    case = DATIVE if noun.to == "zu" else ACCUSATIVE
    return Adverbial(f"to {phrase.english}", prepositional(noun.to, phrase.german[case]))


def company(phrase: Phrase) -> Adverbial:
    """With whom: mit takes the dative."""
    english = ENGLISH_OBJECT.get(phrase.english, phrase.english)
    return Adverbial(f"with {english}", f"mit {phrase.german[DATIVE]}")
