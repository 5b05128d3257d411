"""The interface of a vocabulary, which converts text of a language to token ids and back."""

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, Protocol, SupportsInt, runtime_checkable

# The special tokens of every vocabulary learnt here, and the first four rows of word files.
PAD_ID, UNK_ID, BOS_ID, EOS_ID = range(4)

SPACE = "▁"
"""SentencePiece's character for a space inside pieces."""


@runtime_checkable
class Vocabulary(Protocol):
    """The interface of a vocabulary, and what most vocabularies share."""

    suffix: ClassVar[str]
    """The suffix of its file name in the workdir."""
    size: int
    """Number of tokens V, special tokens included."""
    pad_id: int
    unk_id: int
    bos_id: int
    eos_id: int
    pieces: tuple[str, ...]
    """The text of every token id."""

    def tokenize(self, text: str) -> list[int]:
        """Returns the token ids of `text`, with EOS at the end and no BOS."""
        ...

    def tokenize_texts(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns `tokenize` of each text."""
        return [self.tokenize(text) for text in texts]

    def detokenize(self, ids: Iterable[SupportsInt]) -> str:
        """Returns the text of `ids` up to the first EOS, on one line, without special tokens."""
        ...

    def sample(self, text: str, random: Callable[[], float]) -> list[int]:
        """Returns the token ids of a random segmentation. By default, it does not sample.

        The result depends only on `text` and on the numbers in [0, 1) that `random` returns.
        """
        return self.tokenize(text)

    def to_bytes(self) -> bytes:
        """Returns the content of its file."""
        ...


def until_end(ids: Iterable[SupportsInt], eos_id: int, silent: set[int]) -> list[int]:
    """Returns the ids before the first EOS, without those in `silent`."""
    before_end = itertools.takewhile(lambda token: token != eos_id, map(int, ids))
    return [token for token in before_end if token not in silent]


def without_line_breaks(text: str) -> str:
    """Returns `text` with every line break of `str.splitlines` as a space."""
    return " ".join(text.splitlines())
