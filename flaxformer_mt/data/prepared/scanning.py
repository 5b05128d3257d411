"""The first two passes over a corpus, before it is encoded.

The first counts records, lists bad ones, and fingerprints files. The second samples the text from
which a vocabulary is learnt.
"""

import contextlib
import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TextIO

import numpy as np
from tqdm import tqdm

from flaxformer_mt.data.prepared.job import Job
from flaxformer_mt.data.prepared.manifest import fingerprint_file
from flaxformer_mt.data.prepared.work import Scanned, scan_block, select_pairs
from flaxformer_mt.data.sources.blocks import Block, PairStream, num_text_bytes
from flaxformer_mt.data.sources.corpora import choose_pairs
from flaxformer_mt.data.sources.pair import Pair
from flaxformer_mt.data.sources.quarantine import CorpusScan, quarantine_line
from flaxformer_mt.storage.paths import naming


def scan_corpora(job: Job) -> tuple[list[CorpusScan], dict[str, Any]]:
    """Reads all corpora once; returns their counts, and the fingerprint of each file.

    Raises ValueError if a corpus has too many bad records, and as `open_corpus`.
    """
    streams, quarantine = job.streams, job.quarantine
    with contextlib.ExitStack() as stack:
        thread = ThreadPoolExecutor(1)
        stack.callback(thread.shutdown, cancel_futures=True)
        prints = [thread.submit(fingerprint_file, file) for file in job.files]
        with (
            naming(quarantine),
            open(quarantine, "w", encoding="utf-8") as bad_lines,
            tqdm(desc="reading", unit=" pairs", unit_scale=True) as progress,
        ):
            readers = [functools.partial(stream.blocks, job.block_size) for stream in streams]
            results = job.workers.map_each(
                functools.partial(scan_block, exclude=job.exclude), readers
            )
            sizes = [max(num_text_bytes(stream), 1) for stream in streams]
            starts = np.cumsum([0, *sizes]) / sum(sizes)
            scans = [
                _add_up(stream.name, blocks(), bad_lines, progress, starts[i : i + 2])
                for i, (stream, blocks) in enumerate(zip(streams, results, strict=True))
            ]
        inputs = {str(file): found.result() for file, found in zip(job.files, prints, strict=True)}
    if not any(scan.bad for scan in scans):
        quarantine.unlink()
    for scan in scans:
        scan.check(job.config.max_bad_share, quarantine)
    return scans, inputs


def _add_up(
    name: str, blocks: Iterable[Scanned], bad_lines: TextIO, progress: tqdm, shares: np.ndarray
) -> CorpusScan:
    """Counts the records of a stream. `shares` are its start and end as fractions of all text."""
    total = CorpusScan(name=name)
    for found in blocks:
        total.add(found.num_records, found.num_good, found.bad)
        bad_lines.writelines(map(quarantine_line, found.bad))
        read = shares[0] + found.share * (shares[1] - shares[0])
        progress.total = round((progress.n + found.num_records) / max(read, 1e-9))  # an estimate
        progress.update(found.num_records)
    return total


@dataclasses.dataclass(frozen=True)
class SampledText:
    """The pairs that `Corpus.choose` yields for text in memory, so the tokenizer is the same."""

    num_pairs: int
    languages: tuple[str, ...]
    streams: Sequence[Callable[[], Iterator[list[Pair]]]]
    """For each stream, a function that reads it once more and yields the chosen pairs."""

    def __len__(self) -> int:
        return self.num_pairs

    def choose(self, max_lines: int) -> Iterator[Pair]:
        """Yields the pairs that were chosen with this `max_lines`, or all pairs."""
        del max_lines
        for read in self.streams:
            yield from itertools.chain.from_iterable(read())


def sample_text(job: Job, scans: Sequence[CorpusScan]) -> SampledText:
    """Returns the good pairs to learn a vocabulary from: some, or all."""
    tokenizer = job.config.tokenizer
    max_lines = tokenizer.max_lines if tokenizer.kind == "sentencepiece" else 0
    num_pairs = sum(scan.good for scan in scans)
    chosen = choose_pairs(num_pairs, max_lines)
    readers, start = [], 0
    for stream, scan in zip(job.streams, scans, strict=True):
        reader = functools.partial(_chosen_blocks, stream, scan, chosen, start, job.block_size)
        readers.append(reader)
        start += scan.good
    return SampledText(
        num_pairs=num_pairs,
        languages=tuple(dict.fromkeys(job.config.train.target_languages)),
        streams=job.workers.map_each(functools.partial(select_pairs, exclude=job.exclude), readers),
    )


def _chosen_blocks(
    stream: PairStream, scan: CorpusScan, chosen: np.ndarray | None, start: int, block_size: int
) -> Iterator[tuple[Block, np.ndarray]]:
    """Yields each block of a stream with chosen good pairs, and their numbers in the block.

    `chosen` is the result of `choose_pairs`, and `start` is the number of the first good pair.
    """
    for size, block in zip(scan.block_sizes, stream.blocks(block_size), strict=False):
        end = start + size
        if chosen is None:
            inside = np.arange(size)
        else:
            first, last = np.searchsorted(chosen, [start, end])
            inside = chosen[first:last] - start
        if len(inside):
            yield block, inside
        start = end
