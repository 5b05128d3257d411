"""Which target tokens go on with a word, and how a phrase that must appear is written in tokens."""

import functools
import unicodedata
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool

from flaxformer_mt.data.tokenization.vocabulary import Vocabulary

_SPACE = "▁"
_WITHOUT_SPACES = {"CJK", "HIRAGANA", "KATAKANA", "HANGUL", "THAI", "LAO", "KHMER", "MYANMAR"}
"""Scripts that write no space between words, or hang particles on them: first words of the names
of their characters in Unicode."""


class TargetWords:
    """A target vocabulary, seen as words."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        """Looks at every piece once, when first asked."""
        self.vocabulary = vocabulary

    @functools.cached_property
    def boundary(self) -> Bool[np.ndarray, " V"]:
        """True for tokens that do not go on with the word before them.

        Where no piece begins with a space, each is a word.
        """
        pieces = self.vocabulary.pieces
        if not any(piece.startswith(_SPACE) for piece in pieces):
            return np.ones(len(pieces), bool)
        goes_on = np.array([_is_letter(piece[:1]) or _is_byte(piece) for piece in pieces])
        special = [self.vocabulary.eos_id, self.vocabulary.pad_id, self.vocabulary.bos_id]
        goes_on[special] = False
        return ~goes_on

    def ends_inside_word(self, phrase: Sequence[int]) -> bool:
        """Whether one more token could make another word of the end of a phrase."""
        return _is_letter(self.vocabulary.detokenize(phrase)[-1:])

    def write(self, phrase: str) -> tuple[int, ...]:
        """The tokens of a phrase, without EOS.

        Raises ValueError if the vocabulary cannot write it, or would change it.
        """
        wanted = " ".join(phrase.split())
        tokens = self.vocabulary.tokenize(wanted)[:-1]
        pieces = self.vocabulary.pieces
        if (
            len(tokens) > 1
            and pieces[tokens[0]] == _SPACE
            and _script(wanted[:1]) in _WITHOUT_SPACES
        ):
            tokens = tokens[1:]  # as inside of a sentence
        written = self.vocabulary.detokenize(tokens)
        if not tokens or written != wanted or self.vocabulary.unk_id in tokens:
            raise ValueError(
                f"{phrase!r} cannot be written with the target vocabulary, which would make "
                f"{written!r} of it"
            )
        return tuple(tokens)


def _is_letter(text: str) -> bool:
    """A letter or digit of a script that puts spaces between words."""
    return text.isalnum() and _script(text) not in _WITHOUT_SPACES


def _script(character: str) -> str:
    return unicodedata.name(character, "").split(" ")[0] if character else ""


def _is_byte(piece: str) -> bool:
    """<0xE4>, part of a character that no piece has."""
    return len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">")
