"""Batch shapes: within their bounds for any lengths, and as good as exhaustive search."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flaxformer_mt.data.batching import buckets
from flaxformer_mt.data.batching.batch import BatchShape
from flaxformer_mt.data.batching.buckets import bucket_of, choose_bucket_shapes

lengths = st.lists(st.tuples(st.integers(1, 120), st.integers(1, 120)), min_size=1, max_size=60)


def choose(pairs, **options) -> tuple[BatchShape, ...]:
    source, target = np.array(pairs).T
    return choose_bucket_shapes(source, target, **options)


def cells(pairs, corners) -> int:
    """Returns the cells of all pairs, each in the first of the nested corners that fits it."""
    return sum(
        next(s + t for s, t in corners if source <= s and target <= t) for source, target in pairs
    )


@given(lengths, st.integers(1, 6), st.sampled_from([1, 2, 8]), st.integers(960, 5000))
def test_shapes_are_few_nested_bounded_and_fit_every_pair(pairs, num_buckets, multiple, tokens):
    shapes = choose(
        pairs, tokens_per_batch=tokens, num_buckets=num_buckets, rows_multiple_of=multiple
    )
    assert 1 <= len(shapes) <= num_buckets
    for rows, source_length, target_length in shapes:
        assert rows > 0 and rows % multiple == 0
        assert rows * source_length <= tokens and rows * target_length <= tokens
        assert (rows + multiple) * max(source_length, target_length) > tokens  # no row is wasted
    for smaller, larger in itertools.pairwise(shapes):
        assert smaller[1:] != larger[1:]
        assert smaller.source_length <= larger.source_length
        assert smaller.target_length <= larger.target_length
    assert shapes[-1][1:] == tuple(np.max(pairs, axis=0))


@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=12),
    st.integers(1, 3),
)
def test_padding_is_minimal_among_nested_shapes(pairs, num_buckets):
    # There are few lengths, so every border is a candidate: compare with all chains.
    shapes = choose(pairs, tokens_per_batch=1000, num_buckets=num_buckets)
    largest = tuple(int(length) for length in np.max(pairs, axis=0))
    corners = list(itertools.product(range(1, 5), range(1, 5)))
    chains = (
        sorted({*chain, largest})
        for chain in itertools.combinations_with_replacement(corners, num_buckets - 1)
    )
    nested = [chain for chain in chains if all(a[1] <= b[1] for a, b in itertools.pairwise(chain))]
    nested = [chain for chain in nested if chain[-1] == largest]
    best = min(cells(pairs, chain) for chain in nested)
    assert cells(pairs, [shape[1:] for shape in shapes]) <= best * 1.1


@given(lengths)
def test_bucket_of_is_the_first_shape_that_fits_the_pair(pairs):
    shapes = [BatchShape(1, 10, 20), BatchShape(1, 40, 20), BatchShape(1, 60, 90)]
    source, target = np.array(pairs).T
    for (s, t), bucket in zip(pairs, bucket_of(shapes, source, target), strict=True):
        holding = [i for i, shape in enumerate(shapes) if s <= shape[1] and t <= shape[2]]
        assert bucket == (holding[0] if holding else len(shapes))


def test_more_shapes_pad_less_until_under_a_tenth():
    # Sentence lengths like Multi30k's: log-normal, the target longer or shorter by a third.
    rng = np.random.default_rng(0)
    source = np.exp(rng.normal(2.7, 0.35, 20_000))
    pairs = np.stack([source, source * np.exp(rng.normal(0.03, 0.14, 20_000))], axis=1)
    pairs = np.clip(np.rint(pairs), 2, 60).astype(np.int64)
    waste = []
    for num_buckets in (1, 4, 16):
        shapes = choose(pairs, tokens_per_batch=4096, num_buckets=num_buckets)
        waste.append(1 - pairs.sum() / cells(pairs.tolist(), [shape[1:] for shape in shapes]))
    assert waste[0] > waste[1] > waste[2]
    assert waste[2] < 0.1


def test_a_few_dozen_candidate_lengths_are_enough(monkeypatch):
    rng = np.random.default_rng(0)
    source = np.clip(rng.lognormal(3.5, 0.8, 20_000).astype(int), 2, 500)
    pairs = np.stack([source, np.ones_like(source)], axis=1)
    waste = []
    for max_borders in (None, 1000):
        if max_borders:
            monkeypatch.setattr(buckets, "_MAX_BORDERS", max_borders)
        shapes = choose(pairs, tokens_per_batch=4096, num_buckets=16)
        waste.append(1 - pairs.sum() / cells(pairs.tolist(), [shape[1:] for shape in shapes]))
    assert waste[0] < waste[1] + 0.005


def test_unusable_settings_are_explained():
    with pytest.raises(ValueError, match="longest pair has 30 tokens .* at least 8 rows.* 240"):
        choose([(30, 7)], tokens_per_batch=200, num_buckets=4, rows_multiple_of=8)
    with pytest.raises(ValueError, match="at least one; got 0 and 0"):
        choose(np.empty((0, 2), int), tokens_per_batch=200, num_buckets=4)
