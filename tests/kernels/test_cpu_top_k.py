"""The two-stage `top_k` of CPUs: values and indices are those of `jax.lax.top_k`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from flaxformer_mt.kernels.cpu.top_k import BLOCK, top_k


@pytest.mark.parametrize("size", [1, 63, 64, 65, 200, 20 * BLOCK, 20 * BLOCK + 1, 1999])
@pytest.mark.parametrize("k", [1, 2, 10])
@pytest.mark.parametrize("content", ["distinct", "equal", "few finite", "none finite"])
def test_top_k_is_that_of_jax(rng, size, k, content):
    x = rng.normal(size=(7, size)).astype(np.float32)
    if content == "equal":
        x = np.round(x)  # many ties
    elif content != "distinct":
        rare = {"few finite": 0.01, "none finite": 0.0}[content]
        x = np.where(rng.random(x.shape) < rare, x, -np.inf).astype(np.float32)
    k = min(k, size)
    values, indices = jax.jit(top_k, static_argnums=1)(x, k)
    expected_values, expected_indices = jax.lax.top_k(jnp.asarray(x), k)
    np.testing.assert_array_equal(values, expected_values)
    np.testing.assert_array_equal(indices, expected_indices)


@pytest.mark.parametrize("k", [1, 10])
def test_scores_that_are_not_numbers_are_found(k):
    """So the search reports a model with such scores."""
    x = np.full((2, 3000), np.nan, np.float32)
    x[:, 0] = -np.inf  # as suppressed tokens
    values, _ = jax.jit(top_k, static_argnums=1)(x, k)
    assert np.isnan(values).all()
