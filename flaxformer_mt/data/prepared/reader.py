"""Random access to the pairs of a prepared corpus on disk."""

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Integer

from flaxformer_mt.data.batching.batch import Example
from flaxformer_mt.data.encoding import Counts
from flaxformer_mt.data.prepared.manifest import Manifest
from flaxformer_mt.data.prepared.shards import (
    COUNTS,
    IDS,
    LENGTHS,
    TEXT,
    TEXT_LENGTHS,
    Shard,
    read_counts,
    shard_directory,
)
from flaxformer_mt.data.sources.pair import Pair
from flaxformer_mt.data.tokenization.tokenized import hash_parts


@dataclasses.dataclass(frozen=True, eq=False)
class PreparedPairs:
    """The pairs of a prepared corpus on disk: `Examples`, and with text also a `PairSource`."""

    directory: Path
    manifest: Manifest

    def __len__(self) -> int:
        return int(self._starts[-1])

    def example(self, index: int) -> Example:
        """Returns the token ids of pair `index`."""
        number, inside = self._find(index)
        return self._shards[number].example(inside)

    def __getitem__(self, index: int) -> Pair:
        """Returns pair `index` as text, if the corpus has the text."""
        number, inside = self._find(index)
        return self._shards[number].pair(inside)

    def lengths(
        self, order: Integer[np.ndarray, "m"]
    ) -> tuple[Integer[np.ndarray, "m"], Integer[np.ndarray, "m"]]:
        """Returns the numbers of source and of target tokens of the pairs `order`.

        It reads one shard after the other, so that memory holds the lengths of one shard.
        """
        found = np.empty((2, len(order)), np.int32)
        by_shard = np.argsort(order, kind="stable")
        ascending = order[by_shard]
        borders = np.searchsorted(ascending, self._starts)
        for number, (first, last) in enumerate(zip(borders[:-1], borders[1:], strict=True)):
            if first < last:
                inside = ascending[first:last] - ascending.dtype.type(self._starts[number])
                found[:, by_shard[first:last]] = self._shards[number].lengths()[inside].T
        return found[0], found[1]

    def length_counts(self) -> Integer[np.ndarray, "k 3"]:
        """Returns rows of source tokens, target tokens, and the number of such pairs."""
        return np.load(self.directory / "lengths.npy")

    def fingerprint(self, start: int, end: int) -> str:
        """Returns the hash of the pairs from `start` to `end`, which must be one corpus.

        Raises ValueError for any other range.
        """
        first = 0
        for corpus in self.manifest.corpora:
            if (start, end) == (first, first + corpus.pairs):
                return corpus.fingerprint
            first += corpus.pairs
        raise ValueError(f"expected the range of one corpus, got {start} to {end}")

    def _find(self, index: int) -> tuple[int, int]:
        number = int(np.searchsorted(self._starts, index, side="right")) - 1
        return number, index - int(self._starts[number])

    @functools.cached_property
    def _starts(self) -> Integer[np.ndarray, "shards"]:
        sizes = [size for corpus in self.manifest.corpora for size in corpus.shards]
        return np.cumsum([0, *sizes])

    @functools.cached_property
    def _shards(self) -> tuple[Shard, ...]:
        numbers = range(len(self._starts) - 1)
        return tuple(
            Shard(str(shard_directory(self.directory, number)), self.manifest.id_type)
            for number in numbers
        )


def check_whole(directory: Path, manifest: Manifest, *, with_text: bool) -> None:
    """Raises ValueError if a file of a shard is missing or truncated.

    `with_text` also checks the text, which only subword sampling reads.
    """

    def check(file: Path, rows: int | None = None, size: int = 0) -> None:
        try:
            whole = file.exists() and file.stat().st_size >= size
            if whole and file.suffix == ".npy":
                whole = len(np.load(file, mmap_mode="r")) == rows or rows is None
        except (EOFError, ValueError):
            whole = False
        if not whole:
            raise ValueError(
                f"the prepared corpus {directory} is damaged: {file} is missing or truncated. "
                f"Delete {directory}, and prepare again."
            )

    check(directory / "lengths.npy")
    for number in range(sum(len(corpus.shards) for corpus in manifest.corpora)):
        shard = shard_directory(directory, number)
        check(shard / COUNTS)
        counts = read_counts(shard) or Counts()
        check(shard / LENGTHS, counts.pairs)
        for name, num_tokens in zip(IDS, counts.tokens, strict=True):
            num_ids = num_tokens + counts.pairs
            check(shard / name, size=num_ids * np.dtype(manifest.id_type).itemsize)
        if with_text:
            check(shard / TEXT_LENGTHS, counts.pairs)
            check(shard / TEXT, size=int(np.load(shard / TEXT_LENGTHS).sum(dtype=np.int64)))


def fingerprint_shards(shards: Sequence[Shard]) -> str:
    """Returns the hash of a corpus, which equals `TokenizedPairs.fingerprint` of the same pairs."""

    def parts() -> Iterator[np.ndarray]:
        for side in range(2):
            for shard in shards:
                yield np.ascontiguousarray(shard.lengths()[:, side], "<i8")
            for shard in shards:
                yield from (ids.astype("<i4") for ids in shard.id_parts(side))

    return hash_parts(parts())
