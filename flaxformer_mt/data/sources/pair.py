"""Sentence pairs, and the interface of a source of pairs."""

from typing import NamedTuple, Protocol, runtime_checkable


class Pair(NamedTuple):
    """A sentence and its translation."""

    source: str
    target: str


@runtime_checkable
class PairSource(Protocol):
    """Random access to sentence pairs."""

    def __len__(self) -> int:
        """The number of pairs."""
        ...

    def __getitem__(self, index: int, /) -> Pair:
        """Returns pair `index`, from 0 to `len - 1`."""
        ...
