"""Vectors of tokens, with a gradient that is a matrix product.

JAX derives a scatter-add. GPUs compute it with atomic additions: rows of frequent tokens and of
padding wait for each other, the order of the additions is random, and in bfloat16 each sum is
rounded. The product with one-hot vectors adds in float32 and gives the same bits each time.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int


@jax.custom_vjp
def embed(table: Float[Array, "V D"], tokens: Int[Array, "B T"]) -> Float[Array, "B T D"]:
    """Returns the vectors of the tokens (see `model.kernels.embed`)."""
    return table[tokens]


def _forward(table: Array, tokens: Array) -> tuple[Array, tuple[Array, Array]]:
    return table[tokens], (tokens, table[:, :0])  # the second for the size of the vocabulary


def _backward(saved: tuple[Array, Array], g: Array) -> tuple[Array, np.ndarray]:
    tokens, like = saved
    one_hot = jax.nn.one_hot(tokens, like.shape[0], dtype=g.dtype)  # [B T V]
    gradient = jax.lax.dot_general(
        one_hot, g, (((0, 1), (0, 1)), ((), ())), preferred_element_type=jnp.float32
    )
    return gradient.astype(like.dtype), np.zeros(tokens.shape, jax.dtypes.float0)


embed.defvjp(_forward, _backward)
