"""Prepares a corpus: text of any size becomes a tokenizer and shards of token ids.

    scan       counts the records, removes bad ones        inputs.json, quarantine.jsonl
    sample     learns the vocabularies                     tokenizer/
    encode     writes token ids, shard after shard         shards/00000/, ...
    finish     writes fingerprints, counts, lengths        manifest.json

Each stage writes its result, so that a killed run continues after the last one. Memory is bounded.
"""

import functools
import itertools
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from flaxformer_mt.data.config import DataConfig
from flaxformer_mt.data.encoding import Counts, Encoded, ReadBlocks, encode, learning_text
from flaxformer_mt.data.held_out import read_pairs
from flaxformer_mt.data.prepared.job import SHARD_SIZE, Job
from flaxformer_mt.data.prepared.manifest import (
    INPUTS,
    CorpusEntry,
    Manifest,
    check_scans,
    file_states,
    files_of,
    input_changes,
    read_json,
    setting_changes,
    settings_of,
    state_changes,
    training_streams,
    write_json,
)
from flaxformer_mt.data.prepared.reader import check_whole, fingerprint_shards
from flaxformer_mt.data.prepared.scanning import scan_corpora
from flaxformer_mt.data.prepared.shards import (
    Shard,
    integer_type,
    read_counts,
    save_array,
    shard_directory,
    write_shard,
)
from flaxformer_mt.data.sources.blocks import Block
from flaxformer_mt.data.sources.pair import Pair, source_lines
from flaxformer_mt.data.sources.quarantine import CorpusScan
from flaxformer_mt.data.tokenization.tokenized import count_lengths
from flaxformer_mt.data.tokenization.tokenizer import Tokenizer, build_tokenizer
from flaxformer_mt.data.worker_processes import Workers


def prepare_corpus(
    config: DataConfig,
    output: Path,
    *,
    num_processes: int = 1,
    workers: Workers | None = None,
    shard_size: int = SHARD_SIZE,
    after_part: Callable[[], None] | None = None,
) -> Manifest:
    """Prepares the training text of a configuration, or continues; returns the manifest.

    Args:
      config: the text, and how it becomes token ids.
      output: directory of the prepared corpus.
      num_processes: number of worker processes on this machine.
      workers: other workers to use instead.
      shard_size: number of records of a shard. A killed run repeats at most this many. A resumed
        run keeps the shard size of its start.
      after_part: called after the first pass, the tokenizer and each shard. It may move shards
        away. With it, the shards of a complete corpus are not checked.

    Raises:
      ValueError: text or settings are unusable, or have changed since the start.
      OSError: a missing file, a full disk, a killed process.
    """
    if not config.train.names:
        raise ValueError(
            "data.train lists no text to prepare; give text files as data.train.source and "
            "data.train.target, or other sources as data.train.pairs."
        )
    held_out: dict[str, Sequence[Pair]] = {
        split: read_pairs(config, getattr(config, split)) for split in config.exclude
    }
    settings = settings_of(config, held_out)
    found = read_json(output / INPUTS)
    if found:
        shard_size = found["shard_size"]
        _check_same(setting_changes(found["settings"], settings), output)
        _check_same(_input_changes(config, found["inputs"]), output)
    if manifest := Manifest.load(output):
        if not after_part:  # with it, the shards are in a bucket
            check_whole(output, manifest, with_text=manifest.has_text)
        return manifest
    output.mkdir(parents=True, exist_ok=True)
    streams = training_streams(config)
    with workers or Workers(num_processes) as workers:
        job = Job(
            config=config,
            output=output,
            shard_size=shard_size,
            workers=workers,
            streams=streams,
            files=file_states(files_of(config, streams)),
            exclude={split: source_lines(pairs) for split, pairs in held_out.items()},
            after_part=after_part or (lambda: None),
        )
        scans = _scan(job, settings, found)
        job.after_part()
        text = learning_text(config, job.readers, scans, job.exclude, workers)
        tokenizer = build_tokenizer(
            config.tokenizer, text, directory=output / "tokenizer", data_directory=config.directory
        )
        try:
            _check_same(state_changes(job.files), output)
        except ValueError:
            shutil.rmtree(output / "tokenizer")  # learnt from other text
            raise
        job.after_part()
        shards = _encode(job, scans, tokenizer)
    found = read_json(output / INPUTS)
    _check_same(_input_changes(config, found["inputs"]), output)
    manifest = _finish(job, scans, tokenizer, shards, found)
    manifest.save(output)
    return manifest


def id_type_of(tokenizer: Tokenizer) -> str:
    """Returns the smallest integer type that holds every token id."""
    return integer_type(max(tokenizer.source.size, tokenizer.target.size) - 1)


def _input_changes(config: DataConfig, before: Mapping[str, Any]) -> list[str]:
    """Returns a sentence for each file that has changed, is missing, or newly matches a pattern."""
    if changes := input_changes(before):
        return changes
    files = dict.fromkeys(str(file) for stream in training_streams(config) for file in stream.files)
    return [f"{file} is new" for file in files if file not in before]


def _check_same(changes: Sequence[str], output: Path) -> None:
    if changes:
        raise ValueError(
            f"{output} was prepared, or partly prepared, from other text or settings:\n  "
            + "\n  ".join(changes)
            + f"\nRestore them to continue, or prepare into a new directory, or delete {output}."
        )


def _scan(
    job: Job, settings: Mapping[str, Any], found: Mapping[str, Any] | None
) -> list[CorpusScan]:
    """Returns the counts of the first pass, from inputs.json if an earlier start wrote them."""
    if found:
        return check_scans(found["corpora"], job.config.max_bad_share, job.quarantine)
    scans, inputs = scan_corpora(job)
    first_pass = {"settings": settings, "shard_size": job.shard_size, "inputs": inputs}
    write_json(job.output / INPUTS, first_pass | {"corpora": [vars(scan) for scan in scans]})
    return scans


def _encode(job: Job, scans: Sequence[CorpusScan], tokenizer: Tokenizer) -> list[list[Counts]]:
    """Writes the missing shards. Raises ValueError if an input file changes meanwhile.

    Returns the counts of all shards of each corpus.
    """
    total, num_shards = Counts(), 0
    shards: list[list[Counts]] = []
    missing: list[range] = []
    readers = []
    for read, scan in zip(job.readers, scans, strict=True):
        first = num_shards
        num_shards += -(-len(scan.block_sizes) // job.blocks_per_shard)
        found = (read_counts(shard_directory(job.output, n)) for n in range(first, num_shards))
        done = [counts for counts in itertools.takewhile(bool, found) if counts]
        for counts in done:
            total.add(counts)
        shards.append(done)
        missing.append(range(first + len(done), num_shards))
        readers.append(functools.partial(_blocks_from, read, len(done) * job.blocks_per_shard))
    work = functools.partial(encode, config=job.config, exclude=job.exclude, tokenizer=tokenizer)
    results = job.workers.map_each(work, readers)
    with tqdm(
        desc="tokenizing",
        initial=total.records,
        total=sum(scan.records for scan in scans),
        unit=" pairs",
        unit_scale=True,
    ) as progress:
        longest = max(job.config.max_source_length, job.config.max_target_length)
        for done, numbers, read in zip(shards, missing, results, strict=True):
            blocks = _shown(read(), progress)
            for number in numbers:
                counts = write_shard(
                    shard_directory(job.output, number),
                    itertools.islice(blocks, job.blocks_per_shard),
                    id_type=id_type_of(tokenizer),
                    length_type=integer_type(longest),
                    with_text=job.config.tokenizer.sampling_alpha > 0,
                    check=lambda: _check_same(state_changes(job.files), job.output),
                )
                done.append(counts)
                total.add(counts)
                job.after_part()
    if not total.pairs:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in total.dropped.items())
        raise ValueError(
            f"no training pair is left of {total.records:,}: {reasons}. Check data.train, "
            "data.max_source_length, data.max_target_length and data.exclude."
        )
    return shards


def _shown(blocks: Iterable[Encoded], progress: tqdm) -> Iterator[Encoded]:
    for block in blocks:
        progress.update(block.counts.records)
        yield block


def _blocks_from(read: ReadBlocks, start: int) -> Iterator[Block]:
    return itertools.islice(read(), start, None)


def _finish(
    job: Job,
    scans: Sequence[CorpusScan],
    tokenizer: Tokenizer,
    shards: Sequence[Sequence[Counts]],
    found: Mapping[str, Any],
) -> Manifest:
    """Returns the manifest, and writes the lengths. `found` is the content of inputs.json."""
    total, corpora, lengths = Counts(), [], [np.empty((0, 3), np.int64)]
    id_type = id_type_of(tokenizer)
    numbers = itertools.count()
    for scan, of_corpus in zip(scans, shards, strict=True):
        own, written = Counts(), []
        for counts in of_corpus:
            own.add(counts)
            shard = Shard(str(shard_directory(job.output, next(numbers))), id_type)
            written.append(shard)
            lengths.append(count_lengths(*shard.lengths().T))
        corpora.append(
            CorpusEntry(
                name=scan.name,
                records=own.records,
                pairs=own.pairs,
                dropped=dict(own.dropped),
                shards=tuple(counts.pairs for counts in of_corpus),
                fingerprint=fingerprint_shards(written),
            )
        )
        total.add(own)
    save_array(job.output / "lengths.npy", count_lengths(*np.concatenate(lengths).T))
    return Manifest(
        settings=found["settings"],
        inputs=found["inputs"],
        tokenizer=tokenizer.fingerprint,
        languages=tuple(dict.fromkeys(job.config.train.target_languages)),
        corpora=tuple(corpora),
        id_type=id_type,
        has_text=job.config.tokenizer.sampling_alpha > 0,
        sides=dict(zip(("source", "target"), total.sides(tokenizer), strict=True)),
        first_bad=next((scan.first_bad for scan in scans if scan.first_bad), ""),
    )
