"""Dropout with random numbers that cost next to nothing.

`jax.random.bernoulli` draws cryptographic-strength bits; on a CPU that takes longer than the
matrix product beside it. Dropout needs far less: a mask whose bits look independent. Here each
element's bit is an integer hash of its place in the whole batch and a key, which XLA fuses into the
multiplication, so that no mask is ever stored. `tests/model/test_dropout.py` checks the statistics:
the mean, and independence between elements, layers and steps.
"""

import math
from typing import TypeAlias

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, UInt32


def hash_bits(index: UInt32[Array, "..."]) -> UInt32[Array, "..."]:
    """A bijective integer hash in which every input bit flips each output bit half of the time.

    The constants are those of Wellons' `lowbias32` (hash-prospector, public domain).
    """
    index = (index ^ (index >> 16)) * jnp.uint32(0x7FEB352D)
    index = (index ^ (index >> 15)) * jnp.uint32(0x846CA68B)
    return index ^ (index >> 16)


DropoutRows: TypeAlias = Int[Array, " B"] | None
"""Which row of the whole batch each row at hand is; None = no dropout, as in translation."""


def dropout(
    x: Float[Array, "B ..."], rate: float, key: Array, rows: Int[Array, " B"]
) -> Float[Array, "B ..."]:
    """Zeroes each element of x with probability `rate` and scales the others by 1 / (1 - rate).

    Args:
      x: some rows of a batch, or all. A whole batch has fewer than 2^32 elements.
      rate: probability in [0, 1), rounded to the nearest 2^-32.
      key: a JAX random key. Its 64 bits enter in two rounds, so that two keys give unrelated
        masks rather than shifted copies of one sequence.
      rows: which row of the batch each is. A row's mask follows from (key, row) alone, so that
        devices and accumulated micro-batches may divide the batch as they like.
    """
    low, high = jax.random.bits(key, (2,), jnp.uint32)
    row_size = math.prod(x.shape[1:])
    within = jax.lax.iota(jnp.uint32, row_size).reshape(1, *x.shape[1:])
    first = rows.astype(jnp.uint32).reshape(-1, *[1] * (x.ndim - 1)) * jnp.uint32(row_size)
    keep = hash_bits(hash_bits((first + within) ^ low) + high) >= jnp.uint32(round(rate * 2**32))
    return jnp.where(keep, x / (1.0 - rate), 0).astype(x.dtype)


class Dropout(nn.Module):
    """`dropout` with a key of its own for every place in the model and every step."""

    rate: float

    @nn.compact
    def __call__(
        self, x: Float[Array, "B ..."], *, dropout_rows: DropoutRows
    ) -> Float[Array, "B ..."]:
        if dropout_rows is None or self.rate == 0.0:
            return x
        return dropout(x, self.rate, self.make_rng("dropout"), dropout_rows)
