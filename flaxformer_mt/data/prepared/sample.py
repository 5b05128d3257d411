"""The text to learn a vocabulary from: chosen pairs of a corpus of any size."""

import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from flaxformer_mt.data.prepared.blocks import Block, PairStream
from flaxformer_mt.data.prepared.scanning import CorpusScan
from flaxformer_mt.data.prepared.work import Pick, Screen
from flaxformer_mt.data.sources.corpora import Corpus, CorpusConfig
from flaxformer_mt.data.sources.pair import Pair
from flaxformer_mt.data.tokenization.tokenizer import choose_pairs, numbers_between
from flaxformer_mt.data.worker_processes import Workers


def sampled_corpus(
    config: CorpusConfig,
    streams: Sequence[PairStream],
    scans: Sequence[CorpusScan],
    screen: Screen,
    *,
    max_lines: int,
    block_size: int,
    workers: Workers,
) -> Corpus:
    """Returns a corpus whose pairs can be read in the order of `build_tokenizer`: ascending.

    They are the same pairs as for text in memory, so that the tokenizer is the same.
    """
    chosen = choose_pairs(sum(scan.good for scan in scans), max_lines)
    tasks, start = [], 0
    for stream, scan in zip(streams, scans, strict=True):
        end = start + scan.good
        inside = None if chosen is None else numbers_between(chosen, start, end)
        tasks.append(_Tasks(stream, scan, inside, block_size))
        start = end
    picked = workers.map_each(Pick(screen), [one.blocks for one in tasks])
    return Corpus(
        sources=tuple(map(_Ascending, (scan.good for scan in scans), tasks, picked)),
        weights=(1.0,) * len(streams),
        names=config.names,
        languages=tuple(dict.fromkeys(config.target_languages)),
    )


class _Tasks:
    """The blocks of a stream that contain chosen good pairs, and the numbers of these pairs."""

    def __init__(
        self,
        stream: PairStream,
        scan: CorpusScan,
        chosen: np.ndarray | None,
        block_size: int,
    ) -> None:
        self._stream, self._scan = stream, scan
        self._chosen, self._block_size = chosen, block_size

    def blocks(self) -> Iterator[tuple[Block, np.ndarray]]:
        """Yields each block, and the numbers of the chosen pairs in it."""
        blocks = self._stream.blocks(self._block_size)
        for (start, size), block in zip(self._starts(), blocks, strict=False):
            numbers = self._numbers(start, size)
            if len(numbers):
                yield block, numbers

    def numbers(self) -> Iterator[int]:
        """Yields the numbers of all chosen pairs in the stream, in ascending order."""
        for start, size in self._starts():
            yield from (start + self._numbers(start, size)).tolist()

    def _starts(self) -> Iterator[tuple[int, int]]:
        sizes = self._scan.block_sizes
        return zip(itertools.accumulate(sizes, initial=0), sizes, strict=False)

    def _numbers(self, start: int, size: int) -> np.ndarray:
        if self._chosen is None:
            return np.arange(size)
        return numbers_between(self._chosen, start, start + size)


class _Ascending:
    """A `PairSource` of chosen pairs. It allows repeated passes in ascending order."""

    def __init__(
        self, size: int, tasks: _Tasks, picked: Callable[[], Iterator[list[Pair]]]
    ) -> None:
        self._size, self._tasks, self._picked = size, tasks, picked
        self._last, self._pairs = size, iter(())

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int) -> Pair:
        if index <= self._last:
            self._pairs = self._pass()
        for number, pair in self._pairs:
            if number == index:
                self._last = number
                return pair
        raise IndexError(f"pair {index} was not chosen")

    def _pass(self) -> Iterator[tuple[int, Pair]]:
        pairs = itertools.chain.from_iterable(self._picked())
        yield from zip(self._tasks.numbers(), pairs, strict=True)
