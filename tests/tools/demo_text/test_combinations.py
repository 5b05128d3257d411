"""Joined sentences, more clauses and unknown words against translations by hand."""

import re

import pytest
from tiers import slow_after

from flaxformer_mt.data.tokenization.known_words import UNKNOWN_WORD
from tools.demo_text.combinations import COMBINATIONS
from tools.demo_text.draw import Dice
from tools.demo_text.more_clauses import MORE_CLAUSES
from tools.demo_text.unknown import unknown_word

DRAWS = dict.fromkeys((*COMBINATIONS, *MORE_CLAUSES, unknown_word))
TRANSLATIONS = {  # a random draw contains some of them
    "asking": {
        "ask her if she is tired": "frag sie, ob sie müde ist",
        "ask her if she is happy": "frag sie, ob sie glücklich ist",
        "ask him if he is sick": "frag ihn, ob er krank ist",
        "ask him where he works": "frag ihn, wo er arbeitet",
        "he asked where she lives": "er hat gefragt, wo sie wohnt",
        "she asked me where he was sleeping": "sie hat mich gefragt, wo er geschlafen hat",
    },
    "could_i": {
        "could I have coffee, please?": "könnte ich Kaffee haben, bitte?",
        "can I have the key?": "kann ich den Schlüssel haben?",
    },
    "danced": {
        "we danced and sang": "wir haben getanzt und gesungen",
        "he eats, cooks and sleeps": "er isst, kocht und schläft",
    },
    "more_of_it": {
        "the hat is not red, it is black": "der Hut ist nicht rot, er ist schwarz",
        "the hat is not new, it is old": "der Hut ist nicht neu, er ist alt",
        "my jacket is old, but it is clean": "meine Jacke ist alt, aber sie ist sauber",
        "his bag is not red, it is blue": "seine Tasche ist nicht rot, sie ist blau",
        "the book is new, but it is boring": "das Buch ist neu, aber es ist langweilig",
        "the cat is small and it is black": "die Katze ist klein und sie ist schwarz",
        "my bag is old, but it is clean": "meine Tasche ist alt, aber sie ist sauber",
        "her book is not new, it is boring": "ihr Buch ist nicht neu, es ist langweilig",
        "the hat is black, but it is blue": "der Hut ist schwarz, aber er ist blau",
    },
    "opened": {"thank you, how are you?": "danke, wie geht es dir?"},
    "pronouns": {
        "I miss you": "ich vermisse dich",
        "we pick you up": "wir holen dich ab",
        "did you help me?": "hast du mir geholfen?",
        "she asked him": "sie hat ihn gefragt",
    },
    "side_by_side": {
        "he cooks and she dances": "er kocht und sie tanzt",
        "she cooks and he sleeps": "sie kocht und er schläft",
        "he sings and she dances": "er singt und sie tanzt",
        "she worked and I slept": "sie hat gearbeitet und ich habe geschlafen",
        "he is sick, but he is working": "er ist krank, aber er arbeitet",
        "it is late and she is tired": "es ist spät und sie ist müde",
        "it is hot and we are tired": "es ist heiß und wir sind müde",
    },
    "stop": {"stop singing!": "hör auf zu singen!"},
    "to_a_person": {
        "he went to London": "er ist nach London gefahren",
        "she is going to the doctor": "sie geht zum Arzt",
    },
    "too_much_for": {
        "thank you for the letter": "danke für den Brief",
        "it is too small for me": "es ist zu klein für mich",
    },
    "unknown_word": {
        f"is the {UNKNOWN_WORD} happy?": f"ist der {UNKNOWN_WORD} glücklich?",
        f"the {UNKNOWN_WORD} are happy": f"die {UNKNOWN_WORD} sind glücklich",
        f"he is an {UNKNOWN_WORD}": f"er ist {UNKNOWN_WORD}",
        f"we have two {UNKNOWN_WORD}": f"wir haben zwei {UNKNOWN_WORD}",
    },
    "whose_name": {
        "what is your sister's name?": "wie heißt deine Schwester?",
        "what was his dog's name?": "wie hieß sein Hund?",
    },
}


@pytest.mark.parametrize("draw", slow_after(3, DRAWS), ids=lambda draw: draw.__name__)
def test_sentences_are_translated_as_by_hand(draw) -> None:
    expected = TRANSLATIONS.get(draw.__name__, {})
    found: dict[str, str] = {}
    for index in range(12_000 if expected else 300):
        dice = Dice(f"{draw.__name__} {index}", blocks=4)
        ours, theirs = draw(dice)
        # Otherwise the last choices would all be the first option.
        assert dice.chance(100) and dice._number > 0
        assert not re.search(r"  |^ | $| [,.?!]", ours + theirs), (ours, theirs)
        assert (ours[-1] in "?!") == (theirs[-1] in "?!"), (ours, theirs)
        assert found.setdefault(ours, theirs) == theirs
    common = expected.keys() & found.keys()
    assert common or not expected
    assert {ours: found[ours] for ours in common} == {ours: expected[ours] for ours in common}


def test_unknown_words_are_copied() -> None:
    """As often as they are in the English sentence."""
    for index in range(2000):
        ours, theirs = unknown_word(Dice(f"unknown {index}", blocks=4))
        assert 1 <= ours.count(UNKNOWN_WORD) == theirs.count(UNKNOWN_WORD), (ours, theirs)
