"""Clauses that combine freely: tenses and modals against translations by hand."""

import pytest

from tools.demo_text import english, further_words, german
from tools.demo_text.draw import Dice
from tools.demo_text.everyday_basics import verbs_of
from tools.demo_text.everyday_words import (
    COULD,
    GENITIVES,
    HAD_TO,
    HAVE_TO,
    LEAVE,
    MUST,
    MUST_NOT,
    WOULD_LIKE,
)
from tools.demo_text.free_sentences import FREE, free
from tools.demo_text.lexicon import BE, NOUNS, Adverbial
from tools.demo_text.phrases import HE, SPEAKER, THE, YOU, Clause, noun_phrase
from tools.demo_text.plain import WILL
from tools.demo_text.typed import MORE_CONTRACTIONS, contract

GLAD = "er wird glücklich sein"
HAPPY = Adverbial("happy", "glücklich")
(SLEEP,), (SEE,), (EAT,) = verbs_of("sleep"), verbs_of("see"), verbs_of("eat")
DOG = noun_phrase(THE, None, next(noun for noun in NOUNS if noun.english == "dog"), False)


@pytest.mark.parametrize(
    ("clause", "ours", "theirs"),
    [
        (
            Clause(HE, BE, "modal", WILL, predicate=HAPPY),
            "he will be happy",
            "er wird glücklich sein",
        ),
        (Clause(HE, SLEEP, "modal", HAVE_TO), "he has to sleep", "er muss schlafen"),
        (
            Clause(SPEAKER, SLEEP, "modal", HAVE_TO, negated=True),
            "I do not have to sleep",
            "ich muss nicht schlafen",
        ),
        (Clause(HE, SLEEP, "modal", HAD_TO), "he had to sleep", "er musste schlafen"),
        (
            Clause(HE, SLEEP, "modal", HAD_TO, negated=True),
            "he did not have to sleep",
            "er musste nicht schlafen",
        ),
        (
            Clause(HE, SEE, "modal", WOULD_LIKE, object=DOG),
            "he would like to see the dog",
            "er möchte den Hund sehen",
        ),
        (Clause(HE, LEAVE[1], "past"), "he ran away", "er ist weggelaufen"),
    ],
)
def test_statements_are_as_by_hand(clause, ours, theirs) -> None:
    assert (english.statement(clause), german.statement(clause)) == (ours, theirs)


@pytest.mark.parametrize(
    ("clause", "ours"),
    [
        (Clause(YOU, BE, "modal", WILL, predicate=HAPPY), "will you be happy"),
        (Clause(HE, BE, "modal", HAVE_TO, predicate=HAPPY), "does he have to be happy"),
        (Clause(HE, SLEEP, "modal", HAD_TO), "did he have to sleep"),
        (Clause(YOU, SEE, "modal", WOULD_LIKE, object=DOG), "would you like to see the dog"),
        (Clause(YOU, SLEEP, "modal", COULD), "could you sleep"),
        (Clause(HE, EAT, "perfect"), "has he eaten"),
        (Clause(YOU, SEE, "perfect", object=DOG), "have you seen the dog"),
        (Clause(HE, EAT, "was"), "was he eating"),
        (Clause(HE, EAT, "going"), "is he going to eat"),
        (Clause(HE, BE, "going", predicate=HAPPY), "is he going to be happy"),
    ],
)
def test_english_questions_are_as_by_hand(clause, ours) -> None:
    assert english.question(clause) == ours


def test_must_not_forbids() -> None:
    assert MUST.german != MUST_NOT.german
    found = [free(Dice(f"must {index}", blocks=4)) for index in range(20_000)]
    forbids = [pair for pair in found if " must not " in pair[0]]
    assert len(forbids) > 20
    for ours, theirs in forbids:
        assert {"darf", "darfst", "dürfen"} & set(theirs.replace(",", "").split()), (ours, theirs)


def test_a_genitive_is_that_of_the_noun() -> None:
    nouns = (*NOUNS, *further_words.NOUNS, *further_words.LISTED)
    family = {noun.english: noun for noun in nouns if noun.kind == "family"}
    assert family.keys() == GENITIVES.keys()
    for word, genitive in GENITIVES.items():
        noun = family[word]
        # Feminine nouns have no ending, weak ones the -n of the other cases, the others -s or -es.
        regular = {noun.german} if noun.gender == "f" else {f"{noun.german}s", f"{noun.german}es"}
        assert genitive in ({noun.weak} if noun.weak else regular)


def test_contractions_keep_capital_letters() -> None:
    assert contract("Let us go, he would like tea", MORE_CONTRACTIONS) == "Let's go, he'd like tea"
    assert contract("They will not sleep", MORE_CONTRACTIONS) == "They'll not sleep"


@pytest.mark.parametrize("draw", dict.fromkeys(FREE), ids=lambda draw: draw.__name__)
def test_the_random_number_of_a_sentence_is_long_enough(draw) -> None:
    """Otherwise the last choices would all be the first option."""
    for index in range(300):
        dice = Dice(f"{draw.__name__} {index}", blocks=4)
        draw(dice)
        assert dice.chance(100) and dice._number > 0
