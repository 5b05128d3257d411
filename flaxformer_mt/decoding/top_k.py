"""The k largest of very many numbers, in two stages.

`lax.top_k` sorts whole rows. But the k largest numbers lie in the k blocks with the largest maxima,
and maxima are cheap: find those blocks, then sort only what is in them.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

BLOCK = 64


def top_k(x: Float[Array, "... N"], k: int) -> tuple[Float[Array, "... k"], Int[Array, "... k"]]:
    """Values and indices as `lax.top_k(x, k)` gives them, ties included (the lowest index first).

    Ties stay exact because the chosen blocks are put back into their order before the second stage.
    """
    *rows, size = x.shape
    num_blocks = -(-size // BLOCK)
    if num_blocks <= 2 * k:  # nothing to gain
        values, indices = jax.lax.top_k(x, k)
        return values, indices
    missing = [(0, 0)] * len(rows) + [(0, num_blocks * BLOCK - size)]
    padded = jnp.pad(x, missing, constant_values=-jnp.inf)
    blocks = padded.reshape(*rows, num_blocks, BLOCK)
    _, chosen = jax.lax.top_k(blocks.max(-1), k)
    chosen = jnp.sort(chosen)  # [... k]
    few = jnp.take_along_axis(blocks, chosen[..., None], axis=-2)  # [... k BLOCK]
    values, places = jax.lax.top_k(few.reshape(*rows, k * BLOCK), k)
    indices = jnp.take_along_axis(chosen, places // BLOCK, axis=-1) * BLOCK + places % BLOCK
    return values, indices
