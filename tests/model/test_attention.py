"""Attention against float64 NumPy versions written from the papers, one query at a time."""

import functools
import math

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from flaxformer_mt.model import attention
from flaxformer_mt.model.attention import KeysValues, attention_weights
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.model.kernels import REFERENCE, KeyValueStore
from flaxformer_mt.model.masks import (
    AttentionContext,
    causal_mask,
    local_window_mask,
    segment_mask,
)
from flaxformer_mt.model.multi_head_attention import MultiHeadAttention, self_attention


@jax.jit
def attend(q, k, v, mask):
    return attention.attend(q, k, v, AttentionContext(mask))


def numpy_attention(q, k, v, mask):
    """Returns softmax(Q K^T / sqrt(d_k)) V, one query at a time, over the allowed keys only."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    batch, length, heads, _ = q.shape
    shared_by = heads // k.shape[2]
    out = np.zeros((batch, length, heads, v.shape[-1]))
    for b, n, t in np.ndindex(batch, heads, length):
        allowed = np.broadcast_to(mask, (batch, 1, length, k.shape[1]))[b, 0, t]
        group = n // shared_by
        scores = k[b, allowed, group] @ q[b, t, n] / np.sqrt(q.shape[-1])
        weights = np.exp(scores - scores.max())
        out[b, t, n] = weights @ v[b, allowed, group] / weights.sum()
    return out


def draw(rng, *shape):
    return jnp.asarray(rng.normal(size=shape), jnp.float32)


@pytest.mark.parametrize("kv_heads", [6, 3, 2, 1])
def test_equals_numpy(rng, kv_heads):
    q, k, v = draw(rng, 2, 5, 6, 4), draw(rng, 2, 5, kv_heads, 4), draw(rng, 2, 5, kv_heads, 3)
    segments = jnp.array([[1, 1, 1, 1, 1], [1, 1, 2, 2, 2]])
    mask = segment_mask(segments, segments) & causal_mask(5)
    np.testing.assert_allclose(attend(q, k, v, mask), numpy_attention(q, k, v, mask), atol=1e-5)


@pytest.mark.parametrize("kv_heads", [6, 2, 1])
def test_equals_jax(rng, kv_heads):
    q, k, v = draw(rng, 2, 5, 6, 4), draw(rng, 2, 5, kv_heads, 4), draw(rng, 2, 5, kv_heads, 4)
    mask = causal_mask(5)
    theirs = jax.jit(jax.nn.dot_product_attention)(q, k, v, mask=mask)
    np.testing.assert_allclose(attend(q, k, v, mask), theirs, atol=1e-5)


def test_masked_keys_have_weight_0_and_fully_masked_rows_stay_finite(rng):
    q, k = draw(rng, 2, 5, 3, 4), draw(rng, 2, 5, 3, 4)
    segments = jnp.array([[1, 1, 1, 0, 0], [0, 0, 0, 0, 0]])
    weights = jax.jit(attention_weights)(q, k, segment_mask(segments, segments))
    assert jnp.all(weights[0, :, :3, 3:] == 0)
    assert jnp.all(jnp.isfinite(weights))


def test_a_local_window_is_centred_and_follows_positions():
    positions = jnp.array([[0, 1, 2, 3, 0, 1]])  # two packed sentences
    segments = jnp.array([[1, 1, 1, 1, 2, 2]])
    near = local_window_mask(positions, positions, 3) & segment_mask(segments, segments)
    expected = [
        [1, 1, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0],
        [0, 1, 1, 1, 0, 0],
        [0, 0, 1, 1, 0, 0],
        [0, 0, 0, 0, 1, 1],
        [0, 0, 0, 0, 1, 1],
    ]
    np.testing.assert_array_equal(near[0, 0], np.array(expected, bool))


def project(params, name, x):
    """Returns x W + b of one projection, in float64: [B T N H]."""
    kernel, bias = (np.asarray(params[name][key], np.float64) for key in ("kernel", "bias"))
    return np.einsum("BTD,DNH->BTNH", x, kernel) + bias


def apply_self_attention(rng, config, positions, mask, *, bidirectional=True):
    """Returns (params, x, output) of a self-attention layer with random parameters."""
    sizes = {"d_model": 8, "num_heads": 4, "num_kv_heads": 2, "key_width": 6, "value_width": 3}
    layer = self_attention(
        TransformerConfig(**sizes, **config), REFERENCE, bidirectional=bidirectional
    )
    x = draw(rng, *positions.shape, 8)
    context = AttentionContext(mask, positions, positions)

    def whole(module, x):
        keys_values = module.keys_values(x, context.key_positions)
        return module(x, keys_values, context, dropout_rows=None)

    shapes = jax.eval_shape(functools.partial(layer.init, method=whole), jax.random.key(0), x)
    params = jax.tree.map(lambda leaf: draw(rng, *leaf.shape), nn.unbox(shapes))
    output = jax.jit(functools.partial(layer.apply, method=whole))(params, x)
    return params["params"], np.asarray(x, np.float64), output


def numpy_self_attention(params, x, score, value, mask):
    """Returns the output by loops, with score(q_i, k_j, i, j, head) and value(v_j, i, j)."""
    q, k, v = (project(params, name, x) for name in ("query", "key", "value"))
    batch, length, heads, _ = q.shape
    shared_by = heads // k.shape[2]
    out = np.zeros((batch, length, heads, v.shape[-1]))
    for b, i, n in np.ndindex(batch, length, heads):
        allowed = [j for j in range(length) if mask[b, 0, i, j]]
        scores = [score(q[b, i, n], k[b, j, n // shared_by], b, i, j, n) for j in allowed]
        weights = np.exp(np.array(scores) - max(scores))
        weights /= weights.sum()
        for weight, j in zip(weights, allowed, strict=True):
            out[b, i, n] += weight * value(v[b, j, n // shared_by], b, i, j)
    kernel, bias = (np.asarray(params["out"][key], np.float64) for key in ("kernel", "bias"))
    return np.einsum("BTNH,NHD->BTD", out, kernel) + bias


SEGMENTS = jnp.array([[1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 2, 2, 2, 2]])
POSITIONS = jnp.array([[0, 1, 2, 3, 4, 5, 6], [0, 1, 2, 0, 1, 2, 3]])
MASK = segment_mask(SEGMENTS, SEGMENTS)
PLACE = np.asarray(POSITIONS)


@pytest.mark.parametrize("mask", [MASK, MASK & causal_mask(7)], ids=["encoder", "decoder"])
def test_relative_positions_equal_shaw(rng, mask):
    """Shaw et al. 2018, equations 3 and 4."""
    config = {"positions": "relative", "max_distance": 2}
    params, x, found = apply_self_attention(rng, config, POSITIONS, mask)
    w_k, w_v = (np.asarray(params["relation"][key], np.float64) for key in ("keys", "values"))

    def clip(b, i, j):
        return max(-2, min(2, PLACE[b, j] - PLACE[b, i])) + 2

    def score(q, k, b, i, j, n):
        return q @ (k + w_k[clip(b, i, j)]) / math.sqrt(6)

    def value(v, b, i, j):
        return v + w_v[clip(b, i, j)]

    expected = numpy_self_attention(params, x, score, value, mask)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_rotary_positions_equal_roformer(rng):
    """Su et al. 2021, section 3.2: complex numbers multiplied by e^(i m theta)."""
    params, x, found = apply_self_attention(rng, {"positions": "rotary"}, POSITIONS, MASK)

    def turned(vector, position):
        complex_pairs = vector[:3] + 1j * vector[3:]
        return complex_pairs * np.exp(1j * position * 10000.0 ** (-2 * np.arange(3) / 6))

    def score(q, k, b, i, j, n):
        product = turned(q, PLACE[b, i]) * turned(k, PLACE[b, j]).conj()
        return product.real.sum() / math.sqrt(6)

    expected = numpy_self_attention(params, x, score, lambda v, b, i, j: v, MASK)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def t5_bucket(distance, bidirectional, num_buckets, max_distance):
    """Returns the bucket of one distance: Raffel et al. 2020, section 2.1."""
    bucket = 0
    if bidirectional:
        num_buckets //= 2
        bucket = num_buckets if distance > 0 else 0
        steps = abs(distance)
    else:
        steps = max(0, -distance)
    exact = num_buckets // 2
    if steps < exact:
        return bucket + steps
    share = math.log(steps / exact) / math.log(max_distance / exact)
    return bucket + min(num_buckets - 1, exact + int(share * (num_buckets - exact)))


@pytest.mark.parametrize("bidirectional", [True, False])
def test_bucketed_bias_equals_t5(rng, bidirectional):
    mask = MASK if bidirectional else MASK & causal_mask(7)
    config = {"positions": "bucketed", "num_position_buckets": 8, "max_distance": 5}
    params, x, found = apply_self_attention(
        rng, config, POSITIONS, mask, bidirectional=bidirectional
    )
    table = np.asarray(params["relation"]["table"], np.float64)

    def score(q, k, b, i, j, n):
        bucket = t5_bucket(PLACE[b, j] - PLACE[b, i], bidirectional, 8, 5)
        return q @ k / math.sqrt(6) + table[bucket, n]

    expected = numpy_self_attention(params, x, score, lambda v, b, i, j: v, mask)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_steps_equal_the_whole_sequence(rng):
    """Self-attention token by token over a store == causal attention over all tokens."""
    module = MultiHeadAttention(TransformerConfig(d_model=8, num_heads=2))
    length = 5
    x = draw(rng, 3, length, 8)

    def whole(module, x):
        context = AttentionContext(causal_mask(length))
        return module(x, module.keys_values(x), context, dropout_rows=None)

    def step(module, x, store, slots, mask):
        store = store.append(slots, module.keys_values(x))
        return module.attend_store(x, store, AttentionContext(mask)), store

    params = module.init(jax.random.key(0), x, method=whole)
    expected = module.apply(params, x, method=whole)
    step = jax.jit(functools.partial(module.apply, method=step))
    zeros = jnp.zeros((3, 1, 2, 4))
    store = KeyValueStore.empty(3, length, KeysValues(zeros, zeros), 1)
    for t in range(length):
        mask = jnp.arange(length)[None, None, None] <= t
        y, store = step(params, x[:, t : t + 1], store, jnp.full((3, 1), t), mask)
        np.testing.assert_allclose(y[:, 0], expected[:, t], atol=1e-5)


@pytest.mark.parametrize(("positions", "learns"), [("sinusoidal", False), ("rotary", True)])
def test_the_bias_of_keys_is_trained_only_if_softmax_depends_on_it(positions, learns):
    """Otherwise its gradient is rounding noise, which Adam amplifies."""
    config = TransformerConfig(d_model=16, num_heads=2, positions=positions)
    module = self_attention(config, REFERENCE, bidirectional=True)
    x = jax.random.normal(jax.random.key(0), (2, 5, 16))
    positions = jnp.tile(jnp.arange(5), (2, 1))
    context = AttentionContext(jnp.ones((2, 1, 5, 5), bool), positions, positions)

    def output(module, x):
        keys_values = module.keys_values(x, positions)
        return module(x, keys_values, context, dropout_rows=None)

    variables = jax.jit(nn.init(output, module))(jax.random.key(1), x)
    # Also with a bias that is not 0.
    gradients = jax.jit(jax.grad(lambda v: jnp.sum(jnp.sin(nn.apply(output, module)(v, x)))))(
        variables
    )
    gradients = nn.unbox(gradients)["params"]
    assert bool(jnp.any(gradients["key"]["bias"] != 0)) == learns
    assert jnp.any(gradients["query"]["bias"] != 0)
