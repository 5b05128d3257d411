"""The phrase book of the demo's text: its blanks, and the agreement of what fills them."""

import pytest

from tools.demo_text.draw import Dice, with_words
from tools.demo_text.lexicon import NOUNS
from tools.demo_text.phrasebook import (
    ALL_NOUNS,
    BLANK,
    KINDS,
    NUMBERS,
    ROWS,
    copies,
    english_form,
    fill,
    german_form,
    phrase_book,
)
from tools.demo_text.phrases import HE, SHE, SPEAKER, THE, THEY, WE, YOU, Phrase, noun_phrase


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        (
            "turn left at {x=the church}",
            "bieg an {x.dat} links ab",
            ("turn left at the church", "bieg an der Kirche links ab"),
        ),
        (
            "turn left at {x=the exit}",
            "bieg an {x.dat} links ab",
            ("turn left at the exit", "bieg am Ausgang links ab"),
        ),
        (
            "I see {x=a dog}, {y=yes; I do/ja; wirklich}",
            "ich sehe {x.acc}, {y}",
            ("I see a dog, yes, I do", "ich sehe einen Hund, ja, wirklich"),
        ),
        (
            "{x=the car} is older than the {c=red/rote} one",
            "{x} ist älter als {x.der} {c}",
            ("the car is older than the red one", "das Auto ist älter als das rote"),
        ),
        (
            "{x=pl dog} sleep {t=/} {q=; please/; bitte}",
            "{x} schlafen {t} {q}",
            ("dogs sleep, please", "Hunde schlafen, bitte"),
        ),
    ],
)
def test_blanks_are_filled(ours: str, theirs: str, expected: tuple[str, str]) -> None:
    assert fill(Dice("any"), ours, theirs) == expected


GIRLS = noun_phrase(THE, None, next(noun for noun in NOUNS if noun.english == "girl"), True)


@pytest.mark.parametrize(
    ("subject", "ours", "theirs"),
    [
        (SPEAKER, "go am my", "gehe bin mein mich mir"),
        (HE, "goes is his", "geht ist sein sich sich"),
        (SHE, "goes is her", "geht ist ihr sich sich"),
        (WE, "go are our", "gehen sind unser uns uns"),
        (YOU, "go are your", "gehst bist dein dich dir"),
        (THEY, "go are their", "gehen sind ihr sich sich"),
        (GIRLS, "go are their", "gehen sind ihr sich sich"),
    ],
)
def test_verbs_and_possessives_agree_with_the_subject(
    subject: Phrase, ours: str, theirs: str
) -> None:
    forms = ("go|goes", "am|is|are", "own")
    assert [english_form(subject, form) for form in forms] == ours.split()
    forms = ("gehe|geht|gehen|gehst", "SEIN", "own", "self", "to_self")
    assert [german_form(subject, form) for form in forms] == theirs.split()


def test_rows_name_known_nouns_and_filled_blanks() -> None:
    names = {noun.english for noun in ALL_NOUNS} | KINDS
    for ours, theirs in ROWS:
        defined = set()
        for name, sign, form in BLANK.findall(ours):
            if sign == "=":
                defined.add(name)
                if "/" not in form and form not in ("who", "number"):
                    assert set(form.split()[1].split(",")) <= names, form
                if len({option.partition("/")[2] for option in form.split(",")}) > 1:
                    assert f"{{{name}" in theirs, (ours, name)  # the German words of the options
        assert {name for name, _, _ in BLANK.findall(ours + theirs)} == defined


@pytest.mark.parametrize("row", range(len(ROWS)))
def test_a_row_can_always_be_filled(row: int) -> None:
    with with_words(1):
        for index in range(20):
            pair = fill(Dice(f"{row} {index}", blocks=4), *ROWS[row])
            assert not set("{}|=;/") & set("".join(pair))
            assert all(text == " ".join(text.split()) for text in pair)


def test_numbers_are_in_words_or_in_digits() -> None:
    numbers = dict(NUMBERS)
    assert numbers["twenty-one"] == "einundzwanzig"
    assert numbers["forty-seven"] == "siebenundvierzig"
    assert numbers["ninety-nine"] == "neunundneunzig"
    digits = {str(number) for number in range(21, 100) if number % 10}
    assert {ours for ours in numbers if ours.isdigit()} == digits
    assert all(numbers[number] == number for number in digits)
    assert len(numbers) == len(set(numbers.values())) == 2 * len(digits)


def test_the_phrase_book_draws_many_sentences() -> None:
    drawn = {phrase_book(Dice(f"{index}", blocks=4)) for index in range(2000)}
    assert len(drawn) > 1200


def test_a_noun_has_a_plural_in_both_languages_or_in_neither() -> None:
    assert not [n.english for n in ALL_NOUNS if bool(n.english_plural) != bool(n.german_plural)]


def test_a_row_with_a_long_list_is_drawn_more_often() -> None:
    long = ",".join(f"a{i}/b{i}" for i in range(16))
    assert [copies(f"{{x={words}}} is") for words in ("a/b,c/d", "the animal", long)] == [1, 1, 3]
    assert len(ROWS) > len(set(ROWS))
