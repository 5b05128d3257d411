"""Rows of sentences, and the values and gradients of attention over them."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from flaxformer_mt.model.masks import attention_context

TWO_SENTENCES = (1,) * 50 + (2,) * 60
"""Segments of a row with two sentences; padding follows."""


def make_segments(length, *rows):
    """Segment ids [B T] of rows that padding fills up."""
    return jnp.array([row + (0,) * (length - len(row)) for row in rows])


def random_heads(
    batch=1, length=128, heads=2, width=64, dtype=jnp.float32, source_length=None, key_heads=None
):
    """Returns queries, keys and values."""
    lengths = (length, source_length or length, source_length or length)
    counts = (heads, key_heads or heads, key_heads or heads)
    rng = np.random.default_rng(0)
    return [
        jnp.asarray(rng.normal(size=(batch, n, count, width)), dtype)
        for n, count in zip(lengths, counts, strict=True)
    ]


@functools.partial(jax.jit, static_argnames=("attend", "causal"))
def heads_and_gradients(attend, heads, query_segments, key_segments, causal):
    """Returns the heads of real tokens (0 for padding), and the gradients of q, k and v."""
    context = attention_context(query_segments, key_segments, causal=causal)
    real = (query_segments != 0)[..., None, None]

    def of_real_tokens(*heads):
        return jnp.where(real, attend(*heads, context), 0)

    result, pull = jax.vjp(of_real_tokens, *heads)
    return result, *pull(
        jnp.cos(jnp.arange(result.size)).reshape(result.shape).astype(result.dtype)
    )
