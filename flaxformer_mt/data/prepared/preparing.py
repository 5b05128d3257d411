"""Prepares a corpus: text of any size becomes a tokenizer and shards of token ids.

    scan       counts the records, removes bad ones        inputs.json, quarantine.jsonl
    sample     learns the vocabularies                     tokenizer/
    encode     writes token ids, shard after shard         shards/00000/, ...
    finish     writes fingerprints, counts, lengths        manifest.json

Each stage writes its result, so that a killed run continues after the last one. Memory is bounded.
"""

import dataclasses
import functools
import itertools
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from flaxformer_mt.data.config import DataConfig
from flaxformer_mt.data.held_out import read_pairs
from flaxformer_mt.data.prepared.job import Job, Preparation
from flaxformer_mt.data.prepared.manifest import (
    INPUTS,
    CorpusEntry,
    Manifest,
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
from flaxformer_mt.data.prepared.sample import sample_text
from flaxformer_mt.data.prepared.scanning import CorpusScan, check_scans, scan_corpora
from flaxformer_mt.data.prepared.shards import (
    Shard,
    ShardCounts,
    ShardWriter,
    integer_type,
    read_counts,
    save_array,
    shard_directory,
)
from flaxformer_mt.data.prepared.work import EncodeTask, Screen, encode
from flaxformer_mt.data.report import MAX_PAIRS_NAMED, NUM_TOKENS_NAMED, Side
from flaxformer_mt.data.sources.blocks import Block
from flaxformer_mt.data.sources.selection import source_lines
from flaxformer_mt.data.tokenization.tokenized import count_lengths
from flaxformer_mt.data.tokenization.tokenizer import Tokenizer, build_tokenizer
from flaxformer_mt.data.worker_processes import Workers


def prepare_corpus(how: Preparation) -> Manifest:
    """Prepares the training text of a configuration, or continues; returns the manifest.

    Raises:
      ValueError: text or settings are unusable, or have changed since the start.
      OSError: a missing file, a full disk, a killed process.
    """
    config, output = how.config, how.output
    if not config.train.names:
        raise ValueError(
            "data.train lists no text to prepare; give text files as data.train.source and "
            "data.train.target, or other sources as data.train.pairs."
        )
    held_out = {split: read_pairs(config, getattr(config, split)) for split in config.exclude}
    settings = settings_of(config, held_out)
    found = read_json(output / INPUTS)
    if found:
        how = dataclasses.replace(how, shard_size=found["shard_size"])
        _check_same(setting_changes(found["settings"], settings), output)
        _check_same(_input_changes(config, found["inputs"]), output)
    if manifest := Manifest.load(output):
        if not how.after_part:  # with it, the shards are in a bucket
            check_whole(output, manifest, with_text=manifest.has_text)
        return manifest
    output.mkdir(parents=True, exist_ok=True)
    streams = training_streams(config)
    files = files_of(config, streams)
    screen = Screen({split: source_lines(held_out[split]) for split in config.exclude})
    with how.workers or Workers(how.num_processes) as workers:
        job = Job(
            how=how,
            workers=workers,
            streams=streams,
            files=files,
            states=file_states(files),
            screen=screen,
        )
        scans = _scan(job, settings, found)
        if how.after_part:
            how.after_part()
        text = sample_text(job, scans)
        tokenizer = build_tokenizer(
            config.tokenizer,
            text,
            directory=output / "tokenizer",
            data_directory=config.directory,
        )
        try:
            _check_same(state_changes(job.states), output)
        except ValueError:
            shutil.rmtree(output / "tokenizer")  # learnt from other text
            raise
        if how.after_part:
            how.after_part()
        shards = _encode(job, scans, tokenizer)
    _check_same(_input_changes(config, read_json(output / INPUTS)["inputs"]), output)
    manifest = _finish(how, scans, tokenizer, text.languages, shards)
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
            + f"\nPut them back to continue, or prepare into a new directory (or delete {output})."
        )


def _scan(
    job: Job, settings: Mapping[str, Any], found: Mapping[str, Any] | None
) -> list[CorpusScan]:
    """Returns the counts of the first pass. It makes the pass unless inputs.json has its result."""
    how = job.how
    if found:
        return check_scans(found["corpora"], how.config.max_bad_share, how.quarantine)
    scans, inputs = scan_corpora(job)
    corpora = [vars(scan) for scan in scans]
    first_pass = {"settings": settings, "shard_size": how.shard_size, "inputs": inputs}
    write_json(how.output / INPUTS, first_pass | {"corpora": corpora})
    return scans


def _encode(job: Job, scans: Sequence[CorpusScan], tokenizer: Tokenizer) -> list[list[ShardCounts]]:
    """Writes the missing shards, while the files stay as they are; returns all counts."""
    how = job.how
    total, numbers = ShardCounts(), itertools.count()
    shards: list[list[ShardCounts]] = []
    unfinished: list[tuple[list[ShardCounts], Callable[[], Iterator[EncodeTask]]]] = []
    for stream, scan in zip(job.streams, scans, strict=True):
        count = -(-len(scan.block_sizes) // how.blocks_per_shard)
        of_stream = list(itertools.islice(numbers, count))
        found = (read_counts(shard_directory(how.output, number)) for number in of_stream)
        done = [counts for counts in itertools.takewhile(bool, found) if counts]
        for counts in done:
            total.add(counts)
        shards.append(done)
        if len(done) < count:
            tasks = functools.partial(
                _tasks,
                functools.partial(stream.blocks, how.block_size),
                of_stream[len(done) :],
                len(done) * how.blocks_per_shard,
                len(scan.block_sizes),
                how.blocks_per_shard,
                total,
            )
            unfinished.append((done, tasks))
    work = functools.partial(
        encode,
        screen=job.screen,
        tokenizer=tokenizer,
        max_source_length=how.config.max_source_length,
        max_target_length=how.config.max_target_length,
        with_text=how.config.tokenizer.sampling_alpha > 0,
    )
    results = job.workers.map_each(work, [tasks for _, tasks in unfinished])
    with tqdm(
        desc="tokenizing",
        initial=total.records,
        total=sum(scan.records for scan in scans),
        unit=" pairs",
        unit_scale=True,
        disable=not how.show_progress,
    ) as progress:
        for (done, _), encoded in zip(unfinished, results, strict=True):
            for number, blocks in itertools.groupby(encoded(), lambda block: block.shard):
                writer = ShardWriter(
                    shard_directory(how.output, number),
                    id_type=id_type_of(tokenizer),
                    length_type=integer_type(
                        max(how.config.max_source_length, how.config.max_target_length)
                    ),
                    unk_ids=(tokenizer.source.unk_id, tokenizer.target.unk_id),
                )
                for block in blocks:
                    writer.append(block, total.pairs_with_unknown)
                    progress.update(block.num_records)
                counts = writer.finish(lambda: _check_same(state_changes(job.states), how.output))
                done.append(counts)
                total.add(counts)
                if how.after_part:
                    how.after_part()
    if not total.pairs:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in total.dropped.items())
        raise ValueError(
            f"no training pair is left of {total.records:,}: {reasons}. Check data.train, "
            "data.max_source_length, data.max_target_length and data.exclude."
        )
    return shards


def _tasks(
    read: Callable[[], Iterator[Block]],
    numbers: Sequence[int],
    start: int,
    end: int,
    per_shard: int,
    total: ShardCounts,
) -> Iterator[EncodeTask]:
    """Yields the blocks from `start` to `end`, which make up the shards `numbers`."""
    for index, block in enumerate(itertools.islice(read(), start, end)):
        named = min(total.pairs_with_unknown)
        yield EncodeTask(numbers[index // per_shard], block, named < MAX_PAIRS_NAMED)


def _finish(
    how: Preparation,
    scans: Sequence[CorpusScan],
    tokenizer: Tokenizer,
    languages: tuple[str, ...],
    shards: Sequence[Sequence[ShardCounts]],
) -> Manifest:
    total, corpora, lengths = ShardCounts(), [], [np.empty((0, 3), np.int64)]
    id_type = id_type_of(tokenizer)
    numbers = itertools.count()
    for scan, of_corpus in zip(scans, shards, strict=True):
        own, read = ShardCounts(), []
        for counts in of_corpus:
            own.add(counts)
            shard = Shard(str(shard_directory(how.output, next(numbers))), id_type)
            read.append(shard)
            lengths.append(count_lengths(*shard.lengths().T))
        corpora.append(
            CorpusEntry(
                name=scan.name,
                records=own.records,
                pairs=own.pairs,
                dropped=dict(own.dropped),
                shards=tuple(counts.pairs for counts in of_corpus),
                fingerprint=fingerprint_shards(read),
            )
        )
        total.add(own)
    found = read_json(how.output / INPUTS)
    save_array(how.output / "lengths.npy", count_lengths(*np.concatenate(lengths).T))
    return Manifest(
        settings=found["settings"],
        inputs=found["inputs"],
        tokenizer=tokenizer.fingerprint,
        languages=languages,
        corpora=tuple(corpora),
        id_type=id_type,
        has_text=how.config.tokenizer.sampling_alpha > 0,
        sides=_sides(tokenizer, total),
        first_bad=next((scan.first_bad for scan in scans if scan.first_bad), ""),
    )


def _sides(tokenizer: Tokenizer, total: ShardCounts) -> dict[str, Side]:
    return {
        name: Side(
            vocabulary_size=getattr(tokenizer, name).size,
            num_tokens=total.tokens[number],
            num_unknown=total.unknown[number],
            most_frequent_unknown=tuple(total.unknown_words[number].most_common(NUM_TOKENS_NAMED)),
        )
        for number, name in enumerate(("source", "target"))
    }
