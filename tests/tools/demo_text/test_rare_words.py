"""Sentences with the words of the demo's tables: every word occurs, and all forms agree."""

import re

import pytest

from tools.demo_text import rare_words
from tools.demo_text.draw import Dice
from tools.demo_text.everyday_words import GENITIVES
from tools.demo_text.lexicon import NOUNS, Noun, Verb
from tools.demo_text.phrasebook import named_nouns
from tools.demo_text.phrases import HE, SHE, SPEAKER, THEY, WE, YOU, Clause
from tools.demo_text.plain import as_question_or_statement
from tools.demo_text.rare_words import (
    FRAMES,
    RARE_ADJECTIVES,
    RARE_NOUNS,
    RARE_VERBS,
    frames_for,
    rare_word,
)


def test_every_noun_has_a_frame() -> None:
    assert [noun.english for noun in RARE_NOUNS if not frames_for(noun)] == []


def test_every_frame_is_for_a_kind_of_nouns_and_names_the_noun() -> None:
    kinds = {noun.kind for noun in (*NOUNS, *RARE_NOUNS)}
    for of, ours, _ in FRAMES:
        assert set(of) <= kinds, of
        assert re.search(r"\{x=\w+ \*\}", ours), ours


def test_every_adjective_describes_some_nouns() -> None:
    assert [row.adjective.english for row in RARE_ADJECTIVES if not row.nouns] == []


def test_every_relative_has_a_genitive() -> None:
    relatives = {noun.english for noun in (*NOUNS, *RARE_NOUNS) if noun.kind == "family"}
    assert relatives - GENITIVES.keys() == set()


def test_every_word_of_the_tables_is_drawn() -> None:
    text = " ".join(rare_word(Dice(str(i), blocks=4))[0] for i in range(40_000))
    drawn = set(re.findall(r"[\w'-]+", text))
    wanted = [noun.english for noun in RARE_NOUNS]
    wanted += [row.adjective.english for row in RARE_ADJECTIVES]
    assert [word for word in wanted if not set(word.split()) & drawn] == []
    for row in RARE_VERBS:
        assert set(row.verb.english.split()[:3]) & drawn, row


BAKE = Verb("bake baked baking", "backen backt gebacken")


@pytest.mark.parametrize(
    ("subject", "after", "negated", "expected"),
    [
        (HE, "a cake/einen Kuchen", False, ("he baked a cake", "er hat einen Kuchen gebacken")),
        (HE, "the cake/den Kuchen", True, ("he did not bake the cake", "er hat den Kuchen nicht")),
        # "Not a cake" would be "keinen Kuchen", so such a clause is not negated.
        (THEY, "a cake/einen Kuchen", True, ("they baked a cake", "sie haben einen Kuchen")),
        (THEY, "bread/Brot", True, ("they baked bread", "sie haben Brot gebacken")),
        (YOU, "at home/zu Hause", True, ("you did not bake at home", "du hast nicht zu Hause")),
        (HE, "nothing/nichts", True, ("he baked nothing", "er hat nichts gebacken")),
        (HE, "it/es", True, ("he did not bake it", "er hat es nicht gebacken")),
        (HE, "it again/es noch einmal", True, ("he baked it again", "er hat es noch einmal")),
        (YOU, "-", True, ("you did not bake", "du hast nicht gebacken")),
    ],
)
def test_what_follows_a_verb(subject, after, negated, expected) -> None:
    clause = Clause(subject, BAKE, "past", negated=negated)
    clause = rare_words._followed_by(Dice("any"), clause, after)
    dice = Dice("statement")
    ours, theirs = as_question_or_statement(dice, clause)
    assert (ours, theirs.startswith(expected[1])) == (expected[0], True)


@pytest.mark.parametrize("after", ["me/mich", "us/uns", "it to me/es mir"])
def test_nobody_does_it_to_himself(after) -> None:
    for subject in (SPEAKER, WE):
        clause = rare_words._followed_by(Dice("any"), Clause(subject, BAKE, "past"), after)
        assert clause.subject in (HE, SHE)
    assert rare_words._followed_by(Dice("any"), Clause(YOU, BAKE, "past"), after).subject is YOU


def test_nouns_of_a_kind_are_drawn_as_objects() -> None:
    clause = rare_words._followed_by(Dice("any"), Clause(HE, BAKE, "past"), "food")
    assert clause.object is not None
    assert not clause.object.human


def test_kinds_in_the_tables_exist() -> None:
    kinds = {noun.kind for noun in (*NOUNS, *RARE_NOUNS)}
    for row in RARE_VERBS:
        for after in row.after:
            assert "/" in after or after == "-" or set(after.split()) <= kinds, row
        assert not row.subjects or named_nouns(row.subjects), row
    for row in RARE_ADJECTIVES:
        options = {"predicate", "absolute"}
        assert set(row.adjective.kinds.split()) <= kinds | options, row
        assert row.nouns, row


def test_an_adjective_of_the_predicate_never_stands_before_a_noun() -> None:
    awake = next(row for row in RARE_ADJECTIVES if row.adjective.english == "awake")
    assert not awake.attributive
    sentences = {rare_word(Dice(str(i), blocks=4)) for i in range(20_000)}
    with_awake = [ours for ours, _ in sentences if "awake" in ours]
    assert with_awake
    nouns = "|".join(noun.english for noun in NOUNS if isinstance(noun, Noun))
    assert [ours for ours in with_awake if re.search(rf"awake ({nouns})\b", ours)] == []
