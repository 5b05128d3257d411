"""A batch divided among devices and micro-batches is still that batch."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flaxformer_mt.data.batching.batch import BatchShape
from flaxformer_mt.runtime.batch_partition import Division, Share, divide


@given(
    rows=st.integers(1, 300),
    lengths=st.tuples(st.integers(1, 100), st.integers(1, 100)),
    shards=st.integers(1, 16),
    rows_that_fit=st.integers(0, 40),
    processes=st.sampled_from([1, 2, 4]),
)
def test_every_row_is_read_once_and_no_device_takes_too_much(
    rows, lengths, shards, rows_that_fit, processes
):
    shape = BatchShape(rows, *lengths)
    shards = min(rows, shards) // processes * processes or processes
    if rows < shards:
        return
    tokens = rows_that_fit * max(lengths)
    division = divide(shape, shards=shards, tokens_per_device=tokens)
    assert division.rows % shards == 0
    assert division.total >= rows
    if tokens:
        assert division.rows // shards * max(lengths) <= tokens
        fewer = division.micro_batches - 1
        assert fewer * shards * rows_that_fit < rows  # one micro-batch less would not do
    each = shards // processes
    read = [
        Share(shards, tuple(range(p * each, (p + 1) * each)), tokens)(shape)
        for p in range(processes)
    ]
    assert sorted(np.concatenate(read).tolist()) == list(range(division.total))
    # What a process reads, micro-batch after micro-batch, is its part of each of them.
    for part in read:
        assert np.all(np.diff(part) > 0)
        in_micro_batch = np.bincount(part // division.rows, minlength=division.micro_batches)
        assert np.all(in_micro_batch == division.rows // processes)


def test_without_a_limit_a_batch_is_taken_at_once():
    assert divide(BatchShape(40, 10, 12), shards=8) == Division(1, 40)


def test_what_does_not_come_out_even_is_filled_up_with_empty_rows():
    assert divide(BatchShape(40, 10, 12), shards=3) == Division(1, 42)
    assert divide(BatchShape(40, 10, 12), shards=2, tokens_per_device=130) == Division(2, 20)


def test_too_few_rows_are_refused():
    with pytest.raises(ValueError, match=r"8 x \(50 -> 60\) has too few rows .* over 16 devices"):
        divide(BatchShape(8, 50, 60), shards=16)


def test_a_limit_below_one_row_is_refused():
    with pytest.raises(ValueError, match=r"tokens_per_device=50 .* at least 60"):
        divide(BatchShape(8, 50, 60), shards=1, tokens_per_device=50)
