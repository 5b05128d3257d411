"""The settings, sources and processes that the stages of a preparation share."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from flaxformer_mt.data.config import DataConfig
from flaxformer_mt.data.encoding import Exclude, ReadBlocks
from flaxformer_mt.data.sources.blocks import BLOCK_SIZE, PairStream
from flaxformer_mt.data.worker_processes import Workers

SHARD_SIZE = 1 << 20


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Job:
    """The settings, sources and processes of a preparation."""

    config: DataConfig
    output: Path
    shard_size: int
    """Records of a shard."""
    workers: Workers
    streams: Sequence[PairStream]
    files: Mapping[Path, Any]
    """The `file_states` of all input files at the start, to detect changes."""
    exclude: Exclude
    after_part: Callable[[], None]
    """Called after the first pass, after the tokenizer is saved, and after each shard."""

    @property
    def quarantine(self) -> Path:
        """The file that lists the bad records."""
        return self.output / "quarantine.jsonl"

    @property
    def block_size(self) -> int:
        """Records of a block. A shard consists of whole blocks."""
        return min(BLOCK_SIZE, self.shard_size)

    @property
    def blocks_per_shard(self) -> int:
        """The number of blocks of a shard."""
        return -(-self.shard_size // self.block_size)

    @property
    def readers(self) -> list[ReadBlocks]:
        """Functions that read the blocks of each corpus."""
        return [functools.partial(stream.blocks, self.block_size) for stream in self.streams]
