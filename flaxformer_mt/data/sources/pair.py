"""Sentence pairs, the interface of a source of pairs, and sources made of other sources."""

import dataclasses
import functools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int64

from flaxformer_mt.data.sources.language_tags import split_tag, tag_of


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


@dataclasses.dataclass(frozen=True, eq=False)
class SelectedPairs:
    """The pairs of `source` at `indices`. A `PairSource`."""

    source: PairSource
    indices: range | Int64[np.ndarray, "n"]

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> Pair:
        return self.source[int(self.indices[index])]


@dataclasses.dataclass(frozen=True, eq=False)
class JoinedPairs:
    """The pairs of several sources, source after source. A `PairSource`."""

    sources: Sequence[PairSource]

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __getitem__(self, index: int) -> Pair:
        number = int(np.searchsorted(self._starts, index, side="right")) - 1
        return self.sources[number][index - int(self._starts[number])]

    @functools.cached_property
    def _starts(self) -> Int64[np.ndarray, "starts"]:
        return np.cumsum([0, *map(len, self.sources)])


@dataclasses.dataclass(frozen=True, eq=False)
class TaggedPairs:
    """The pairs of a source, with the tag of the target language before each source text."""

    source: PairSource
    language: str

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> Pair:
        pair = self.source[index]
        return pair._replace(source=f"{tag_of(self.language)} {pair.source}")


def join_pairs(sources: Sequence[PairSource]) -> PairSource:
    """Returns the pairs of all sources, source after source."""
    return sources[0] if len(sources) == 1 else JoinedPairs(sources)


def source_lines(pairs: Iterable[Pair]) -> frozenset[str]:
    """Returns the source sentences of the pairs, without language tags and outer white space."""
    return frozenset(_sentence(pair) for pair in pairs)


def exclude_lines(
    source: PairSource, lines_of: Mapping[str, Set[str]]
) -> tuple[PairSource, Counter[str]]:
    """Drops pairs whose source sentence is in a held-out set, and counts them.

    Args:
      source: the pairs.
      lines_of: the result of `source_lines` for each set, by its name.
    """
    excluded: Counter[str] = Counter()
    for split, lines in lines_of.items():
        kept = (i for i in range(len(source)) if _sentence(source[i]) not in lines)
        selected = SelectedPairs(source, np.fromiter(kept, np.int64))
        excluded[f"with a {split} line as source"] += len(source) - len(selected)
        source = selected
    return source, excluded


def _sentence(pair: Pair) -> str:
    # Without the tag: training must not see a test sentence with any target language.
    return split_tag(pair.source)[1].strip()
