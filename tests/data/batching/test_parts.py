"""Epochs that are planned in parts: all parts together are a shuffled epoch."""

from collections import Counter

import numpy as np
import pytest

from flaxformer_mt.data.batching.batch import BatchShape
from flaxformer_mt.data.batching.mixture import epoch_size, part_of_epoch, permute
from flaxformer_mt.data.batching.plan import Epochs
from flaxformer_mt.data.tokenization.tokenized import TokenizedPairs


@pytest.mark.parametrize("total", [1, 2, 3, 63, 64, 65, 1000, 4097])
def test_a_permutation_has_every_number_once(total):
    places = np.arange(total, dtype=np.uint64)
    found = permute(places, total, key=(1, 2, 3))
    assert sorted(found.tolist()) == list(range(total))
    assert (
        permute(places[total // 2 :], total, key=(1, 2, 3)).tolist() == found[total // 2 :].tolist()
    )
    if total > 60:
        assert found.tolist() != permute(places, total, key=(1, 2, 4)).tolist()


def test_a_permutation_is_random():
    """The places of neighbours, and where the first tenth goes, are as of a random permutation."""
    total = 100_000
    found = permute(np.arange(total, dtype=np.uint64), total, key=(0, 0, 0)).astype(np.int64)
    correlation = np.corrcoef(found[:-1], found[1:])[0, 1]
    assert abs(correlation) < 5 / np.sqrt(total)
    for start in range(0, total, total // 10):
        counts = np.bincount(found[start : start + total // 10] * 10 // total, minlength=10)
        assert np.all(abs(counts - 1000) < 5 * np.sqrt(900))


@pytest.mark.parametrize("num_parts", [1, 2, 7])
def test_the_parts_of_an_epoch_are_the_mixture(num_parts):
    sizes, weights = (40, 100, 60), (1.0, 0.25, 2.5)
    assert epoch_size(sizes, weights) == 40 + 25 + 150
    for epoch in range(3):
        options = {"seed": 5, "epoch": epoch, "num_parts": num_parts}
        parts = [
            part_of_epoch(sizes, weights, part=part, **options).tolist()
            for part in range(num_parts)
        ]
        lengths = [len(part) for part in parts]
        assert sum(lengths) == 215 and max(lengths) - min(lengths) <= 1
        counts = Counter(pair for part in parts for pair in part)
        assert [counts[pair] for pair in range(40)] == [1] * 40
        assert sorted(counts[pair] for pair in range(40, 140)) == [0] * 75 + [1] * 25
        assert sorted(counts[pair] for pair in range(140, 200)) == [2] * 30 + [3] * 30


def test_an_epoch_in_parts_has_every_pair_once():
    number = 500
    ids = np.arange(number, dtype=np.int32)
    offsets = np.arange(number + 1, dtype=np.int64)
    epochs = Epochs(
        pairs=TokenizedPairs(ids, offsets, ids, offsets),
        shapes=(BatchShape(8, 1, 1),),
        seed=0,
        corpus_sizes=(300, 200),
        weights=(1.0, 1.0),
        part_size=180,
    )
    assert epochs.num_parts == 3

    def order(epoch: int) -> list[int]:
        plans = [epochs.plan(3 * epoch + part) for part in range(3)]
        batches = [plan.batch(index) for plan in plans for index in range(len(plan))]
        rows = [batch.inputs[batch.inputs_segment_ids > 0] for batch in batches]
        return np.concatenate(rows).tolist()

    first, second = order(0), order(1)
    assert sorted(first) == sorted(second) == list(range(number))
    assert first != second
    # Pairs of both corpora are in every part.
    assert all(min(part) < 100 < 400 < max(part) for part in np.array_split(first, 3))
