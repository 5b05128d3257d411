"""Attention against a float64 NumPy version written from equation 1 of the paper."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from flaxformer_mt.model.attention import KeysValues, MultiHeadAttention, attention_weights
from flaxformer_mt.model.masks import causal_mask, segment_mask


def numpy_attention(q, k, v, mask):
    """softmax(Q K^T / sqrt(d_k)) V, one query at a time, over the allowed keys alone."""
    batch, heads, length, _ = q.shape
    out = np.zeros((batch, heads, length, v.shape[-1]))
    for b, n, t in np.ndindex(batch, heads, length):
        allowed = mask[b, 0, t]
        scores = k[b, n, allowed] @ q[b, n, t] / np.sqrt(q.shape[-1])
        weights = np.exp(scores - scores.max())
        out[b, n, t] = weights @ v[b, n, allowed] / weights.sum()
    return out


@pytest.fixture
def qkv(rng):
    return tuple(jnp.asarray(rng.normal(size=(2, 3, 5, 4)), jnp.float32) for _ in range(3))


def test_equals_numpy(qkv):
    q, k, v = qkv
    segments = jnp.array([[1, 1, 1, 1, 1], [1, 1, 2, 2, 2]])
    mask = segment_mask(segments, segments) & causal_mask(5)
    ours = jnp.einsum("BNTS,BNSH->BNTH", attention_weights(q, k, mask), v)
    np.testing.assert_allclose(ours, numpy_attention(*map(np.asarray, (q, k, v, mask))), atol=1e-5)


def test_equals_jax(qkv):
    q, k, v = (x.swapaxes(1, 2) for x in qkv)
    mask = causal_mask(5)
    theirs = jax.nn.dot_product_attention(q, k, v, mask=mask)
    q, k, v = qkv
    ours = jnp.einsum("BNTS,BNSH->BNTH", attention_weights(q, k, mask), v)
    np.testing.assert_allclose(ours.swapaxes(1, 2), theirs, atol=1e-5)


def test_masked_keys_weigh_nothing_and_rows_without_keys_stay_finite(qkv):
    q, k, _ = qkv
    segments = jnp.array([[1, 1, 1, 0, 0], [0, 0, 0, 0, 0]])
    weights = attention_weights(q, k, segment_mask(segments, segments))
    assert jnp.all(weights[0, :, :3, 3:] == 0)
    assert jnp.all(jnp.isfinite(weights))


def test_steps_equal_the_whole(rng):
    """Self-attention of one token after another over the cache == causal attention at once."""
    attention = MultiHeadAttention(num_heads=2, d_model=8)
    x = jnp.asarray(rng.normal(size=(3, 5, 8)), jnp.float32)

    def whole(module, x):
        return module(x, module.keys_values(x), causal_mask(5), deterministic=True)

    params = attention.init(jax.random.key(0), x, method=whole)
    expected = attention.apply(params, x, method=whole)
    empty = jnp.zeros((3, 1, 2, 5, 4))
    past = KeysValues(empty, empty)
    for t in range(5):
        new = x[:, t : t + 1]
        y, past = attention.apply(params, new, past, jnp.int32(t), method="step")
        np.testing.assert_allclose(y[:, 0], expected[:, t], atol=1e-5)
