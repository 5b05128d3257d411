"""Ensembles: the mean of probabilities, and the attention that the source received."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from flaxformer_mt.inference.ensemble import (
    combine,
    coverage_bonus,
    empty_ensemble_cache,
    encode_sources,
    ensemble_step,
)
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.model.initialization import init_params
from flaxformer_mt.model.transformer import Transformer

VOCAB, BOS = 11, 2
CONFIG = TransformerConfig(
    d_model=8, d_ff=12, num_heads=2, num_encoder_layers=1, num_decoder_layers=2
)


def models(*changes) -> tuple[tuple[Transformer, ...], tuple]:
    made = tuple(
        Transformer(dataclasses.replace(CONFIG, **change), VOCAB, VOCAB, BOS) for change in changes
    )
    params = tuple(init_params(model, jax.random.key(i)) for i, model in enumerate(made))
    return made, params


def batch(rng):
    lengths = np.array([5, 3])
    real = np.arange(5) < lengths[:, None]
    inputs = np.where(real, rng.integers(3, VOCAB, (2, 5)), 0)
    positions = np.broadcast_to(np.arange(5), (2, 5))
    return jnp.asarray(inputs), jnp.asarray(positions), jnp.asarray(real.astype(np.int32))


@functools.partial(jax.jit, static_argnames=("models", "with_coverage"))
def start(models, params, *source, with_coverage=True):
    sources = encode_sources(models, params, *source)
    sizes = {"batch": 2, "beam_size": 2, "max_target_length": 4, "with_coverage": with_coverage}
    return empty_ensemble_cache(models, sources, **sizes).replace_rows(jnp.arange(2), sources)


def test_an_ensemble_is_the_weighted_mean_of_probabilities(rng):
    logits = [jnp.asarray(rng.normal(size=(2, 3, VOCAB)), jnp.float32) for _ in range(3)]
    weights = jnp.array([0.5, 0.3, 0.2])
    found = jax.nn.softmax(combine(logits, weights))
    expected = sum(w * jax.nn.softmax(x) for w, x in zip(weights, logits, strict=True))
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert combine(logits[:1], None) is logits[0]


@pytest.mark.slow
@pytest.mark.parametrize("members", [2, 1])
def test_steps_equal_teacher_forcing_and_count_the_attention(rng, members):
    """Hypotheses are selected between the steps; the models have different shapes."""
    made, params = models({}, {"d_model": 12, "num_decoder_layers": 1, "norm": "pre"})
    made, params = made[:members], params[:members]
    weights = jnp.array([0.6, 0.4]) if members == 2 else None
    inputs, positions, segments = batch(rng)
    cache = start(made, params, inputs, positions, segments)
    step = jax.jit(ensemble_step(made, params, weights, with_coverage=True))
    tokens = jnp.asarray(rng.integers(3, VOCAB, (2, 2, 3)))
    last = jnp.full((2, 2), BOS)
    parents = [jnp.array([[0, 0], [1, 0]]), jnp.array([[1, 0], [1, 1]])]
    written = jnp.zeros((2, 2, 0), jnp.int32)
    for t in range(3):
        logits, cache = step(last, cache)
        last = tokens[:, :, t]
        written = jnp.concatenate([written, last[..., None]], -1)
        if t < 2:
            cache = cache.select(parents[t])
            written = jnp.take_along_axis(written, parents[t][..., None], axis=1)
            last = written[:, :, -1]
    for beam in range(2):
        target = written[:, beam]
        of_all, looked = [], []
        for model, of_model in zip(made, params, strict=True):
            places = jnp.broadcast_to(jnp.arange(3), (2, 3))
            given = inputs, target, positions, places, segments, jnp.ones((2, 3), jnp.int32)
            apply = jax.jit(functools.partial(model.apply, mutable=["intermediates"]))
            out, sown = apply({"params": of_model}, *given)
            of_all.append(out)
            layers = [
                sown["intermediates"][f"decoder_{i}"]["source_attention"]["weights"][0]
                for i in range(model.config.num_decoder_layers)
            ]
            looked.append(np.mean([layer.mean(1) for layer in layers], axis=0))  # [B T S]
        np.testing.assert_allclose(logits[:, beam], combine(of_all, weights)[:, -1], atol=1e-5)
        coverage = np.mean(looked, axis=0).sum(1)  # [B S]
        np.testing.assert_allclose(cache.coverage[:, beam], coverage, atol=1e-5)


def test_the_coverage_bonus_is_equation_14(rng):
    made, params = models({})
    inputs, positions, segments = batch(rng)
    cache = start(made, params, inputs, positions, segments)
    coverage = rng.uniform(0.01, 2, (2, 2, 5)).astype(np.float32)
    found = jax.jit(coverage_bonus(jnp.float32(0.2)))(cache.replace(coverage=jnp.asarray(coverage)))
    for row, length in ((0, 5), (1, 3)):
        expected = 0.2 * np.log(np.minimum(coverage[row, :, :length], 1)).sum(-1)
        np.testing.assert_allclose(found[row], expected, rtol=1e-5)
    without = start(made, params, inputs, positions, segments, with_coverage=False)
    assert without.coverage is None
