"""A sentence and its translation, and anything that holds many of them."""

from typing import NamedTuple, Protocol, runtime_checkable


class Pair(NamedTuple):
    """A sentence and its translation."""

    source: str
    target: str


@runtime_checkable
class PairSource(Protocol):
    """Random access to sentence pairs: anything with a length and an index."""

    def __len__(self) -> int:
        """How many pairs there are."""
        ...

    def __getitem__(self, index: int, /) -> Pair:
        """Pair `index`, from 0 to `len - 1`."""
        ...
