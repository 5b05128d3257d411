"""Dropout with random bits from an integer hash, which cost almost nothing.

`jax.random.bernoulli` gives bits of cryptographic strength, which take up to 8 % of an update on a
CPU (`benchmarks/ablations.md`). Dropout needs far less: bits that look independent. Here the bit of
each element is a hash of its position in the whole batch and of a key. XLA fuses it into the
multiplication, so no mask is stored. `tests/kernels/test_hashed_dropout.py` checks the mean, and
the independence of elements, layers and steps.
"""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, UInt32


def hash_bits(index: UInt32[Array, "..."]) -> UInt32[Array, "..."]:
    """Returns a bijective hash: each input bit flips each output bit half of the time.

    The constants are those of Wellons' `lowbias32` (hash-prospector, public domain).
    """
    index = (index ^ (index >> 16)) * jnp.uint32(0x7FEB352D)
    index = (index ^ (index >> 15)) * jnp.uint32(0x846CA68B)
    return index ^ (index >> 16)


def dropout(
    x: Float[Array, "B ..."], rate: float, key: Array, rows: Int[Array, " B"]
) -> Float[Array, "B ..."]:
    """Returns x with elements set to 0 with probability `rate`, the others times 1 / (1 - rate).

    Args:
      x: some rows of a batch, or all of them. A whole batch has fewer than 2^32 elements.
      rate: probability in [0, 1), rounded to the nearest 2^-32.
      key: a JAX random key. Its 64 bits enter in two rounds, so that two keys give unrelated
        masks and not shifted copies of one sequence.
      rows: the number of each row in the whole batch. The mask of a row depends on the key and on
        this number alone.
    """
    low, high = jax.random.bits(key, (2,), jnp.uint32)
    row_size = math.prod(x.shape[1:])
    within = jax.lax.iota(jnp.uint32, row_size).reshape(1, *x.shape[1:])
    first = rows.astype(jnp.uint32).reshape(-1, *[1] * (x.ndim - 1)) * jnp.uint32(row_size)
    keep = hash_bits(hash_bits((first + within) ^ low) + high) >= jnp.uint32(round(rate * 2**32))
    return jnp.where(keep, x / (1.0 - rate), 0).astype(x.dtype)
