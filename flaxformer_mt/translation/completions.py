"""Completes the last word of a prefix: from "der alte Hun" to "der alte Hund ist"."""

import bisect
from collections.abc import Collection, Sequence
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Int

from flaxformer_mt.search.rules import Completion

SPACE = "▁"
"""Marks a piece that begins with a space."""
LONGEST = 16
"""Most characters of an open word. The first tokens of a longer word are fixed."""
_LAST = "\U0010ffff"


class Ways(NamedTuple):
    """The ways to spell an open word, for each of its characters."""

    ranges: Int[np.ndarray, "C 2"]
    """The pieces that begin with the rest of the word: from rank, to rank."""
    parts: Int[np.ndarray, "C C"]
    """Tokens that spell a part of the rest; -1 = none."""


class Completions:
    """The pieces of a target vocabulary in alphabetical order."""

    def __init__(self, pieces: Sequence[str], special: Collection[int]) -> None:
        """Sorts the pieces. `special` are tokens without text."""
        spelling = sorted(
            (piece, token)
            for token, piece in enumerate(pieces)
            if piece and token not in special and not is_byte(piece)
        )
        self._sorted = [piece for piece, _ in spelling]
        self._tokens = np.array([token for _, token in spelling], np.int32)
        self.token_of = {piece: token for piece, token in spelling}
        self.in_parts = any(piece.startswith(SPACE) for piece in pieces)
        """Whether several pieces can spell a word."""
        self._ranks, self._widths = np.full((1, len(pieces)), -1), np.zeros((1, len(pieces)))
        self._ranks[0, self._tokens] = np.arange(len(spelling))
        self._widths[0, self._tokens] = [len(piece) for piece in self._sorted]

    def range(self, text: str) -> tuple[int, int]:
        """Returns the ranks (from, to) of the pieces that begin with the text."""
        return (
            bisect.bisect_left(self._sorted, text),
            bisect.bisect_left(self._sorted, text + _LAST),
        )

    def ways(self, word: str, suppressed: Bool[np.ndarray, " V"]) -> Ways | None:
        """Returns the ways to spell an open word without suppressed tokens, or None."""
        size = len(word)
        ranges = np.zeros((LONGEST, 2), np.int32)
        parts = np.full((LONGEST, LONGEST), -1, np.int32)
        possible = [False] * size
        for start in reversed(range(size)):
            first, end = ranges[start] = self.range(word[start:])
            possible[start] = not suppressed[self._tokens[first:end]].all()
            for stop in range(start + 1, size if self.in_parts else 0):
                token = self.token_of.get(word[start:stop])
                if possible[stop] and token is not None and not suppressed[token]:
                    parts[start, stop], possible[start] = token, True
        return Ways(ranges, parts) if possible[0] else None

    def rows(
        self, words: Sequence[str], suppressed: Bool[np.ndarray, " V"], rows: int
    ) -> Completion:
        """Returns the arrays of a batch; "" for a sentence without an open word."""
        lengths = np.zeros(rows)
        ranges = np.zeros((rows, LONGEST, 2))
        parts = np.full((rows, LONGEST, LONGEST), -1)
        for row, word in enumerate(words):
            found = self.ways(word, suppressed) if word else None
            if found:
                lengths[row], ranges[row], parts[row] = len(word), *found
        arrays = (lengths, ranges, parts, self._ranks, self._widths)
        return Completion(*(jax.device_put(x.astype(np.int32)) for x in arrays))


def is_byte(piece: str) -> bool:
    """Returns whether the piece is one byte of a rare character, such as <0xE4>."""
    return len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">")
