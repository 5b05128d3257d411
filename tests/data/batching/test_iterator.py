"""The training stream: a restored iterator continues exactly where it stopped."""

import functools
import itertools
import json

import numpy as np
import pytest

from flaxformer_mt.data.batching.batch import Batch, BatchShape
from flaxformer_mt.data.batching.buckets import choose_bucket_shapes
from flaxformer_mt.data.batching.iterator import BatchIterator
from flaxformer_mt.data.batching.plan import Epochs
from flaxformer_mt.data.tokenization.tokenized import TokenizedPairs


@pytest.fixture(scope="module")
def epochs() -> Epochs:
    lengths = np.random.default_rng(0).integers(2, 20, 150)
    tokens = np.repeat(np.arange(150), lengths).astype(np.int32)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return Epochs(
        pairs=TokenizedPairs(tokens, offsets, tokens, offsets),
        shapes=choose_bucket_shapes(
            lengths, lengths, tokens_per_batch=160, num_buckets=4, rows_multiple_of=2
        ),
        seed=3,
        corpus_sizes=(100, 50),
        weights=(0.5, 2.0),
    )


def every_other_row(shape: BatchShape, process: int) -> np.ndarray:
    """The share of one of two processes."""
    return np.arange(process, shape.rows, 2)


def interleave(shares) -> np.ndarray:
    return np.stack(shares, axis=1).reshape(-1, shares[0].shape[1])


def take(iterator: BatchIterator, count: int) -> list[Batch]:
    return list(itertools.islice(iterator, count))


def expect(iterator: BatchIterator, batches: list[Batch]) -> None:
    for batch, expected in zip(take(iterator, len(batches)), batches, strict=True):
        for array, expected_array in zip(batch, expected, strict=True):
            np.testing.assert_array_equal(array, expected_array)


def test_batches_are_those_of_the_plans_epoch_after_epoch(epochs):
    iterator = BatchIterator(epochs)
    for epoch in range(3):
        plan = epochs.plan(epoch)
        assert iterator.get_state() == {"epoch": epoch, "index": 0}
        expect(iterator, [plan.batch(index) for index in range(len(plan))])
    iterator.close()


def test_a_restored_iterator_continues_like_the_uninterrupted_one(epochs):
    steps = len(epochs.plan(0)) + len(epochs.plan(1)) + 3
    uninterrupted = BatchIterator(epochs)
    batches, states = [], [json.dumps(uninterrupted.get_state())]
    for batch in itertools.islice(uninterrupted, steps):
        batches.append(batch)
        states.append(json.dumps(uninterrupted.get_state()))
    uninterrupted.close()

    fresh = BatchIterator(epochs)
    for step in range(0, steps, 7):
        fresh.set_state(json.loads(states[step]))
        expect(fresh, batches[step:])
    fresh.set_state(json.loads(states[5]))  # back again
    expect(fresh, batches[5:9])
    fresh.close()


def test_the_state_counts_batches_handed_out_not_prefetched(epochs):
    iterator = BatchIterator(epochs)
    iterator.start_prefetch()
    assert iterator.get_state() == {"epoch": 0, "index": 0}
    state = iterator.get_state()
    take(iterator, 2)
    assert iterator.get_state() == {"epoch": 0, "index": 2}
    assert state == {"epoch": 0, "index": 0}
    iterator.get_state()["index"] = 9  # a copy
    assert iterator.get_state() == {"epoch": 0, "index": 2}
    iterator.close()


def test_processes_share_each_batch_and_may_change_in_number(epochs):
    alone = BatchIterator(epochs)
    take(alone, 3)
    state, batches = alone.get_state(), take(alone, 4)
    pair = [
        BatchIterator(epochs, shard_rows=functools.partial(every_other_row, process=i))
        for i in range(2)
    ]
    for iterator in pair:
        iterator.set_state(state)
    for batch in batches:
        for whole, *shares in zip(batch, *map(next, pair), strict=True):
            np.testing.assert_array_equal(interleave(shares), whole)
    for iterator in (alone, *pair):
        iterator.close()


@pytest.mark.parametrize("state", [{"next_index": 4}, {"epoch": 0, "index": -1}])
def test_an_invalid_state_is_refused(epochs, state):
    iterator = BatchIterator(epochs)
    with pytest.raises(ValueError, match="expected the state of a data iterator"):
        iterator.set_state(state)
    iterator.close()


def test_an_index_beyond_its_epoch_goes_on_in_the_next_one(epochs):
    """As after a resume with fewer pairs."""
    iterator = BatchIterator(epochs)
    iterator.set_state({"epoch": 0, "index": len(epochs.plan(0)) + 2})
    expect(iterator, [epochs.plan(1).batch(2)])
    assert iterator.get_state() == {"epoch": 1, "index": 3}
    iterator.close()
