"""Everyday phrases with blanks: the rows of `phrasebook.tsv`.

A table shows more phrases on a page than code does, and a new row needs no code.

A row of the phrase book is an English and a German text. A blank `{name=...}` in the English text
is filled once, and may be used again in both texts:

    {s=who}             a subject: a pronoun, a name or a person
    {x=the animal}      a noun of a kind, or one of the nouns named, with an article: the, a or my
                        (any owner); bare: without an article; pl: its plural
    {x=The animal}      the same, sometimes in the plural and with an adjective
    {c=red/rot,blue/blau}   one of some pairs; a semicolon stands for a comma
    {n=number}          a number from 21 to 99, in words or digits

The forms of a blank:

    {s}  {x.acc}  {x.dat}       the phrase; in German in the nominative, accusative and dative
    {s:go|goes} {s:am|is|are}   English verb; German has four forms: ich, er, wir, du
    {s:SEIN}                    a German verb in `VERBS`, in the form for the subject
    {s.own}                     "his"; German sein, to which the row adds the ending
    {s.self}  {s.to_self}       German reflexive pronoun in the accusative and dative
    {x.der}                     German article alone
"""

import re
from functools import cache
from pathlib import Path

from tools.demo_text import further_words as words
from tools.demo_text import german, phrases
from tools.demo_text.draw import NAME_PHRASES, Dice, nouns_of, with_words
from tools.demo_text.everyday_basics import ONES
from tools.demo_text.everyday_words import WOULD_LIKE
from tools.demo_text.lexicon import ACCUSATIVE, DATIVE, MODALS, NOMINATIVE, NOUNS, PEOPLE, Noun
from tools.demo_text.phrases import BARE, POSSESSIVES, THE, YOUR, A, Determiner, Phrase
from tools.demo_text.plain_clauses import OWNERS, PRONOUNS, draw_phrase
from tools.demo_text.sentences import Sentence

BLANK = re.compile(r"\{(\w+)([=:.]?)([^{}]*)\}")
ARTICLES = {"the": (THE,), "a": (A,), "my": OWNERS, "bare": (ONES,), "pl": (BARE,)}
VERBS = {
    "SEIN": german.SEIN,
    "HABEN": german.HABEN,
    "WAR": german.WAR,
    **{modal.german[2].upper(): modal.german for modal in (*MODALS, WOULD_LIKE)},
}
CASES = {"": NOMINATIVE, "acc": ACCUSATIVE, "dat": DATIVE}


def english_form(phrase: Phrase, form: str) -> str:
    """The English words of a blank, in one of the forms above; "" is the phrase itself."""
    if "|" in form:
        verbs = form.split("|")
        return verbs[min(phrase.person, 2)] if len(verbs) == 3 else verbs[phrase.person == 1]
    return {"": phrase.english, "own": _owner(phrase).english[0]}[form] or ""


def german_form(phrase: Phrase, form: str) -> str:
    """The German words of a blank, in one of the forms above; "" is the nominative."""
    person = phrase.person
    if "|" in form or form in VERBS:
        return (VERBS.get(form) or form.split("|"))[person]
    if form == "own":
        return _owner(phrase).german
    if form in ("self", "to_self"):
        if phrase.english not in ("I", "we", "you"):
            return "sich"
        return phrase.german[ACCUSATIVE if form == "self" else DATIVE]
    if form == "der":
        return phrases.ARTICLE[NOMINATIVE][phrases.GENDERS.index(phrase.gender)]
    return phrase.german[CASES[form]]


def _owner(phrase: Phrase) -> Determiner:
    my, his, her, our, their = POSSESSIVES
    third = her if phrase.gender == "f" else his
    many = our if phrase.english == "we" else their
    return (my, third, many, YOUR)[phrase.person]


TENS = (
    *(("twenty", "zwanzig"), ("thirty", "dreißig"), ("forty", "vierzig"), ("fifty", "fünfzig")),
    *(("sixty", "sechzig"), ("seventy", "siebzig"), ("eighty", "achtzig"), ("ninety", "neunzig")),
)
UNITS = (("one", "ein"), *words.NUMBERS[:8])
NUMBERS = tuple(
    number
    for tens, (ours, theirs) in enumerate(TENS, start=2)
    for unit, (our_unit, their_unit) in enumerate(UNITS, start=1)
    for number in (
        *((f"{ours}-{our_unit}", f"{their_unit}und{theirs}"),) * 2,
        (f"{tens}{unit}",) * 2,
    )
)

_NOUNS = (NOUNS, words.NOUNS, words.LISTED, words.MATTERS, words.BODY, words.NATURE)
ALL_NOUNS = tuple(dict.fromkeys(noun for nouns in _NOUNS for noun in nouns))
KINDS = frozenset(noun.kind for noun in ALL_NOUNS)


def read_rows(file: str, separator: str) -> tuple[tuple[str, ...], ...]:
    """The cells of each row of a table in this folder; lines that begin with # are comments."""
    lines = Path(__file__).with_name(file).read_text(encoding="utf-8").splitlines()
    rows = (line for line in lines if line and not line.startswith("#"))
    return tuple(tuple(cell.strip() for cell in re.split(separator, row)) for row in rows)


def copies(english: str) -> int:
    """How many times as often as others a row is drawn: more often if it has a long list."""
    lists = (spec for _, sign, spec in BLANK.findall(english) if sign and "/" in spec)
    return 1 + max((spec.count("/") for spec in lists), default=0) // 8


ROWS = tuple(
    (ours, theirs)
    for ours, theirs in read_rows("phrasebook.tsv", r"\t")
    for _ in range(copies(ours))
)


def phrase_book(dice: Dice) -> Sentence:
    """One row with its blanks filled."""
    with with_words(1):
        return fill(dice, *dice.choose(ROWS))


def fill(dice: Dice, ours: str, theirs: str, noun: Noun | None = None) -> Sentence:
    """Both texts with their blanks filled; an asterisk in a blank stands for `noun`."""
    blanks: dict[str, Phrase] = {}

    def in_english(match: re.Match[str]) -> str:
        name, sign, form = match.groups()
        if sign == "=":
            blanks[name] = _draw(dice, form, noun)
        return english_form(blanks[name], "" if sign == "=" else form)

    def in_german(match: re.Match[str]) -> str:
        name, _, form = match.groups()
        return german_form(blanks[name], form)

    english, german_ = BLANK.sub(in_english, ours), BLANK.sub(in_german, theirs)
    for separate, contracted in phrases.CONTRACTIONS.items():
        german_ = re.sub(rf"\b{separate}\b", contracted, german_)
    return _tidy(english), _tidy(german_)


def _tidy(text: str) -> str:
    return re.sub(r" +(?=[,?!])", "", " ".join(text.split()))


def _draw(dice: Dice, spec: str, noun: Noun | None) -> Phrase:
    if "/" in spec:
        ours, _, theirs = dice.choose(tuple(spec.split(","))).replace(";", ",").partition("/")
        return Phrase(ours, (theirs, theirs, theirs))
    if spec == "number":
        ours, theirs = dice.choose(NUMBERS)
        return Phrase(ours, (theirs, theirs, theirs))
    if spec == "who":
        people = tuple(noun for noun in nouns_of(PEOPLE) if noun.gender != "n")
        person = draw_phrase(dice, dice.choose(people), (THE, *OWNERS))
        pronoun, name = dice.choose(PRONOUNS), dice.choose(NAME_PHRASES)
        return dice.choose((pronoun, pronoun, pronoun, name, person))
    article, wanted = spec.split()
    if wanted != "*" or noun is None:
        noun = dice.choose(named_nouns(wanted))
    determiners = ARTICLES[article.lower()]
    if article[0].isupper():
        return draw_phrase(dice, noun, determiners)
    return phrases.noun_phrase(dice.choose(determiners), None, noun, article == "pl")


@cache
def named_nouns(wanted: str) -> tuple[Noun, ...]:
    """All nouns of the kinds, and the nouns named, joined by commas."""
    names = wanted.split(",")
    single = [name for name in names if name not in KINDS]
    return tuple(noun for noun in ALL_NOUNS if noun.kind in names or noun.english in single)
