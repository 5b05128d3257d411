"""The two-stage top-k is lax.top_k, ties included."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from flaxformer_mt.decoding.top_k import top_k


@pytest.mark.parametrize(("width", "k"), [(50, 4), (1000, 1), (1000, 3), (2048, 10)])
@pytest.mark.parametrize("num_values", [3, 1000, 10**6])
def test_equals_lax_top_k(width, k, num_values):
    x = np.random.default_rng(width).integers(num_values, size=(5, width)).astype(np.float32)
    x[0, 7:] = -np.inf  # fewer than k + 1 numbers, the rest empty
    x = jnp.asarray(x)
    jax.tree.map(np.testing.assert_array_equal, top_k(x, k), tuple(jax.lax.top_k(x, k)))
