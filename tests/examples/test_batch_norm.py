"""BatchNorm against its definition, and what depends on what."""

import jax
import numpy as np
from random_params import random_params

import batch_norm
from small_runs import make_rows


def test_each_feature_is_normalised_over_the_batch():
    x = np.random.default_rng(0).normal(size=(3, 4, 2), loc=5, scale=2).astype(np.float32)
    params = random_params(batch_norm.BatchNorm(), x)
    y, state = batch_norm.BatchNorm().apply({"params": params}, x, mutable=["batch_stats"])
    for d in range(2):
        column = x[..., d].astype(np.float64)
        expected = (column - column.mean()) / np.sqrt(column.var() + 1e-6)
        expected = expected * params["scale"][d] + params["bias"][d]
        np.testing.assert_allclose(y[..., d], expected, atol=1e-5)
    again = batch_norm.BatchNorm(stored=True).apply({"params": params, **state}, x[:1])
    np.testing.assert_allclose(again, y[:1], atol=1e-5)


def test_only_batch_statistics_depend_on_later_words_and_other_sentences():
    layer, batch, stored = batch_norm.make_models(12)
    sentences = np.random.default_rng(0).integers(4, 12, size=(64, 6)).tolist()
    text = make_rows(sentences)
    params = random_params(layer, *text)
    assert max(batch_norm.dependence(layer, params, text, {})) < 1e-5
    params = random_params(batch, *text)
    later, others = batch_norm.dependence(batch, params, text, {})
    assert later > 1e-3 and others > 1e-3
    states = batch_norm.statistics(batch, params, text, count=2)
    state = batch_norm.averaged(states)
    assert max(batch_norm.dependence(stored, params, text, state)) < 1e-5
    assert jax.tree.all(jax.tree.map(lambda x: bool(np.isfinite(x).all()), state))


def test_the_fluctuation_of_means():
    def state(mean):
        return {"norm": {"mean": (np.array([mean]),), "variance": (np.array([4.0]),)}}

    assert batch_norm.fluctuation([state(1.0), state(3.0)]) == 0.5  # deviation 1 of 2
