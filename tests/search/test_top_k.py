"""The two-stage top-k is lax.top_k, ties included."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from flaxformer_mt.search.top_k import top_k

WIDTHS = [(50, 4), (1000, 1), (1000, 3), (2048, 10)]


def some_numbers(shape, num_values):
    x = np.random.default_rng(shape[-1]).integers(num_values, size=shape).astype(np.float32)
    x[0, ..., 7:] = -np.inf  # fewer than k + 1 numbers, the rest empty
    return jnp.asarray(x)


@pytest.mark.parametrize(("width", "k"), WIDTHS)
@pytest.mark.parametrize("num_values", [3, 1000, 10**6])
def test_equals_lax_top_k(width, k, num_values):
    x = some_numbers((5, width), num_values)
    jax.tree.map(np.testing.assert_array_equal, top_k(x, k), tuple(jax.lax.top_k(x, k)))


@pytest.mark.parametrize(("width", "k"), WIDTHS)
@pytest.mark.parametrize("num_values", [3, 1000, 10**6])
def test_of_two_axes_it_is_that_of_both_as_one(width, k, num_values):
    x = some_numbers((4, 3, width), num_values)
    as_one = tuple(jax.lax.top_k(x.reshape(4, -1), k))
    jax.tree.map(np.testing.assert_array_equal, top_k(x, k, axes=2), as_one)


def test_no_row_is_sorted_even_where_less_is_needed_later():
    """Later slices of the result must not hide from XLA that a top-k was asked for."""

    def best_and_some_of_them(x):
        values, indices = top_k(x, 10, axes=2)
        return values, indices, values[:, :5], indices[:, :5]

    text = jax.jit(best_and_some_of_them).lower(jnp.zeros((4, 5, 2048))).compile().as_text()
    assert text.count('custom_call_target="TopK"') == 2
    assert not re.search(r"f32\[4,\d+\]\S*, s32\S* sort\(", text)
