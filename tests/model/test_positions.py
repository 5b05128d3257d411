"""Positions that are added to embeddings: sinusoids against section 3.5, entry by entry."""

import math
from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from flaxformer_mt.model.config import Scheme
from flaxformer_mt.model.positions import (
    ADDED_SCHEMES,
    RELATIVE_SCHEMES,
    make_added_positions,
    sinusoids,
)


def test_equals_the_formula():
    table, halves = sinusoids(50, 6), sinusoids(50, 6, half_split=True)
    for position in range(50):
        for i in range(3):
            angle = position / 10000 ** (2 * i / 6)
            assert abs(table[position, 2 * i] - math.sin(angle)) < 1e-6
            assert abs(table[position, 2 * i + 1] - math.cos(angle)) < 1e-6
            assert abs(halves[position, i] - math.sin(angle)) < 1e-6
            assert abs(halves[position, 3 + i] - math.cos(angle)) < 1e-6


def test_a_fixed_offset_is_a_rotation():
    """The paper's reason for sinusoids: PE[pos + k] is a linear function of PE[pos]."""
    table = sinusoids(64, 8).astype(np.float64)
    rotation, *_ = np.linalg.lstsq(table[:-5], table[5:], rcond=None)
    np.testing.assert_allclose(table[:-5] @ rotation, table[5:], atol=1e-5)


@pytest.mark.parametrize("half_split", [False, True])
def test_positions_choose_the_row_of_the_table(half_split):
    kind = "sinusoidal_half_split" if half_split else "sinusoidal"
    added = make_added_positions(kind, 0)
    x, positions = jnp.ones((1, 4, 6)), jnp.array([[0, 1, 0, 2]])
    expected = 1 + sinusoids(4, 6, half_split=half_split)[np.array([[0, 1, 0, 2]])]
    np.testing.assert_array_equal(added.apply({}, x, positions, length=4), expected)


def test_learned_positions_choose_the_row_and_end_where_the_table_ends():
    added = make_added_positions("learned", 4)
    x, positions = jnp.ones((1, 4, 6)), jnp.array([[0, 1, 0, 2]])
    table = jax.random.normal(jax.random.key(0), (4, 6))
    found = added.apply({"params": {"table": table}}, x, positions, length=4)
    np.testing.assert_array_equal(found, 1 + table[positions])
    with pytest.raises(
        ValueError,
        match=r"positions for 4 tokens \(model.max_positions\), but the input may have 5",
    ):
        added.apply({"params": {"table": table}}, x, positions, length=5)


def test_every_scheme_is_one_entry_and_has_a_name_in_the_config():
    assert not ADDED_SCHEMES.keys() & RELATIVE_SCHEMES.keys()
    assert {*ADDED_SCHEMES, *RELATIVE_SCHEMES} == {*get_args(Scheme)}


def test_relative_schemes_add_nothing_to_embeddings():
    x, positions = jnp.ones((1, 4, 6)), jnp.array([[0, 1, 0, 2]])
    for kind in ("relative", "bucketed", "rotary", "none"):
        added = make_added_positions(kind, 0)
        np.testing.assert_array_equal(added.apply({}, x, positions, length=4), x)
