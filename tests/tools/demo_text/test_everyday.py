"""Everyday sentences: hand-written translations of some that are drawn, and whole sentences."""

import pytest

from flaxformer_mt.data.tokenization.known_words import UNKNOWN_WORD
from tools.demo_text.draw import Dice, nouns_of, with_words
from tools.demo_text.everyday import EVERYDAY, FURTHER, draw_everyday
from tools.demo_text.everyday_basics import FIXED, SOMEONE, described
from tools.demo_text.lexicon import ADJECTIVES, NOUNS
from tools.demo_text.phrases import BARE, THE, A

# Translated by hand: articles, endings of two adjectives, cases after prepositions, verb positions.
TRANSLATIONS = {
    "Who is that?": "Wer ist das?",
    "She is at home.": "Sie ist zu Hause.",
    "The door is open.": "Die Tür ist offen.",
    "The window is closed.": "Das Fenster ist geschlossen.",
    "He is a doctor.": "Er ist Arzt.",
    "She is a doctor.": "Sie ist Ärztin.",
    "My mother is a teacher.": "Meine Mutter ist Lehrerin.",
    "I drink coffee.": "Ich trinke Kaffee.",
    "I do not know where they are.": "Ich weiß nicht, wo sie sind.",
    "Do you know where she is?": "Weißt du, wo sie ist?",
    "We are going to school.": "Wir gehen zur Schule.",
    "Do you know her?": "Kennst du sie?",
    "Who are you?": "Wer bist du?",
    "Good evening, Anna!": "Guten Abend, Anna!",
    "I would like a cup of tea.": "Ich möchte eine Tasse Tee.",
    "It is snowing.": "Es schneit.",
    "I do not know where he lives.": "Ich weiß nicht, wo er wohnt.",
    "Why are you sad?": "Warum bist du traurig?",
    "It was a good day.": "Es war ein guter Tag.",
    "He will be happy.": "Er wird glücklich sein.",
    "She is asleep.": "Sie schläft.",
    "What did he say?": "Was hat er gesagt?",
    "I have to sleep.": "Ich muss schlafen.",
    "How is she?": "Wie geht es ihr?",
    "They are tired and hungry.": "Sie sind müde und hungrig.",
    "Will you be here?": "Wirst du hier sein?",
    "Be careful!": "Sei vorsichtig!",
    # Constructions of a beginner's course.
    "My head hurts.": "Mein Kopf tut weh.",
    "I am from Germany.": "Ich komme aus Deutschland.",
    "Where are you from?": "Woher kommst du?",
    "The weather is nice.": "Das Wetter ist schön.",
    "It is sunny.": "Es ist sonnig.",
    "I am cold.": "Mir ist kalt.",
    "It is half past eight.": "Es ist halb neun.",
    "They know each other.": "Sie kennen sich.",
    "She is taller than me.": "Sie ist größer als ich.",
    "Dancing is fun.": "Tanzen macht Spaß.",
    "What is your favorite color?": "Was ist deine Lieblingsfarbe?",
    "You look tired.": "Du siehst müde aus.",
    "He has to do his homework.": "Er muss seine Hausaufgaben machen.",
    "They live in Germany.": "Sie wohnen in Deutschland.",
    "She is an engineer.": "Sie ist Ingenieurin.",
    "I prefer tea.": "Ich trinke lieber Tee.",
    "He is in London.": "Er ist in London.",
    "Do you have a question?": "Hast du eine Frage?",
}


@pytest.fixture(scope="module")
def drawn() -> list[tuple[str, str]]:
    return [draw_everyday(Dice(f"everyday {index}", blocks=4)) for index in range(40_000)]


@pytest.mark.slow
def test_sentences_are_translated_as_by_hand(drawn) -> None:
    found = dict(drawn)
    common = TRANSLATIONS.keys() & found.keys()
    assert len(common) >= 18
    assert {english: found[english] for english in common} == {
        english: TRANSLATIONS[english] for english in common
    }


@pytest.mark.slow
def test_sentences_are_whole_and_short(drawn) -> None:
    for pair in drawn:
        for text in pair:
            assert text[0].isupper() or text[0].isdigit() or text[0] == UNKNOWN_WORD, pair
            assert text[-1] in ".?!" and "  " not in text, pair
        assert len(pair[0].split()) <= 22, pair  # "swimming pool" counts as one of 20
        assert pair[0][-1] == pair[1][-1], pair


@pytest.mark.slow
def test_an_english_sentence_has_one_german_one(drawn) -> None:
    german: dict[str, str] = {}
    for ours, theirs in drawn:
        assert german.setdefault(ours, theirs) == theirs, ours


@pytest.mark.parametrize(
    ("determiner", "word", "plural", "ours", "theirs"),
    [
        (A, "bird", False, "a small red bird", "ein kleiner roter Vogel/einen kleinen roten Vogel"),
        (A, "horse", False, "a small red horse", "ein kleines rotes Pferd/ein kleines rotes Pferd"),
        (THE, "cat", False, "the small red cat", "die kleine rote Katze/die kleine rote Katze"),
        (THE, "dog", True, "the small red dogs", "die kleinen roten Hunde/die kleinen roten Hunde"),
        (BARE, "cup", True, "small red cups", "kleine rote Tassen/kleine rote Tassen"),
    ],
)
def test_two_adjectives_have_the_same_ending(determiner, word, plural, ours, theirs) -> None:
    noun = next(noun for noun in NOUNS if noun.english == word)
    adjectives = {one.english: one for one in ADJECTIVES}
    phrase = described(determiner, (adjectives["small"], adjectives["red"]), noun, plural)
    assert phrase.english == ours
    assert "/".join(phrase.german[:2]) == theirs


@pytest.mark.parametrize("draw", dict.fromkeys(EVERYDAY + FURTHER), ids=lambda draw: draw.__name__)
@pytest.mark.parametrize("level", [0, 1, 2])
def test_every_kind_draws_many_sentences(level: int, draw) -> None:
    with with_words(level):
        found = {draw(Dice(f"{draw.__name__} {index}", blocks=4)) for index in range(300)}
    assert len(found) >= (12 if draw.__name__ in ("who_are_you", "snow") else 60)


def test_further_words_are_drawn_only_where_they_are_wanted() -> None:
    def animals(level: int) -> set[str]:
        with with_words(level):
            return {noun.english for noun in nouns_of("animal")}

    assert "dog" in animals(0)
    assert animals(1) - animals(0) >= {"cow", "mouse"}
    assert animals(2) - animals(1) >= {"elephant", "bee"}
    assert animals(0) < animals(1) < animals(2)


def test_names_and_fixed_phrases_are_named_once() -> None:
    assert len({one.english for one in SOMEONE}) == len(SOMEONE)
    assert len(FIXED) >= 80
