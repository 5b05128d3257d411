"""The batches of a recipe, for sentences of assumed lengths."""

import dataclasses

import pytest

from flaxformer_mt.config import load_config
from flaxformer_mt.planning.workload import assume_batches, describe_assumptions, largest_batch


def fill(batches) -> float:
    """The fraction of all target cells that holds a token."""
    cells = sum(batch.share * batch.shape.rows * batch.shape.target_length for batch in batches)
    return sum(batch.share * batch.target_tokens for batch in batches) / cells


@pytest.mark.parametrize("batching", ["bucket", "pack"])
def test_assumed_lengths(batching):
    config = load_config("configs/wmt14_en_de_base.py")
    config = dataclasses.replace(config, data=dataclasses.replace(config.data, batching=batching))
    assert "ASSUMED: 20,000 pairs" in describe_assumptions(config)
    assert "a vocabulary of 37,000" in describe_assumptions(config)
    batches = assume_batches(config)
    assert batches == assume_batches(config)  # the same at each call
    assert sum(batch.share for batch in batches) == pytest.approx(1)
    for (rows, _, target_length), target_tokens, _ in batches:
        assert rows % 8 == 0 and 0 < target_tokens <= rows * target_length
    assert 0.8 < fill(batches) < 1
    largest = largest_batch(batches)
    assert largest.shape == batches[-1].shape and largest.shape[1:] == (256, 256)
    assert fill([largest]) == pytest.approx(fill(batches))
