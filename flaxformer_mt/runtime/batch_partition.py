"""Partitions a global batch over micro-batches, devices and processes: integers only, no JAX.

The config defines the batch, and a partition does not change its content. If memory is short, a
step accumulates the gradients of A micro-batches. Each micro-batch is split over the devices of the
mesh axes `data` and `fsdp` (the shards). Empty rows at the end make all shards equally large.
"""

import dataclasses
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from flaxformer_mt.data.batching.batch import BatchShape


class BatchPartition(NamedTuple):
    """A batch as `micro_batches` of `rows` rows each. Surplus rows are empty."""

    micro_batches: int  # A
    rows: int  # B: rows of one micro-batch, over all shards

    @property
    def total(self) -> int:
        """Rows of all micro-batches, including empty ones."""
        return self.micro_batches * self.rows


def partition_batch(
    shape: BatchShape, *, shards: int, tokens_per_device: int = 0
) -> BatchPartition:
    """Returns the partition with the fewest micro-batches that fit `tokens_per_device`.

    Args:
      shape: the shape of a global batch.
      shards: number of devices that split a batch.
      tokens_per_device: largest number of source cells, and of target cells, including padding,
        of one micro-batch on one device; 0 = no limit.

    Raises ValueError if there are fewer rows than shards, or if a single row exceeds the limit.
    """
    if shape.rows < shards:
        raise ValueError(
            f"a batch of {shape} has too few rows to be split over {shards} devices: raise "
            "data.tokens_per_batch, lower data.max_source_length and data.max_target_length, or "
            "let several devices share a row with mesh.tensor"
        )
    longest = max(shape.source_length, shape.target_length)
    max_rows = tokens_per_device // longest if tokens_per_device else shape.rows
    if max_rows < 1:
        raise ValueError(
            f"mesh.tokens_per_device={tokens_per_device} is less than one row of the batch shape "
            f"{shape}: raise it to at least {longest}"
        )
    micro_batches = _ceil(shape.rows, shards * max_rows)
    return BatchPartition(micro_batches, shards * _ceil(shape.rows, shards * micro_batches))


@dataclasses.dataclass(frozen=True)
class ProcessRows:
    """The rows of each batch that one process reads: the rows of its own shards.

    Attributes:
      shards: number of devices that split a batch, over all processes.
      own_shards: the shards of this process; several processes may hold the same ones.
      tokens_per_device: as in `partition_batch`.
      pads: whether a batch with fewer rows than shards gets empty rows.
    """

    shards: int = 1
    own_shards: tuple[int, ...] = (0,)
    tokens_per_device: int = 0
    pads: bool = False

    def partition(self, shape: BatchShape) -> BatchPartition:
        """Returns the partition of a batch of this shape, over all processes."""
        if self.pads:
            shape = shape._replace(rows=max(shape.rows, self.shards))
        return partition_batch(shape, shards=self.shards, tokens_per_device=self.tokens_per_device)

    def __call__(self, shape: BatchShape) -> Int[np.ndarray, " r"]:
        """Returns the row numbers of this process, micro-batch after micro-batch."""
        partition = self.partition(shape)
        rows = np.arange(partition.total).reshape(partition.micro_batches, self.shards, -1)
        return rows[:, list(self.own_shards)].ravel()


def _ceil(a: int, b: int) -> int:
    return -(-a // b)
