"""The first pass over a corpus: counts records, lists bad ones, and fingerprints files."""

import contextlib
import functools
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TextIO

import numpy as np
from tqdm import tqdm

from flaxformer_mt.data.encoding import Scanned, scan_block
from flaxformer_mt.data.prepared.job import Job
from flaxformer_mt.data.prepared.manifest import fingerprint_file
from flaxformer_mt.data.sources.blocks import num_text_bytes
from flaxformer_mt.data.sources.quarantine import CorpusScan, quarantine_line
from flaxformer_mt.storage.paths import naming


def scan_corpora(job: Job) -> tuple[list[CorpusScan], dict[str, Any]]:
    """Reads all corpora once; returns their counts, and the fingerprint of each file.

    Raises ValueError if a corpus has too many bad records, and as `open_streams`.
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
            scan = functools.partial(scan_block, exclude=job.exclude)
            results = job.workers.map_each(scan, job.readers)
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
    """Returns the counts of a stream. `shares` are its start and end as fractions of all text."""
    total = CorpusScan(name=name)
    for found in blocks:
        total.add(found.num_records, found.num_good, found.bad)
        bad_lines.writelines(map(quarantine_line, found.bad))
        read = shares[0] + found.share * (shares[1] - shares[0])
        progress.total = round((progress.n + found.num_records) / max(read, 1e-9))  # an estimate
        progress.update(found.num_records)
    return total
