"""Pages of keys and values: equal to the reference, and skipped where no query sees them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiers import slow_after

from flaxformer_mt.kernels.cpu.pages import Pages, page_lengths
from flaxformer_mt.model.attention import KeysValues
from flaxformer_mt.model.kernels import KeyValueStore
from flaxformer_mt.model.masks import AttentionContext


def draw(rng, *shape, dtype=jnp.float32):
    return jnp.asarray(rng.normal(size=shape), dtype)


def filled(rng, slots, beams, dtype=jnp.float32):
    """Both stores with the same content: rows replaced, then tokens appended at random slots."""
    like = KeysValues(jnp.zeros((1, 1, 2, 4), dtype), jnp.zeros((1, 1, 2, 6), dtype))
    source = KeysValues(draw(rng, 2, 20, 2, 4, dtype=dtype), draw(rng, 2, 20, 2, 6, dtype=dtype))
    stores = [kind.empty(3, slots, like, beams) for kind in (Pages, KeyValueStore)]
    replace = jax.jit(lambda store: store.replace_rows(jnp.array([2, 0]), source))
    append = jax.jit(lambda store, at, new: store.append(at, new))
    stores = [replace(store) for store in stores]
    for _ in range(3):
        at = np.stack([rng.permutation(slots + 1)[:beams] for _ in range(3)])  # `slots` is none
        new = KeysValues(
            draw(rng, 3, beams, 2, 4, dtype=dtype), draw(rng, 3, beams, 2, 6, dtype=dtype)
        )
        stores = [append(store, jnp.asarray(at), new) for store in stores]
    return stores


@pytest.mark.parametrize(
    "slots, beams, dtype",
    slow_after(
        3,
        [
            (40, 1, jnp.float32),
            (150, 3, jnp.float32),
            (23, 1, jnp.bfloat16),
            (40, 1, jnp.bfloat16),
            (150, 3, jnp.bfloat16),
            (23, 1, jnp.float32),
        ],
    ),
)
def test_pages_equal_the_reference(slots, beams, dtype, rng):
    pages, reference = filled(rng, slots, beams, dtype)
    assert len(pages.keys) == len(page_lengths(slots, 16 if beams == 1 else 64)) > 1
    for x, y in zip(pages.whole(), reference.whole(), strict=True):
        np.testing.assert_array_equal(x, y.astype(jnp.float32))
    queries, bias = draw(rng, 3, beams, 4, 4, dtype=dtype), draw(rng, 3, 4, beams, slots)
    mask = jnp.asarray(rng.random((3, 1, beams, slots)) < 0.5)
    mask = mask.at[1].set(False)  # fully masked queries
    mask = mask.at[:, :, :, 70:].set(False)  # pages that are skipped
    tolerance = 1e-5 if dtype == jnp.float32 else 3e-2
    attend = jax.jit(lambda store, given: store.attend(queries, AttentionContext(mask), given))
    for given in (None, bias):
        found, wanted = attend(pages, given), attend(reference, given)
        np.testing.assert_allclose(found[::2], wanted[::2], atol=tolerance)
        assert jnp.isfinite(found).all()


def test_pages_that_no_query_sees_are_skipped(rng):
    """NaN in a page that was read would reach the result: 0 * NaN is NaN."""
    pages, _ = filled(rng, 40, 1)
    first = jnp.arange(40)[None, None, None] < jnp.array([16, 3, 9])[:, None, None, None]
    queries = draw(rng, 3, 1, 4, 4)
    spoilt = jax.tree.map(lambda x: x * jnp.nan, pages)
    spoilt = Pages((pages.keys[0], *spoilt.keys[1:]), (pages.values[0], *spoilt.values[1:]))
    attend = jax.jit(lambda store, mask: store.attend(queries, AttentionContext(mask)))
    expected, found = attend(pages, first), attend(spoilt, first)
    np.testing.assert_array_equal(found, expected)
    assert not jnp.isfinite(attend(spoilt, first.at[0, ..., 20].set(True))[0]).all()


def test_a_row_does_not_depend_on_the_pages_that_other_rows_need(rng):
    pages, _ = filled(rng, 150, 3)
    queries = draw(rng, 3, 3, 4, 4)
    mask = jnp.zeros((3, 1, 3, 150), bool).at[..., :10].set(True)
    attend = jax.jit(lambda mask: pages.attend(queries, AttentionContext(mask)))
    alone, together = attend(mask), attend(mask.at[1].set(True))
    np.testing.assert_array_equal(alone[::2], together[::2])
    assert (alone[1] != together[1]).any()
