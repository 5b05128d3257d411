"""How people type: with short forms, in small letters, without stops."""

import re

from tools.demo_text.draw import Dice
from tools.demo_text.sentences import Sentence

AUXILIARIES = ["do", "does", "did", "is", "are", "was", "were", "should"]
CONTRACTIONS = (
    ("cannot", "can't"),
    *((f"{verb} not", f"{verb}n't") for verb in AUXILIARIES),
    ("will not", "won't"),
    ("I am", "I'm"),
    *((f"{who} is", f"{who}'s") for who in ("he", "she", "it", "what", "who", "where")),
    *((f"{who} are", f"{who}'re") for who in ("we", "they", "you")),
)


MORE_CONTRACTIONS = (
    *((f"{verb} not", f"{verb}n't") for verb in ("has", "have", "would", "could", "must")),
    *((f"{who} will", f"{who}'ll") for who in ("I", "you", "he", "she", "it", "we", "they")),
    *((f"{who} is", f"{who}'s") for who in ("that", "there")),
    *((f"{who} would like", f"{who}'d like") for who in ("I", "you", "he", "she", "we", "they")),
    *(("let us", "let's"), ("how is", "how's")),
)


BRITISH = (
    *(("neighbors", "neighbours"), ("neighbor", "neighbour"), ("theater", "theatre")),
    ("theaters", "theatres"),
)


def as_typed(dice: Dice, pair: Sentence) -> Sentence:
    """The pair as somebody in a hurry types it: contracted, in small letters, without stops.

    German keeps its capital letters.
    """
    ours, theirs = pair
    if dice.chance(30):
        ours = contract(ours)
    if dice.chance(30):
        ours = ours.replace(",", "")
    if dice.chance(25):
        ours = ours.lower()
    if dice.chance(25):
        ours, theirs = ours.rstrip(".?!"), theirs.rstrip(".?!")
    return ours, theirs


def as_title(dice: Dice, pair: Sentence) -> Sentence:
    """The pair; sometimes each English word has a capital letter, as in titles."""
    ours, theirs = pair
    if dice.chance(4):
        ours = " ".join(word[0].upper() + word[1:] for word in ours.split())
    return ours, theirs


def without_apostrophes(dice: Dice, pair: Sentence) -> Sentence:
    """The pair; sometimes with "dont", "Im" and "youre"."""
    ours, theirs = pair
    if dice.chance(4):
        ours = re.sub(r"\b(\w+n|I|you|they)'(t|m|re|ve)\b", r"\1\2", ours, flags=re.IGNORECASE)
    return ours, theirs


def contract_more(dice: Dice, pair: Sentence) -> Sentence:
    """The pair; often with the short forms that `as_typed` does not make: "I'll", "that's"."""
    ours, theirs = pair
    if dice.chance(55):
        ours = contract(ours, MORE_CONTRACTIONS)
    if dice.chance(40):
        ours = contract(ours, BRITISH)
    return ours, theirs


def contract(text: str, contractions: tuple[tuple[str, str], ...] = CONTRACTIONS) -> str:
    """The text with short forms: "isn't", "I'm"."""
    for long, short in contractions:
        text = re.sub(rf"\b{long}\b", short, text)
        text = re.sub(rf"\b{long.capitalize()}\b", short.capitalize(), text)
    return text
