"""What the stages of a preparation share: its settings, its sources and its processes."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from flaxformer_mt.data.config import DataConfig
from flaxformer_mt.data.prepared.work import Screen
from flaxformer_mt.data.sources.blocks import PairStream
from flaxformer_mt.data.worker_processes import Workers

BLOCK_SIZE = 4096  # records that a process handles together
SHARD_SIZE = 1 << 20


@dataclasses.dataclass(frozen=True, kw_only=True)
class Preparation:
    """The settings of a preparation."""

    config: DataConfig
    output: Path
    num_processes: int = 1
    workers: Workers | None = None
    """Workers that replace the processes of this machine."""
    shard_size: int = SHARD_SIZE
    """Records of a shard. A killed run repeats at most this many. A resumed run keeps the size."""
    show_progress: bool = True
    after_part: Callable[[], None] | None = None
    """Called when files are complete: those of the first pass, the tokenizer, and each shard."""

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


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Job:
    """What the stages of a preparation share."""

    how: Preparation
    workers: Workers
    streams: Sequence[PairStream]
    files: Sequence[Path]
    """All files that are read."""
    states: Mapping[Path, Any]
    """The states of the files at the start; see `file_states`."""
    screen: Screen
