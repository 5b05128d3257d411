"""Sentence pairs, and text with random access to its pairs."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from flaxformer_mt.data.sources.language_tags import split_tag


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


class StoredPairs:
    """Sentence pairs in memory. A `PairSource`. Python strings would need several times as much."""

    def __init__(self) -> None:
        self._parts: list[list[Any]] = []
        self._starts = [0]

    def add(self, pairs: Sequence[Pair]) -> None:
        """Adds pairs at the end."""
        import pyarrow  # takes a tenth of a second

        sides = zip(*pairs, strict=True) if pairs else ((), ())
        self._parts.append([pyarrow.array(side, pyarrow.string()) for side in sides])
        self._starts.append(len(self) + len(pairs))

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, index: int) -> Pair:
        number = bisect_right(self._starts, index) - 1
        inside = index - self._starts[number]
        return Pair(*(side[inside].as_py() for side in self._parts[number]))


def source_lines(pairs: Iterable[Pair]) -> frozenset[str]:
    """Returns the source sentences of the pairs, without language tags and outer white space."""
    return frozenset(map(source_line, pairs))


def source_line(pair: Pair) -> str:
    """Returns the source sentence of a pair, without language tag and outer white space."""
    # Without the tag, because training must exclude a test sentence for every target language.
    return split_tag(pair.source)[1].strip()
