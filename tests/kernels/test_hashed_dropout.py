"""The statistics of the hashed dropout mask: it is as good as independent random bits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from flaxformer_mt.kernels import hashed_dropout
from flaxformer_mt.model import kernels as reference
from flaxformer_mt.model.layers import Dropout

dropout = jax.jit(hashed_dropout.dropout, static_argnums=1)
SIZE = (256, 1024)
ROWS = jnp.arange(SIZE[0])
KEPT_SD = 1 / np.sqrt(SIZE[0] * SIZE[1])  # of a correlation between independent masks


def mask(key: int, rate: float = 0.3) -> np.ndarray:
    return np.asarray(dropout(jnp.ones(SIZE), rate, jax.random.key(key), ROWS) > 0, np.float64)


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5])
def test_keeps_the_right_share_and_the_mean(rate):
    y = np.asarray(dropout(jnp.ones(SIZE), rate, jax.random.key(1), ROWS))
    np.testing.assert_allclose(np.mean(y > 0), 1 - rate, atol=5 * KEPT_SD)
    np.testing.assert_allclose(np.unique(y), [0, 1 / (1 - rate)], rtol=1e-6)


@pytest.mark.parametrize("axis", [0, 1])
def test_rows_and_columns_are_kept_equally_often(axis):
    kept = mask(2).mean(axis)
    expected_sd = np.sqrt(0.3 * 0.7 / SIZE[axis])
    assert 0.85 * expected_sd < kept.std() < 1.15 * expected_sd


@pytest.mark.parametrize("shift", [(0, 1), (1, 0), (0, 2), (0, 512), (7, 3)])
def test_neighbours_are_independent(shift):
    one = mask(3)
    assert abs(np.corrcoef(one.ravel(), np.roll(one, shift, (0, 1)).ravel())[0, 1]) < 5 * KEPT_SD


def test_keys_give_unrelated_masks():
    masks = [mask(key).ravel() for key in range(8)]
    correlations = np.corrcoef(masks)[np.triu_indices(8, 1)]
    assert np.max(np.abs(correlations)) < 5 * KEPT_SD


def test_keys_do_not_give_shifted_copies():
    """`hash(index + key)` would have this weakness: keys give shifted copies of one sequence."""
    one, other = mask(4).ravel() - 0.7, mask(5).ravel() - 0.7
    spectrum = np.fft.rfft(one) * np.conj(np.fft.rfft(other))
    correlations = np.fft.irfft(spectrum) / (one.std() * other.std() * one.size)
    assert np.max(np.abs(correlations)) < 7 * KEPT_SD


def test_a_key_gives_one_mask():
    assert np.array_equal(mask(6), mask(6))


@pytest.mark.parametrize(
    "drop", [hashed_dropout.dropout, reference.dropout], ids=["hashed", "reference"]
)
def test_the_mask_of_a_row_depends_on_its_number_alone(drop):
    """So a batch can be divided among devices and micro-batches in any way."""
    drop = jax.jit(drop, static_argnums=1)
    x, key, rows = jnp.ones((256, 64)), jax.random.key(6), jnp.array([7, 200, 3])
    whole, part = drop(x, 0.3, key, jnp.arange(256)), drop(x[:3], 0.3, key, rows)
    assert np.array_equal(part, whole[rows])
    np.testing.assert_allclose(np.mean(whole > 0), 0.7, atol=0.02)


def test_no_rows_and_zero_rate_are_the_identity():
    x = jnp.arange(6.0)
    assert jnp.array_equal(Dropout(0.5).apply({}, x, dropout_rows=None), x)
    assert jnp.array_equal(Dropout(0.0).apply({}, x, dropout_rows=jnp.arange(6)), x)
