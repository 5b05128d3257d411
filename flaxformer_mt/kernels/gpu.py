"""Kernels for NVIDIA GPUs: attention by cuDNN, dropout bits, gradients of embeddings."""

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from flaxformer_mt.kernels.hashed_dropout import dropout
from flaxformer_mt.kernels.product import product
from flaxformer_mt.model.kernels import Kernels
from flaxformer_mt.model.masks import AttentionContext
from flaxformer_mt.runtime.sharding import HEAD_AXIS

MIN_LENGTH = 64
"""Shorter sentences are faster in the reference (measured, see docs/kernels.md)."""


def attend(
    queries: Float[Array, "B T N H"],
    keys: Float[Array, "B S G H"],
    values: Float[Array, "B S G W"],
    context: AttentionContext,
    bias: Float[Array, "#B N T S"] | None = None,
    *,
    min_length: int = MIN_LENGTH,
    implementation: Literal["cudnn", "xla"] = "cudnn",
) -> Float[Array, "B T N W"]:
    """Returns equation 1 by cuDNN's fused attention, which keeps no [T S] weights in memory.

    See `model.attention.attend`. The mask becomes a bias [B 1 T S]. So packed rows are safe: a
    causal flag alone would let a token see the sentence before it in its row. The implementation
    "xla" computes the same on every device and in every dtype; tests compare it with the reference.

    Raises:
      NotImplementedError: the reference is faster (queries and keys shorter than `min_length`),
        there is no cuDNN, or it does not support this case: float32, heads wider than 128 (256
        since Hopper) or of a width that is no multiple of 8, values of another width than keys, a
        position bias (with it the mask would be as large as the weights, [B N T S]), and key heads
        that mesh.tensor does not divide.
    """
    (batch, length, _, width), source_length = queries.shape, keys.shape[1]
    if max(length, source_length) < min_length:
        raise NotImplementedError(f"cuDNN attention needs lengths of at least {min_length}")
    if implementation == "cudnn" and queries.dtype != jnp.bfloat16:
        raise NotImplementedError(f"cuDNN attention needs bfloat16, got {queries.dtype}")
    if values.shape[-1] != width:
        raise NotImplementedError("cuDNN attention needs key_width equal to value_width")
    if bias is not None:
        raise NotImplementedError("cuDNN attention has no position bias")
    mesh = jax.typeof(queries).sharding.mesh
    parts = mesh.shape.get(HEAD_AXIS, 1) if mesh.axis_names else 1
    if queries.shape[2] % parts == 0 and keys.shape[2] % parts:  # only queries would be divided
        raise NotImplementedError(
            f"cuDNN attention needs a number of key heads that mesh.tensor ({parts}) divides"
        )
    mask = jnp.broadcast_to(context.mask, (batch, 1, length, source_length))
    # cuDNN has no gradient for odd lengths: one more position, which no query sees.
    mask = _pad(_pad(mask, 2), 3)
    try:
        return jax.nn.dot_product_attention(
            *(_pad(x, 1) for x in (queries, keys, values)), mask=mask, implementation=implementation
        )[:, :length]
    except RuntimeError as error:  # no cuDNN, or its NotImplementedError (a RuntimeError)
        raise NotImplementedError(f"cuDNN attention: {error}") from error


def _pad(x: Array, axis: int) -> Array:
    """Returns x with an even length along `axis`. An odd length gets one more 0 (False)."""
    widths = [(0, x.shape[i] % 2 if i == axis else 0) for i in range(x.ndim)]
    return jnp.pad(x, widths)


@jax.custom_vjp
def embed(table: Float[Array, "V D"], tokens: Int[Array, "B T"]) -> Float[Array, "B T D"]:
    """Returns the vectors of the tokens (see `model.kernels.embed`); its gradient is a product.

    JAX derives a scatter-add. GPUs compute it with atomic additions: rows of frequent tokens and of
    padding wait for each other, the order of the additions is random, and in bfloat16 each sum is
    rounded. The product with one-hot vectors adds in float32 and gives the same bits each time.
    """
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

KERNELS = Kernels("gpu", attend=attend, embed=embed, product=product, dropout=dropout)
