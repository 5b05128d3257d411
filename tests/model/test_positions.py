"""Sinusoids against the formula of section 3.5, entry by entry."""

import math

import jax.numpy as jnp
import numpy as np

from flaxformer_mt.model.positions import add_sinusoids, sinusoids


def test_equals_the_formula():
    table = sinusoids(50, 6)
    for position in range(50):
        for i in range(3):
            angle = position / 10000 ** (2 * i / 6)
            assert abs(table[position, 2 * i] - math.sin(angle)) < 1e-6
            assert abs(table[position, 2 * i + 1] - math.cos(angle)) < 1e-6


def test_a_fixed_offset_is_a_rotation():
    """Why the paper chose them: PE[pos + k] is the same linear function of PE[pos] for all pos."""
    table = sinusoids(64, 8).astype(np.float64)
    rotation, *_ = np.linalg.lstsq(table[:-5], table[5:], rcond=None)
    np.testing.assert_allclose(table[:-5] @ rotation, table[5:], atol=1e-5)


def test_positions_choose_the_row():
    x = jnp.zeros((1, 4, 6))
    positions = jnp.array([[0, 1, 0, 2]])
    expected = sinusoids(4, 6)[np.array([[0, 1, 0, 2]])]
    np.testing.assert_array_equal(add_sinusoids(x, positions, length=4), expected)
