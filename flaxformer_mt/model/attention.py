"""Scaled dot-product attention: equation 1 of the paper (section 3.2.1).

Axis letters, here and in all annotations: B batch, S source (key) length, T target (query) length,
D model width, N query heads, G key/value heads, H head width (W for values).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from flaxformer_mt.model.masks import AttentionContext

MASKED = float(jnp.finfo(jnp.float32).min)
"""The logit of a masked key. It is finite, so that a fully masked query gets no NaN."""


class KeysValues(NamedTuple):
    """Keys and values of one attention layer."""

    keys: Float[Array, "B S G H"]
    values: Float[Array, "B S G W"]


def attention_logits(
    queries: Float[Array, "B T N H"], keys: Float[Array, "B S G H"]
) -> Float[Array, "B N T S"]:
    """Returns Q K^T / sqrt(d_k) of equation 1, in float32.

    With G < N key heads, each one serves N / G query heads (grouped-query attention).
    """
    batch, length, heads, width = queries.shape
    groups = keys.shape[2]
    scaled = queries * jnp.asarray(width**-0.5, queries.dtype)
    grouped = scaled.reshape(batch, length, groups, heads // groups, width)
    logits = jnp.einsum("BTGRH,BSGH->BGRTS", grouped, keys, preferred_element_type=jnp.float32)
    return logits.reshape(batch, heads, length, -1)


def masked_softmax(
    logits: Float[Array, "B N T S"], mask: Bool[Array, "#B 1 #T #S"]
) -> Float[Array, "B N T S"]:
    """Returns the softmax of equation 1 over the keys; masked keys have weight exactly 0.

    A fully masked query (padding) attends uniformly. No other position reads its output.
    """
    return jax.nn.softmax(jnp.where(mask, logits, MASKED), axis=-1)


def attention_weights(
    queries: Float[Array, "B T N H"],
    keys: Float[Array, "B S G H"],
    mask: Bool[Array, "#B 1 #T #S"],
    bias: Float[Array, "#B N T S"] | None = None,
) -> Float[Array, "B N T S"]:
    """Returns softmax(Q K^T / sqrt(d_k) + bias): how much each query attends to each key."""
    logits = attention_logits(queries, keys)
    return masked_softmax(logits if bias is None else logits + bias, mask)


def weighted_sum(
    weights: Float[Array, "B N T S"], values: Float[Array, "B S G W"]
) -> Float[Array, "B T N W"]:
    """Returns the sums of the values under the weights: the last product of equation 1."""
    batch, heads, length, _ = weights.shape
    groups = values.shape[2]
    grouped = weights.reshape(batch, groups, heads // groups, length, -1)
    sums = jnp.einsum("BGRTS,BSGW->BTGRW", grouped.astype(values.dtype), values)
    return sums.reshape(batch, length, heads, -1)


def attend(
    queries: Float[Array, "B T N H"],
    keys: Float[Array, "B S G H"],
    values: Float[Array, "B S G W"],
    context: AttentionContext,
    bias: Float[Array, "#B N T S"] | None = None,
) -> Float[Array, "B T N W"]:
    """Returns Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V (equation 1) of every head.

    `context` says which keys each query may attend to. Some position schemes add a `bias` to the
    logits.
    """
    return weighted_sum(attention_weights(queries, keys, context.mask, bias), values)
