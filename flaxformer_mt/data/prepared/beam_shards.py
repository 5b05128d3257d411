"""Writes the shards of a prepared corpus on Apache Beam.

Workers write complete shards to a shared folder, each with a list of its unknown words. The process
that prepares moves them into the prepared corpus, and counts the unknown words of the first pairs.
"""

import dataclasses
import functools
import itertools
import json
import shutil
import tempfile
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from upath import UPath

from flaxformer_mt.data.config import DataConfig
from flaxformer_mt.data.prepared.beam import BeamWorkers
from flaxformer_mt.data.prepared.blocks import Block, PairStream, open_streams
from flaxformer_mt.data.prepared.manifest import read_json
from flaxformer_mt.data.prepared.shards import (
    COUNTS,
    ShardCounts,
    ShardWriter,
    read_counts,
    shard_directory,
    write_counts,
)
from flaxformer_mt.data.prepared.work import Encode, Encoded, EncodeTask
from flaxformer_mt.data.report import MAX_PAIRS_NAMED
from flaxformer_mt.data.sources.corpora import CorpusConfig
from flaxformer_mt.storage.paths import AnyPath, as_path, download, file_sizes, remove_tree, upload

UNKNOWN = "unknown.json"  # the unknown words, pair by pair; written last


def worker_streams(config: DataConfig, streams: Sequence[PairStream]) -> list[PairStream]:
    """Returns the sources as streams that can be sent: the worker that reads one opens it."""
    return [
        _WorkerStream(
            name=stream.name,
            tag=stream.tag,
            limit=stream.limit,
            parts=stream.parts,
            config=dataclasses.replace(config, train=_one_source(config.train, number)),
        )
        for number, stream in enumerate(streams)
    ]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _WorkerStream(PairStream):
    """A stream that opens its files where it is read."""

    config: DataConfig
    """Names this source alone."""

    def blocks(self, size: int) -> Iterator[Block]:
        """As `PairStream.blocks`."""
        (stream,) = open_streams(
            self.config.train,
            directory=self.config.directory,
            source_language=self.config.source_language,
            target_language=self.config.target_language,
        )
        return stream.blocks(size)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "parts": ()}  # those of this machine


def _one_source(train: CorpusConfig, number: int) -> CorpusConfig:
    """Returns a configuration with one source of another."""
    here, pair = slice(number, number + 1), max(number - len(train.source), 0)
    pairs = train.pairs[pair : pair + 1] if number >= len(train.source) else ()
    return CorpusConfig(
        source=train.source[here],
        target=train.target[here],
        pairs=pairs,
        source_languages=train.source_languages[here],
        target_languages=train.target_languages[here],
        limit=train.limit,
    )


def write_shards(
    workers: BeamWorkers,
    shards: AnyPath,
    output: Path,
    streams: Sequence[PairStream],
    num_blocks: Sequence[int],
    *,
    block_size: int,
    blocks_per_shard: int,
    encode: Encode,
    new_writer: Callable[[Path], ShardWriter],
) -> None:
    """Writes the shards that are missing in `output`, each with `blocks_per_shard` blocks.

    Args:
      workers: write the shards.
      shards: the shared folder for them.
      output: the prepared corpus.
      streams: the sources.
      num_blocks: the number of blocks of each.
      block_size: records of a block.
      blocks_per_shard: blocks of a shard.
      encode: what is done with a block.
      new_writer: begins a shard in a directory.
    """
    done = {name.split("/")[0] for name in file_sizes(shards) if name.endswith(f"/{UNKNOWN}")}
    numbers, readers = itertools.count(), []
    for stream, blocks in zip(streams, num_blocks, strict=True):
        of_stream = itertools.islice(numbers, -(-blocks // blocks_per_shard))
        directories = [shard_directory(output, number) for number in of_stream]
        missing = {
            index: int(directory.name)
            for index, directory in enumerate(directories)
            if directory.name not in done and not (directory / COUNTS).exists()
        }
        tasks = functools.partial(
            _shard_tasks, stream.blocks, block_size, blocks, blocks_per_shard, missing
        )
        readers += [tasks] if missing else []
    if readers:
        write = functools.partial(_write_shard, str(shards), new_writer)
        workers.run(readers, encode, write, blocks_per_shard)
    named = ShardCounts()
    for number in range(next(numbers)):
        named.add(_bring_shard(shards, shard_directory(output, number), named))
    remove_tree(shards)


def _shard_tasks(
    blocks: Callable[[int], Iterator[Block]],
    block_size: int,
    num_blocks: int,
    blocks_per_shard: int,
    missing: Mapping[int, int],
) -> Iterator[EncodeTask]:
    """Yields the blocks of the missing shards of a stream."""
    for index, block in enumerate(itertools.islice(blocks(block_size), num_blocks)):
        if (number := missing.get(index // blocks_per_shard)) is not None:
            yield EncodeTask(number, block, True)


def _write_shard(
    shards: str,
    new_writer: Callable[[Path], ShardWriter],
    group: tuple[int, int],
    blocks: list[Encoded],
) -> None:
    """Writes a shard into the shared folder. If two workers do so, one of them is dropped."""
    target = as_path(shards) / f"{blocks[0].shard:05}"
    with tempfile.TemporaryDirectory() as temporary:
        own = Path(temporary) if isinstance(target, UPath) else target.parent
        own = own / f"{target.name}-{uuid.uuid4().hex}"
        writer = new_writer(own)
        for block in blocks:
            writer.append(block, (0, 0))
        writer.finish()
        named = [
            [words for block in blocks for words in block.unknown[side]][:MAX_PAIRS_NAMED]
            for side in range(2)
        ]
        (own / UNKNOWN).write_text(json.dumps(named, ensure_ascii=False), encoding="utf-8")
        if isinstance(target, UPath):
            upload(own, target, sorted(file_sizes(own), key=UNKNOWN.__eq__))
        elif (target / UNKNOWN).exists():
            shutil.rmtree(own)
        else:
            shutil.rmtree(target, ignore_errors=True)
            own.rename(target)


def _bring_shard(shards: AnyPath, target: Path, before: ShardCounts) -> ShardCounts:
    """Moves a shard from the shared folder to its place, unless it is there; returns its counts.

    Of the unknown words, those of the first pairs of the whole corpus are counted.
    """
    if counts := read_counts(target):
        return counts
    source = shards / target.name
    if isinstance(source, UPath):
        source = download(source, target.with_name(f"{target.name}.partial"))
    counts = read_counts(source)
    named = read_json(source / UNKNOWN)
    assert counts and named, f"{source} is not complete"
    for side, words in enumerate(named):
        left = max(MAX_PAIRS_NAMED - before.pairs_with_unknown[side], 0)
        counts.pairs_with_unknown[side] = len(words[:left])
        counts.unknown_words[side] = Counter(itertools.chain.from_iterable(words[:left]))
    write_counts(source, counts)
    (source / UNKNOWN).unlink()
    shutil.rmtree(target, ignore_errors=True)
    target.parent.mkdir(exist_ok=True)
    source.rename(target)
    return counts
