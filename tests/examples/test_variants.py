"""The variants against formulas of their papers, one query and one key at a time, in NumPy."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from random_params import random_params

import variants
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.model.kernels import REFERENCE, Kernels
from flaxformer_mt.model.masks import attention_context

LENGTH, HEADS, WIDTH = 6, 2, 4
CONFIG = TransformerConfig(d_model=HEADS * WIDTH, d_ff=8, num_heads=HEADS, max_distance=3)


def context_of(causal=True):
    ones, positions = jnp.ones((1, LENGTH), jnp.int32), jnp.arange(LENGTH)[None]
    return attention_context(ones, ones, positions, positions, causal=causal)


def apply(attention):
    """Returns (parameters in float64, x, output) of an attention module."""
    x = jnp.asarray(np.random.default_rng(1).normal(size=(1, LENGTH, HEADS * WIDTH)), jnp.float32)
    context = context_of()

    def whole(module, x):
        keys_values = module.keys_values(x, context.key_positions)
        return module(x, keys_values, context, dropout_rows=None)

    params = random_params(attention, x, method=whole)
    output = jax.jit(lambda: attention.apply({"params": params}, x, method=whole))()
    exact = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), params)
    return exact, np.asarray(x[0], np.float64), np.asarray(output[0])


def project(params, name, x):
    return np.einsum("TD,DNH->TNH", x, params[name]["kernel"]) + params[name]["bias"]


def by_hand(params, x, score, *, weigh=None, value=lambda v, i, j: v, keys="key"):
    """Returns causal attention with score(q_i, k_j, i, j, head)."""
    q, k, v = (project(params, name, x) for name in ("query", keys, "value"))
    heads = np.zeros((LENGTH, HEADS, WIDTH))
    for i, n in np.ndindex(LENGTH, HEADS):
        scores = np.array([score(q[i, n], k[j, n], i, j, n) for j in range(i + 1)])
        weights = np.exp(scores) / np.exp(scores).sum() if weigh is None else weigh(scores)
        heads[i, n] = sum(weights[j] * value(v[j, n], i, j) for j in range(i + 1))
    return np.einsum("TNH,NHD->TD", heads, params["out"]["kernel"]) + params["out"]["bias"]


def dot(q, k, i, j, n):
    return q @ k / math.sqrt(WIDTH)


def nezha(i, j):
    distance = max(-3, min(3, j - i))
    vector = np.zeros(WIDTH)
    for k in range(WIDTH // 2):
        angle = distance / 10000 ** (2 * k / WIDTH)
        vector[2 * k], vector[2 * k + 1] = math.sin(angle), math.cos(angle)
    return vector


def test_functional_positions():
    scheme = variants.FunctionalPositions
    params, x, output = apply(variants.MultiHeadAttention(CONFIG, REFERENCE, scheme))
    assert "relation" not in params  # nothing is learned

    def score(q, k, i, j, n):
        return q @ (k + nezha(i, j)) / math.sqrt(WIDTH)

    expected = by_hand(params, x, score, value=lambda v, i, j: v + nezha(i, j))
    np.testing.assert_allclose(output, expected, atol=1e-4)


def test_alibi():
    params, x, output = apply(variants.MultiHeadAttention(CONFIG, REFERENCE, variants.Alibi))
    slopes = [2**-4, 2**-8]  # of two heads; the paper has 1/2^1 ... 1/2^8 for eight

    def score(q, k, i, j, n):
        return dot(q, k, i, j, n) - slopes[n] * (i - j)

    np.testing.assert_allclose(output, by_hand(params, x, score), atol=1e-4)


def test_relu_attention():
    kernels = Kernels(name="relu", attend=variants.relu_attend)
    params, x, output = apply(variants.MultiHeadAttention(CONFIG, kernels))
    expected = by_hand(params, x, dot, weigh=lambda s: np.maximum(s, 0) / len(s))
    np.testing.assert_allclose(output, expected, atol=1e-4)


def test_unscaled_attention():
    kernels = Kernels(name="unscaled", attend=variants.unscaled_attend)
    params, x, output = apply(variants.MultiHeadAttention(CONFIG, kernels))
    expected = by_hand(params, x, lambda q, k, i, j, n: q @ k)
    np.testing.assert_allclose(output, expected, atol=1e-4)


def test_additive_attention():
    params, x, output = apply(variants.AdditiveAttention(CONFIG, REFERENCE))

    def score(q, k, i, j, n):
        return sum(params["vector"][n] * np.tanh(q + k))

    np.testing.assert_allclose(output, by_hand(params, x, score), atol=1e-4)


def test_shared_queries_and_keys():
    params, x, output = apply(variants.SharedQueriesKeys(CONFIG, REFERENCE))
    assert "key" not in params
    np.testing.assert_allclose(output, by_hand(params, x, dot, keys="query"), atol=1e-4)


@pytest.mark.parametrize("name", variants.VARIANTS)
def test_every_variant_is_a_causal_language_model(name):
    model = variants.make_variant(variants.VARIANTS[name], 12, d_model=8)
    tokens = np.array([[4, 5, 6, 7], [4, 5, 6, 8]], np.int32)
    positions = np.arange(4, dtype=np.int32) + 0 * tokens
    params = random_params(model, tokens, positions, tokens * 0 + 1)
    logits = jax.jit(model.apply)({"params": params}, tokens, positions, tokens * 0 + 1)
    np.testing.assert_allclose(logits[0, :3], logits[1, :3], atol=1e-5)
    assert np.abs(np.asarray(logits[0, 3] - logits[1, 3])).max() > 1e-3
