"""The k largest of very many numbers, in two stages.

`lax.top_k` sorts whole rows. But the k largest numbers lie in the k blocks with the largest maxima,
and maxima are cheap: find those blocks, then sort only what is in them.
"""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

BLOCK = 64


def top_k(
    x: Float[Array, "..."], k: int, axes: int = 1
) -> tuple[Float[Array, "... k"], Int[Array, "... k"]]:
    """Values and indices as `lax.top_k(x, k)` gives them, ties included (the lowest index first).

    Of the last `axes` axes together, as if they were one: without making one of them, which would
    copy all of x on a TPU.

    Ties stay exact because the chosen blocks are put back into their order before the second stage.
    """
    rows, (*inner, size) = x.shape[:-axes], x.shape[-axes:]
    num_blocks = -(-size // BLOCK)
    if math.prod(inner) * num_blocks <= 2 * k:  # nothing to gain
        values, indices = jax.lax.top_k(x.reshape(*rows, -1), k)
        return values, indices
    missing = [(0, 0)] * (x.ndim - 1) + [(0, num_blocks * BLOCK - size)]
    padded = jnp.pad(x, missing, constant_values=-jnp.inf)
    blocks = padded.reshape(*rows, *inner, num_blocks, BLOCK)
    _, chosen = jax.lax.top_k(blocks.max(-1).reshape(*rows, -1), k)
    chosen = jnp.sort(chosen)  # [... k]
    row = (i[..., None] for i in jnp.indices(rows, sparse=True))
    few = blocks[*row, *jnp.unravel_index(chosen, blocks.shape[len(rows) : -1])]  # [... k BLOCK]
    found = jax.lax.top_k(few.reshape(*rows, k * BLOCK), k)
    # Or XLA merges its slices with later ones, no longer sees a top-k, and sorts. (One barrier for
    # both of them crashes jaxlib 0.10.2.)
    values, places = map(jax.lax.optimization_barrier, found)
    block = jnp.take_along_axis(chosen, places // BLOCK, axis=-1)
    return values, block // num_blocks * size + block % num_blocks * BLOCK + places % BLOCK
