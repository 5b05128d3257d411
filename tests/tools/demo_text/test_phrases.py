"""Agreement in noun phrases, by tables that one can check against any German grammar."""

import pytest

from tools.demo_text.lexicon import ADJECTIVES, NOUNS, Adjective, Noun
from tools.demo_text.phrases import (
    BARE,
    HE,
    KEIN,
    POSSESSIVES,
    QUANTITIES,
    SPEAKER,
    THE,
    THEY,
    THIS,
    A,
    direction,
    location,
    noun_phrase,
    pronoun_for,
    relative_pronoun,
)

OUR = POSSESSIVES[3]
TWO, MANY = QUANTITIES[0], QUANTITIES[-1]


def noun(english: str) -> Noun:
    return next(noun for noun in NOUNS if noun.english == english)


def adjective(english: str) -> Adjective:
    return next(adjective for adjective in ADJECTIVES if adjective.english == english)


DECLENSIONS = [
    # determiner, adjective, noun, plural: English | nominative | accusative | dative
    (THE, "old", "man", False, "the old man|der alte Mann|den alten Mann|dem alten Mann"),
    (THE, "old", "woman", False, "the old woman|die alte Frau|die alte Frau|der alten Frau"),
    (THE, "new", "book", False, "the new book|das neue Buch|das neue Buch|dem neuen Buch"),
    (THE, "old", "man", True, "the old men|die alten Männer|die alten Männer|den alten Männern"),
    (THIS, "new", "hat", False, "this new hat|dieser neue Hut|diesen neuen Hut|diesem neuen Hut"),
    (
        THIS,
        "new",
        "hat",
        True,
        "these new hats|diese neuen Hüte|diese neuen Hüte|diesen neuen Hüten",
    ),
    (A, "old", "dog", False, "an old dog|ein alter Hund|einen alten Hund|einem alten Hund"),
    (A, "old", "cat", False, "an old cat|eine alte Katze|eine alte Katze|einer alten Katze"),
    (A, "old", "horse", False, "an old horse|ein altes Pferd|ein altes Pferd|einem alten Pferd"),
    (
        KEIN,
        "old",
        "horse",
        False,
        "an old horse|kein altes Pferd|kein altes Pferd|keinem alten Pferd",
    ),
    (KEIN, None, "egg", True, "any eggs|keine Eier|keine Eier|keinen Eiern"),
    (
        OUR,
        "tired",
        "son",
        False,
        "our tired son|unser müder Sohn|unseren müden Sohn|unserem müden Sohn",
    ),
    (TWO, "red", "car", True, "two red cars|zwei rote Autos|zwei rote Autos|zwei roten Autos"),
    (
        MANY,
        "old",
        "doctor",
        True,
        "many old doctors|viele alte Ärzte|viele alte Ärzte|vielen alten Ärzten",
    ),
    (BARE, "fresh", "apple", True, "fresh apples|frische Äpfel|frische Äpfel|frischen Äpfeln"),
    # weak nouns take -n outside the nominative
    (THE, None, "boy", False, "the boy|der Junge|den Jungen|dem Jungen"),
    (THE, None, "student", False, "the student|der Student|den Studenten|dem Studenten"),
    (OUR, None, "neighbor", False, "our neighbor|unser Nachbar|unseren Nachbarn|unserem Nachbarn"),
    # the dative plural adds -n, but not to -n or -s
    (THE, None, "girl", True, "the girls|die Mädchen|die Mädchen|den Mädchen"),
    (THE, None, "hotel", True, "the hotels|die Hotels|die Hotels|den Hotels"),
    # teuer drops its e before an ending
    (
        A,
        "expensive",
        "boat",
        False,
        "an expensive boat|ein teures Boot|ein teures Boot|einem teuren Boot",
    ),
]


@pytest.mark.parametrize(("determiner", "quality", "word", "plural", "expected"), DECLENSIONS)
def test_declension(determiner, quality, word, plural, expected) -> None:
    quality = adjective(quality) if quality else None
    phrase = noun_phrase(determiner, quality, noun(word), plural)
    assert "|".join([phrase.english, *phrase.german]) == expected


@pytest.mark.parametrize(
    ("place", "at", "to"),
    [
        ("garden", "in the garden|im Garten", "to the garden|in den Garten"),
        ("house", "in the house|im Haus", "to the house|ins Haus"),
        ("city", "in the city|in der Stadt", "to the city|in die Stadt"),
        ("station", "at the station|am Bahnhof", "to the station|zum Bahnhof"),
        ("beach", "at the beach|am Strand", "to the beach|an den Strand"),
        ("market", "at the market|auf dem Markt", "to the market|auf den Markt"),
        ("school", "at the school|in der Schule", "to the school|in die Schule"),
    ],
)
def test_two_way_prepositions_and_contractions(place: str, at: str, to: str) -> None:
    phrase = noun_phrase(THE, None, noun(place), False)
    assert "|".join(location(phrase, noun(place))) == at
    assert "|".join(direction(phrase, noun(place))) == to


def test_an_indefinite_article_is_not_contracted() -> None:
    phrase = noun_phrase(A, adjective("small"), noun("village"), False)
    assert location(phrase, noun("village")).german == "in einem kleinen Dorf"


@pytest.mark.parametrize(("word", "pronoun"), [("hat", "er"), ("lamp", "sie"), ("book", "es")])
def test_it_takes_the_gender_of_what_it_stands_for(word: str, pronoun: str) -> None:
    taken_up = pronoun_for(noun_phrase(THE, None, noun(word), False))
    assert (taken_up.english, taken_up.german[0]) == ("it", pronoun)


def test_people_are_taken_up_by_sex_and_number() -> None:
    assert pronoun_for(noun_phrase(THE, None, noun("man"), False)) == HE
    assert pronoun_for(noun_phrase(THE, None, noun("man"), True)) == THEY
    assert pronoun_for(SPEAKER) == SPEAKER
    with pytest.raises(ValueError, match="the girl"):
        pronoun_for(noun_phrase(THE, None, noun("girl"), False))


def test_relative_pronouns() -> None:
    men = relative_pronoun(noun_phrase(THE, None, noun("man"), True))
    assert men[:2] == ("who", ("die", "die", "denen"))
    hat = relative_pronoun(noun_phrase(THE, None, noun("hat"), False))
    assert hat[:2] == ("that", ("der", "den", "dem"))
