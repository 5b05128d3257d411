"""The k largest of many scores in two stages, for a search.

On a CPU, `jax.lax.top_k` reads whole rows on one thread. Here it reads a small part of each row.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

BLOCK = 64


def top_k(x: Float[Array, "B N"], k: int) -> tuple[Float[Array, "B {k}"], Int[Array, "B {k}"]]:
    """Returns the k largest elements of each row and their indices; the first among equals.

    They are in the k blocks with the largest maxima. Maxima are cheap, and `jax.lax.top_k` then
    reads these blocks only. The barriers keep XLA from merging the result with slices that follow:
    then it would sort whole rows. (One barrier for both results crashes jaxlib 0.10.2.)
    """
    rows, size = x.shape
    num_blocks = -(-size // BLOCK)
    if num_blocks <= 2 * k:
        values, indices = jax.lax.top_k(x, k)
    else:
        padding = [(0, 0), (0, num_blocks * BLOCK - size)]
        blocks = jnp.pad(x, padding, constant_values=-jnp.inf).reshape(rows, num_blocks, BLOCK)
        _, best_blocks = jax.lax.top_k(blocks.max(axis=-1), k)
        best_blocks = jnp.sort(best_blocks)  # in order, for the first among equals
        candidates = jnp.take_along_axis(blocks, best_blocks[..., None], axis=1)
        values, indices = jax.lax.top_k(candidates.reshape(rows, k * BLOCK), k)
        block = jnp.take_along_axis(best_blocks, indices // BLOCK, axis=1)
        indices = block * BLOCK + indices % BLOCK
    return jax.lax.optimization_barrier(values), jax.lax.optimization_barrier(indices)
