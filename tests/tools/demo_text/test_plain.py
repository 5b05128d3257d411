"""Plain sentences: hand-written pairs of the grammar that only they have; the sentences drawn."""

from collections import Counter

import pytest

from tools.demo_text import english, german
from tools.demo_text.draw import Dice
from tools.demo_text.lexicon import BE, HAVE, LIKE, NOUNS, VERBS, WANT, Adverbial, Noun, Verb
from tools.demo_text.phrases import (
    HE,
    IT,
    NO,
    NOT_BARE,
    SPEAKER,
    THE,
    YOU,
    YOUR,
    Clause,
    Determiner,
    Phrase,
    joined,
    name_phrase,
    noun_phrase,
)
from tools.demo_text.plain import PLAIN, draw_plain
from tools.demo_text.typed import as_typed, contract


def verb(base: str) -> Verb:
    return next(verb for verb in VERBS if verb.english.split()[0] == base)


def noun(word: str) -> Noun:
    return next(noun for noun in NOUNS if noun.english == word)


def np(determiner: Determiner, word: str, plural: bool = False) -> Phrase:
    return noun_phrase(determiner, None, noun(word), plural)


ANNA = name_phrase("Anna", "f")


@pytest.mark.parametrize(
    ("clause", "ours", "theirs"),
    [
        (Clause(YOU, verb("read"), "habit"), "you read", "du liest"),
        (Clause(YOU, verb("dance"), "now"), "you are dancing", "du tanzt"),
        (Clause(YOU, verb("work"), "habit"), "you work", "du arbeitest"),
        (Clause(YOU, verb("invite"), "habit", object=ANNA), "you invite Anna", "du lädst Anna ein"),
        (
            Clause(YOU, BE, "past", predicate=Adverbial("old", "alt")),
            "you were old",
            "du warst alt",
        ),
        (
            Clause(HE, HAVE, "now", object=np(YOUR, "hat")),
            "he has your hat",
            "er hat deinen Hut",
        ),
        (Clause(YOU, HAVE, "now", object=np(NO, "cat")), "you have no cat", "du hast keine Katze"),
        (
            Clause(SPEAKER, LIKE, "now", negated=True, object=np(NOT_BARE, "dog", True)),
            "I do not like dogs",
            "ich mag keine Hunde",
        ),
        (Clause(YOU, WANT, "now", object=IT), "you want it", "du willst es"),
        (
            Clause(joined(ANNA, np(THE, "dog")), verb("sleep"), "now"),
            "Anna and the dog are sleeping",
            "Anna und der Hund schlafen",
        ),
        # es comes before the person
        (
            Clause(HE, verb("give"), "habit", recipient=np(THE, "man"), object=IT),
            "he gives the man it",
            "er gibt es dem Mann",
        ),
    ],
)
def test_statement(clause: Clause, ours: str, theirs: str) -> None:
    assert (english.statement(clause), german.statement(clause)) == (ours, theirs)


@pytest.mark.parametrize(
    ("clause", "ours", "theirs"),
    [
        (Clause(YOU, verb("sleep"), "habit"), "sleep", "schlaf"),
        (Clause(YOU, verb("wait"), "habit", object=HE), "wait for him", "warte auf ihn"),
        (Clause(YOU, verb("help"), "habit", object=SPEAKER), "help me", "hilf mir"),
        (
            Clause(YOU, verb("read"), "habit", negated=True, object=np(THE, "book")),
            "do not read the book",
            "lies das Buch nicht",
        ),
        (
            Clause(YOU, verb("open"), "habit", object=np(THE, "door")),
            "open the door",
            "mach die Tür auf",
        ),
        (
            Clause(YOU, verb("invite"), "habit", object=ANNA),
            "invite Anna",
            "lade Anna ein",
        ),
        (Clause(YOU, BE, "now", predicate=Adverbial("quiet", "ruhig")), "be quiet", "sei ruhig"),
    ],
)
def test_imperative(clause: Clause, ours: str, theirs: str) -> None:
    assert (english.imperative(clause), german.imperative(clause)) == (ours, theirs)


def test_contractions() -> None:
    assert contract("I am old and he is sick") == "I'm old and he's sick"
    assert contract("She does not sleep and cannot sing") == "She doesn't sleep and can't sing"
    assert contract("the island") == "the island"


def test_how_people_type_changes_no_word_of_the_translation() -> None:
    pair = ("Anna is not old.", "Anna ist nicht alt.")
    typed = {as_typed(Dice(str(index)), pair) for index in range(200)}
    ours = {"Anna is not old", "anna is not old", "Anna isn't old", "anna isn't old"}
    assert {source.rstrip(".") for source, _ in typed} == ours
    assert {source + target[-1] for source, target in typed if "." in source} == {
        f"{source}.." for source in ours
    }
    assert {target.rstrip(".") for _, target in typed} == {"Anna ist nicht alt"}


@pytest.fixture(scope="module")
def drawn() -> list[tuple[str, str]]:
    return [draw_plain(Dice(f"test {index}")) for index in range(4000)]


def test_plain_sentences_are_whole_and_short(drawn) -> None:
    for source, target in drawn:
        for text in (source, target):
            assert text[0].isupper() and text[-1] in ".?!", text
            assert "  " not in text and " ," not in text, text
        assert source[-1] == target[-1]
    assert sum(len(source.split()) for source, _ in drawn) / len(drawn) < 6


def test_an_english_sentence_has_one_german_one(drawn) -> None:
    translations = {}
    for source, target in drawn:
        assert translations.setdefault(source, target) == target


def test_every_noun_and_verb_occurs_about_as_often_as_others(drawn) -> None:
    words = Counter(word for source, _ in drawn for word in source.lower().strip(".?!").split())
    nouns = [words[noun.english] + words[noun.english_plural] for noun in NOUNS]
    assert min(nouns) >= 8
    assert max(nouns) < 15 * min(nouns)
    for forms in map(english.verb_forms, (*VERBS, HAVE, LIKE, WANT)):
        assert sum(words[form] for form in set(forms[:4])) > 10, forms


def test_every_kind_of_sentence_is_drawn() -> None:
    for kind in set(PLAIN):
        assert len({kind(Dice(str(index))) for index in range(50)}) > 10, kind
