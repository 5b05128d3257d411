"""Which target tokens continue a word, and the tokens of a phrase that must appear."""

import functools
import unicodedata
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool

from flaxformer_mt.data.tokenization.vocabulary import Vocabulary

_SPACE = "▁"
_WITHOUT_SPACES = {"CJK", "HIRAGANA", "KATAKANA", "HANGUL", "THAI", "LAO", "KHMER", "MYANMAR"}
"""Scripts without spaces between words, or with particles attached to words: the first words of the
Unicode names of their characters."""


class TargetWords:
    """The words of a target vocabulary."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        """The table of word boundaries is made at first use."""
        self.vocabulary = vocabulary

    @functools.cached_property
    def boundary(self) -> Bool[np.ndarray, " V"]:
        """True for tokens that do not continue the word before them.

        Where no piece begins with a space, every piece is a word.
        """
        pieces = self.vocabulary.pieces
        if not any(piece.startswith(_SPACE) for piece in pieces):
            return np.ones(len(pieces), bool)
        continues = np.array([_is_letter(piece[:1]) or _is_byte(piece) for piece in pieces])
        special = [self.vocabulary.eos_id, self.vocabulary.pad_id, self.vocabulary.bos_id]
        continues[special] = False
        return ~continues

    def ends_inside_word(self, phrase: Sequence[int]) -> bool:
        """Whether one more token could change the last word of a phrase."""
        return _is_letter(self.vocabulary.detokenize(phrase)[-1:])

    def tokenize_phrase(self, phrase: str) -> tuple[int, ...]:
        """The tokens of a phrase, without EOS.

        Raises ValueError if the vocabulary cannot represent the phrase exactly.
        """
        wanted = " ".join(phrase.split())
        tokens = self.vocabulary.tokenize(wanted)[:-1]
        pieces = self.vocabulary.pieces
        if (
            len(tokens) > 1
            and pieces[tokens[0]] == _SPACE
            and _script(wanted[:1]) in _WITHOUT_SPACES
        ):
            tokens = tokens[1:]  # as inside a sentence
        written = self.vocabulary.detokenize(tokens)
        if not tokens or written != wanted or self.vocabulary.unk_id in tokens:
            raise ValueError(
                f"{phrase!r} cannot be written with the target vocabulary: it would become "
                f"{written!r}"
            )
        return tuple(tokens)


def _is_letter(text: str) -> bool:
    """Whether this is a letter or digit of a script with spaces between words."""
    return text.isalnum() and _script(text) not in _WITHOUT_SPACES


def _script(character: str) -> str:
    return unicodedata.name(character, "").split(" ")[0] if character else ""


def _is_byte(piece: str) -> bool:
    """Whether this is a byte of a character without a piece of its own, such as <0xE4>."""
    return len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">")
