"""The first pass over a corpus: counts records, lists bad ones, and fingerprints its files."""

import contextlib
import dataclasses
import functools
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from tqdm import tqdm

from flaxformer_mt.data.prepared.job import Job
from flaxformer_mt.data.prepared.manifest import fingerprint_file
from flaxformer_mt.data.prepared.work import Scanned
from flaxformer_mt.data.sources.blocks import num_text_bytes
from flaxformer_mt.data.sources.quarantine import check_bad_share, quarantine_line
from flaxformer_mt.storage.paths import naming


@dataclasses.dataclass(kw_only=True)
class CorpusScan:
    """The counts of one corpus."""

    name: str
    records: int = 0
    bad: Counter[str] = dataclasses.field(default_factory=Counter)
    """Bad records by reason."""
    first_bad: str = ""
    block_sizes: list[int] = dataclasses.field(default_factory=list)
    """The number of good pairs in each block."""

    @property
    def good(self) -> int:
        """The number of good pairs."""
        return sum(self.block_sizes)


def scan_corpora(job: Job) -> tuple[list[CorpusScan], dict[str, Any]]:
    """Reads all corpora once; returns their counts, and the fingerprint of each file.

    Raises ValueError if a corpus has too many bad records, and as `open_corpus`.
    """
    how, streams, quarantine = job.how, job.streams, job.how.quarantine
    files = [file for file in job.files if file.exists()]
    with contextlib.ExitStack() as stack:
        thread = ThreadPoolExecutor(1)
        stack.callback(thread.shutdown, cancel_futures=True)
        prints = [thread.submit(fingerprint_file, file) for file in files]
        with (
            naming(quarantine),
            open(quarantine, "w", encoding="utf-8") as bad_lines,
            tqdm(
                desc="reading", unit=" pairs", unit_scale=True, disable=not how.show_progress
            ) as progress,
        ):
            readers = [functools.partial(stream.blocks, how.block_size) for stream in streams]
            results = job.workers.map_each(job.screen, readers)
            sizes = [max(num_text_bytes(stream), 1) for stream in streams]
            starts = np.cumsum([0, *sizes]) / sum(sizes)
            scans = [
                _scan(stream.name, blocks(), bad_lines, progress, starts[i : i + 2])
                for i, (stream, blocks) in enumerate(zip(streams, results, strict=True))
            ]
        inputs = {str(file): found.result() for file, found in zip(files, prints, strict=True)}
    if not any(scan.bad for scan in scans):
        quarantine.unlink()
    check_scans(map(vars, scans), how.config.max_bad_share, quarantine)
    return scans, inputs


def check_scans(
    saved: Iterable[Mapping[str, Any]], max_bad_share: str, quarantine: Path
) -> list[CorpusScan]:
    """Returns saved counts, such as those of an earlier start with another `max_bad_share`.

    Raises ValueError if a corpus has too many bad records, which `quarantine` lists.
    """
    scans = [CorpusScan(**{**one, "bad": Counter(one["bad"])}) for one in saved]
    for scan in scans:
        check_bad_share(
            scan.bad, scan.first_bad, scan.records, scan.name, max_bad_share, quarantine
        )
    return scans


def _scan(
    name: str, blocks: Iterable[Scanned], bad_lines: TextIO, progress: tqdm, shares: np.ndarray
) -> CorpusScan:
    """Counts the records of a stream. `shares` are its start and end as fractions of all text."""
    scan = CorpusScan(name=name)
    for found in blocks:
        scan.records += found.num_records
        scan.block_sizes.append(found.num_good)
        if found.bad:
            scan.first_bad = scan.first_bad or str(found.bad[0])
            scan.bad.update(record.kind for record in found.bad)
            bad_lines.writelines(map(quarantine_line, found.bad))
        read = shares[0] + found.share * (shares[1] - shares[0])
        progress.total = round((progress.n + found.num_records) / max(read, 1e-9))  # an estimate
        progress.update(found.num_records)
    return scan
