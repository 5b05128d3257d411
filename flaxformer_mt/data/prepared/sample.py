"""The text to learn a vocabulary from: chosen pairs of a corpus of any size."""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from flaxformer_mt.data.prepared.job import Job
from flaxformer_mt.data.prepared.scanning import CorpusScan
from flaxformer_mt.data.prepared.work import pick
from flaxformer_mt.data.sources.blocks import Block, PairStream
from flaxformer_mt.data.sources.corpora import choose_pairs, numbers_between
from flaxformer_mt.data.sources.pair import Pair


@dataclasses.dataclass(frozen=True)
class SampledText:
    """The pairs that `Corpus.choose` yields for text in memory, so the tokenizer is the same."""

    num_pairs: int
    languages: tuple[str, ...]
    passes: Sequence[Callable[[], Iterator[list[Pair]]]]
    """For each stream, a function that reads it once more and yields the chosen pairs."""

    def __len__(self) -> int:
        return self.num_pairs

    def choose(self, max_lines: int) -> Iterator[Pair]:
        """Yields the pairs that were chosen with this `max_lines`, or all pairs."""
        del max_lines
        for one_pass in self.passes:
            yield from itertools.chain.from_iterable(one_pass())


def sample_text(job: Job, scans: Sequence[CorpusScan]) -> SampledText:
    """Returns the good pairs to learn a vocabulary from: some, or all."""
    config = job.how.config
    max_lines = config.tokenizer.max_lines if config.tokenizer.kind == "sentencepiece" else 0
    ends = list(itertools.accumulate((scan.good for scan in scans), initial=0))
    chosen = choose_pairs(ends[-1], max_lines)
    readers = []
    for stream, scan, (start, end) in zip(
        job.streams, scans, itertools.pairwise(ends), strict=True
    ):
        inside = None if chosen is None else numbers_between(chosen, start, end)
        readers.append(partial(_blocks, stream, scan.block_sizes, inside, job.how.block_size))
    return SampledText(
        num_pairs=ends[-1],
        languages=tuple(dict.fromkeys(config.train.target_languages)),
        passes=job.workers.map_each(partial(pick, job.screen), readers),
    )


def _blocks(
    stream: PairStream, sizes: Sequence[int], chosen: np.ndarray | None, block_size: int
) -> Iterator[tuple[Block, np.ndarray]]:
    """Yields each block of a stream with chosen good pairs, and their numbers in the block."""
    start = 0
    for size, block in zip(sizes, stream.blocks(block_size), strict=False):
        end = start + size
        inside = np.arange(size) if chosen is None else numbers_between(chosen, start, end)
        if len(inside):
            yield block, inside
        start = end
