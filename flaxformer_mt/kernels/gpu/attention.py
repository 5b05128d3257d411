"""Equation 1 by cuDNN's fused attention, which keeps no [T S] weights in memory.

The mask becomes a bias [B 1 T S]. So packed rows are safe: a causal flag alone would let a token
see the sentence before it in its row.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from flaxformer_mt.model.masks import AttentionContext


def attend(
    queries: Float[Array, "B T N H"],
    keys: Float[Array, "B S G H"],
    values: Float[Array, "B S G W"],
    context: AttentionContext,
    bias: Float[Array, "#B N T S"] | None = None,
) -> Float[Array, "B T N W"]:
    """Returns equation 1 (see `model.attention.attend`).

    Raises:
      NotImplementedError: there is no cuDNN, or it does not support this case: float32, heads wider
        than 128 (256 since Hopper) or not of multiples of 8, values of another width than keys, odd
        lengths (cuDNN has no gradient for them), and a position bias (with it the mask would be
        as large as the weights, [B N T S]).
    """
    (batch, length, _, width), source_length = queries.shape, keys.shape[1]
    if queries.dtype not in (jnp.bfloat16, jnp.float16):
        raise NotImplementedError(f"cuDNN attention needs bfloat16, got {queries.dtype}")
    if values.shape[-1] != width:
        raise NotImplementedError("cuDNN attention needs key_width equal to value_width")
    if length % 2 or source_length % 2:
        raise NotImplementedError("cuDNN attention needs even lengths")
    if bias is not None:
        raise NotImplementedError("cuDNN attention has no position bias")
    mask = jnp.broadcast_to(context.mask, (batch, 1, length, source_length))
    try:
        return jax.nn.dot_product_attention(
            queries, keys, values, mask=mask, implementation="cudnn"
        )
    except RuntimeError as error:  # no cuDNN; a NotImplementedError is one too
        raise NotImplementedError(f"cuDNN attention: {error}") from error
