"""Padding: a batch contains exactly its examples, and too large examples are refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flaxformer_mt.data.batching.batch import BatchShape, Example, pad_batch

ids = st.lists(st.integers(1, 99), min_size=1, max_size=6)


def make_example(inputs: list[int], targets: list[int]) -> Example:
    return Example(np.array(inputs, np.int32), np.array(targets, np.int32))


@given(st.lists(st.tuples(ids, ids), max_size=5))
def test_segment_ids_select_exactly_the_tokens_of_the_examples(pairs):
    batch = pad_batch([make_example(*pair) for pair in pairs], BatchShape(5, 6, 7))
    for tokens, positions, segment_ids, side, length in [
        (batch.inputs, batch.inputs_positions, batch.inputs_segment_ids, 0, 6),
        (batch.targets, batch.targets_positions, batch.targets_segment_ids, 1, 7),
    ]:
        assert tokens.shape == positions.shape == segment_ids.shape == (5, length)
        assert tokens.dtype == positions.dtype == segment_ids.dtype == np.int32
        for row in range(5):
            sentence = pairs[row][side] if row < len(pairs) else []
            assert tokens[row][segment_ids[row] == 1].tolist() == sentence
            assert positions[row][segment_ids[row] == 1].tolist() == list(range(len(sentence)))
        padding = segment_ids == 0
        assert not tokens[padding].any() and not positions[padding].any()


def test_examples_that_do_not_fit_are_refused():
    example = make_example([5, 6, 3], [5, 3])
    with pytest.raises(ValueError, match="3 source tokens but the batch has 2"):
        pad_batch([example], BatchShape(1, 2, 2))
    with pytest.raises(ValueError, match="2 rows of examples do not fit into the 1 of"):
        pad_batch([example, example], BatchShape(1, 3, 3))
