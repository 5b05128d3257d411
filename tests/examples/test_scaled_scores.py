"""The measurement of saturation against closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scaled_scores


def test_the_jacobian_of_a_softmax():
    scores = np.random.default_rng(0).normal(size=(3, 5))
    norms = jax.jit(scaled_scores.jacobian_norm)(jnp.asarray(scores, jnp.float32))
    for row, norm in zip(scores, norms, strict=True):
        p = np.exp(row) / np.exp(row).sum()
        expected = np.linalg.norm(np.diag(p) - np.outer(p, p))
        assert float(norm) == pytest.approx(expected, rel=1e-4)


def test_division_keeps_the_deviation_at_1_and_the_gradient_alive():
    with_division = scaled_scores.measure(256, scaled=True, queries=200)
    without = scaled_scores.measure(256, scaled=False, queries=200)
    assert with_division[0] == pytest.approx(1, rel=0.1)
    assert without[0] == pytest.approx(16, rel=0.1)  # sqrt(256)
    assert with_division[1] < 0.5 < 0.9 < without[1]
    assert without[2] < 0.1 < with_division[2]
