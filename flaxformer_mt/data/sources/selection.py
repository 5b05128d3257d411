"""Some of the pairs of a source, in its place: those that are fit and allowed for training."""

import dataclasses
from collections.abc import Iterable, Set

import numpy as np
from jaxtyping import Int64

from flaxformer_mt.data.sources.language_tags import split_tag
from flaxformer_mt.data.sources.pair import Pair, PairSource


@dataclasses.dataclass(frozen=True, eq=False)
class SelectedPairs:
    """The pairs of `source` at `indices`, as a pair source itself."""

    source: PairSource
    indices: Int64[np.ndarray, "n"]

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> Pair:
        return self.source[int(self.indices[index])]


def source_lines(pairs: Iterable[Pair]) -> frozenset[str]:
    """The source sentences of the pairs, without language tags and the white space around them."""
    return frozenset(_sentence(pair) for pair in pairs)


def without_lines(source: PairSource, lines: Set[str]) -> SelectedPairs:
    """The pairs whose source sentence is none of `lines`, which are as `source_lines` has them."""
    fresh = (index for index in range(len(source)) if _sentence(source[index]) not in lines)
    return SelectedPairs(source, np.fromiter(fresh, np.int64))


def _sentence(pair: Pair) -> str:
    # Without the tag: who has seen a test sentence go into French knows it in German too.
    return split_tag(pair.source)[1].strip()
