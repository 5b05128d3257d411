"""How one batch of the recipe is divided among the hardware at hand: a few integers, no JAX.

The recipe says what a batch holds; nothing here can change that. Rows are accumulated in A
micro-batches where memory is short, each micro-batch is split over the devices that share a batch
(the shards), and rows without a sentence fill up what does not come out even. NumPy only:
the data room, which starts no backend, asks which rows are its own.
"""

import dataclasses
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from flaxformer_mt.data.batching.batch import BatchShape


class Division(NamedTuple):
    """A batch as `micro_batches` of `rows` each; rows beyond those of the batch are empty."""

    micro_batches: int  # A
    rows: int  # B of one micro-batch, over all shards

    @property
    def total(self) -> int:
        """Rows of all micro-batches, the empty ones among them."""
        return self.micro_batches * self.rows


def divide(shape: BatchShape, *, shards: int, tokens_per_device: int = 0) -> Division:
    """The fewest micro-batches in which no device takes more than `tokens_per_device`.

    Args:
      shape: of a whole batch.
      shards: devices that a batch is split over.
      tokens_per_device: source cells, and target cells, that one device takes at once, padding
        included; 0 = as many as come.

    Raises:
      ValueError: fewer rows than shards, or not even one row fits.
    """
    if shape.rows < shards:
        raise ValueError(
            f"a batch of {shape} has too few rows to be split over {shards} devices: raise "
            "data.tokens_per_batch, lower data.max_source_length and data.max_target_length, or "
            "let several devices share a row with mesh.tensor"
        )
    longest = max(shape.source_length, shape.target_length)
    most = tokens_per_device // longest if tokens_per_device else shape.rows
    if most < 1:
        raise ValueError(
            f"mesh.tokens_per_device={tokens_per_device} is less than one row of the batch shape "
            f"{shape}: it must be at least {longest}"
        )
    micro_batches = _ceil(shape.rows, shards * most)
    return Division(micro_batches, shards * _ceil(shape.rows, shards * micro_batches))


@dataclasses.dataclass(frozen=True)
class Share:
    """Which rows of a batch one process reads: those of its own shards.

    Attributes:
      shards: devices that a batch is split over, over all processes.
      mine: the shards of this process; several processes may hold the same ones.
      tokens_per_device: as in `divide`.
    """

    shards: int = 1
    mine: tuple[int, ...] = (0,)
    tokens_per_device: int = 0

    def division(self, shape: BatchShape) -> Division:
        """How a batch of this shape is divided, over all processes."""
        return divide(shape, shards=self.shards, tokens_per_device=self.tokens_per_device)

    def __call__(self, shape: BatchShape) -> Int[np.ndarray, " r"]:
        """Numbers of this process's rows, micro-batch after micro-batch."""
        division = self.division(shape)
        rows = np.arange(division.total).reshape(division.micro_batches, self.shards, -1)
        return rows[:, list(self.mine)].ravel()


def _ceil(a: int, b: int) -> int:
    return -(-a // b)
