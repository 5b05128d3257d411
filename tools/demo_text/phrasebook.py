"""Everyday phrases with blanks: the rows of `phrasebook.tsv`.

A row of the phrase book is an English and a German text. A blank `{name=...}` in the English text
is filled once, and may be used again in both texts:

    {s=who}             a subject: a pronoun, a name or a person
    {x=the animal}      a noun of a kind, or one of the nouns named, with an article: the, a, this,
                        my (any owner); bare: without an article; pl: its plural
    {x=The animal}      the same, sometimes in the plural and with an adjective
    {c=red/rot,blue/blau}   one of some pairs; a semicolon stands for a comma

The forms of a blank:

    {s}  {x.acc}  {x.dat}       the phrase; in German in the nominative, accusative and dative
    {x.at}  {x.to}              "at the station", "to the station", of places
    {s:go|goes} {s:am|is|are}   English verb; German has four forms: ich, er, wir, du
    {s:SEIN}                    a German verb of `AUXILIARIES`
    {s.own}                     "his"; German sein, to which the row adds the ending
    {s.self}  {s.to_self}       German reflexive pronoun in the accusative and dative
    {x.der}                     German article alone
"""

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tools.demo_text import further_words as words
from tools.demo_text import german, phrases
from tools.demo_text.draw import NAME_PHRASES, Dice, nouns_of, with_words
from tools.demo_text.everyday_basics import ONES
from tools.demo_text.lexicon import ACCUSATIVE, DATIVE, NOMINATIVE, NOUNS, PEOPLE, Adverbial, Noun
from tools.demo_text.phrases import BARE, THE, THIS, A, Phrase
from tools.demo_text.plain_clauses import OWNERS, PRONOUNS, draw_phrase
from tools.demo_text.sentences import Sentence

BLANK = re.compile(r"\{(\w+)([=:.]?)([^{}]*)\}")
ARTICLES = {"the": (THE,), "a": (A,), "this": (THIS,), "my": OWNERS, "bare": (ONES,)}
ARTICLES["pl"] = (BARE,)
AUXILIARIES = {
    **{"SEIN": german.SEIN, "HABEN": german.HABEN, "WAR": german.WAR},
    "WERDEN": ("werde", "wird", "werden", "wirst"),
    "WOLLEN": ("will", "will", "wollen", "willst"),
    "KÖNNEN": ("kann", "kann", "können", "kannst"),
    "MÜSSEN": ("muss", "muss", "müssen", "musst"),
    "DÜRFEN": ("darf", "darf", "dürfen", "darfst"),
    "MÖCHTEN": ("möchte", "möchte", "möchten", "möchtest"),
    "SCHMECKEN": ("schmecke", "schmeckt", "schmecken", "schmeckst"),
    "SOLLTEN": ("sollte", "sollte", "sollten", "solltest"),
}
CASES = {"": NOMINATIVE, "acc": ACCUSATIVE, "dat": DATIVE}


class Filling(NamedTuple):
    """What fills a blank: a phrase, and its noun."""

    phrase: Phrase
    noun: Noun | None = None

    def english(self, form: str) -> str:
        """The English words of a form."""
        person = self.phrase.person
        if "|" in form:
            verbs = form.split("|")
            return verbs[{0: 0, 1: 1}.get(person, 2)] if len(verbs) == 3 else verbs[person == 1]
        if form == "own":
            return self._owner[0]
        if form in ("at", "to"):
            return self._place(form).english
        return (
            phrases.ENGLISH_OBJECT.get(self.phrase.english, self.phrase.english)
            if form
            else (self.phrase.english)
        )

    def german(self, form: str) -> str:
        """The German words of a form."""
        person, plain = self.phrase.person, self.phrase.german
        if "|" in form or form in AUXILIARIES:
            return (AUXILIARIES.get(form) or form.split("|"))[person]
        if form == "own":
            return self._owner[1]
        if form in ("self", "to_self"):
            mine = (("mich", "mir"), ("sich", "sich"), ("sich", "sich"), ("dich", "dir"))[person]
            return "uns" if self.phrase.english == "we" else mine[form == "to_self"]
        if form in ("at", "to"):
            return self._place(form).german
        if form == "der":
            return phrases.ARTICLE[NOMINATIVE][phrases.GENDERS.index(self.phrase.gender)]
        return plain[CASES[form]]

    @property
    def _owner(self) -> tuple[str, str]:
        person, she = self.phrase.person, self.phrase.gender == "f"
        third = ("her", "ihr") if she else ("his", "sein")
        many = ("our", "unser") if self.phrase.english == "we" else ("their", "ihr")
        return (("my", "mein"), third, many, ("your", "dein"))[person]

    def _place(self, form: str) -> Adverbial:
        assert self.noun, "a place has a noun"
        return (phrases.location if form == "at" else phrases.direction)(self.phrase, self.noun)


_NOUNS = (NOUNS, words.NOUNS, words.LISTED, words.MATTERS, words.BODY)
ALL_NOUNS = tuple(dict.fromkeys(noun for nouns in _NOUNS for noun in nouns))
KINDS = frozenset(noun.kind for noun in ALL_NOUNS)
_TEXT = Path(__file__).with_name("phrasebook.tsv").read_text(encoding="utf-8")
ROWS = tuple(
    (ours, theirs)
    for line in _TEXT.splitlines()
    if line and not line.startswith("#")
    for ours, theirs in (line.split("\t"),)
)


def phrase_book(dice: Dice) -> Sentence:
    """One row with its blanks filled."""
    with with_words(1):
        return fill(dice, *dice.choose(ROWS))


def fill(dice: Dice, ours: str, theirs: str) -> Sentence:
    """Both texts with their blanks filled."""
    blanks: dict[str, Filling] = {}

    def in_english(match: re.Match[str]) -> str:
        name, sign, form = match.groups()
        if sign == "=":
            blanks[name] = _draw(dice, form)
        return blanks[name].english("" if sign == "=" else form)

    def in_german(match: re.Match[str]) -> str:
        name, _, form = match.groups()
        return blanks[name].german(form)

    english, german_ = BLANK.sub(in_english, ours), BLANK.sub(in_german, theirs)
    for separate, contracted in phrases.CONTRACTIONS.items():
        german_ = re.sub(rf"\b{separate}\b", contracted, german_)
    return _tidy(english), _tidy(german_)


def _tidy(text: str) -> str:
    return re.sub(r" +(?=[,?!])", "", " ".join(text.split()))


def _draw(dice: Dice, spec: str) -> Filling:
    if "/" in spec:
        ours, _, theirs = dice.choose(tuple(spec.split(","))).replace(";", ",").partition("/")
        return Filling(Phrase(ours, (theirs, theirs, theirs)))
    if spec == "who":
        people = tuple(noun for noun in nouns_of(PEOPLE) if noun.gender != "n")
        person = draw_phrase(dice, dice.choose(people), (THE, *OWNERS))
        return Filling(
            dice.choose((*(dice.choose(PRONOUNS),) * 3, dice.choose(NAME_PHRASES), person))
        )
    article, wanted = spec.split()
    noun = dice.choose(_nouns(wanted))
    determiners = ARTICLES[article.lower()]
    if article[0].isupper():
        return Filling(draw_phrase(dice, noun, determiners), noun)
    return Filling(phrases.noun_phrase(dice.choose(determiners), None, noun, article == "pl"), noun)


@cache
def _nouns(wanted: str) -> tuple[Noun, ...]:
    """All nouns of the kinds, and the nouns named, joined by commas."""
    names = wanted.split(",")
    single = [name for name in names if name not in KINDS]
    return tuple(noun for noun in ALL_NOUNS if noun.kind in names or noun.english in single)
