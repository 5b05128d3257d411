"""A partition over devices and micro-batches has each row of the batch once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flaxformer_mt.data.batching.batch import BatchShape
from flaxformer_mt.runtime.batch_partition import BatchPartition, ProcessRows, partition_batch


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
    partition = partition_batch(shape, shards=shards, tokens_per_device=tokens)
    assert partition.rows % shards == 0
    assert partition.total >= rows
    if tokens:
        assert partition.rows // shards * max(lengths) <= tokens
        fewer = partition.micro_batches - 1
        assert fewer * shards * rows_that_fit < rows  # one micro-batch fewer would not fit
    each = shards // processes
    read = [
        ProcessRows(shards, tuple(range(p * each, (p + 1) * each)), tokens)(shape)
        for p in range(processes)
    ]
    assert sorted(np.concatenate(read).tolist()) == list(range(partition.total))
    # The rows of a process are its part of each micro-batch, in order.
    for part in read:
        assert np.all(np.diff(part) > 0)
        in_micro_batch = np.bincount(part // partition.rows, minlength=partition.micro_batches)
        assert np.all(in_micro_batch == partition.rows // processes)


def test_without_a_limit_there_is_one_micro_batch():
    assert partition_batch(BatchShape(40, 10, 12), shards=8) == BatchPartition(1, 40)


def test_empty_rows_fill_up_the_last_shards():
    assert partition_batch(BatchShape(40, 10, 12), shards=3) == BatchPartition(1, 42)
    assert partition_batch(
        BatchShape(40, 10, 12), shards=2, tokens_per_device=130
    ) == BatchPartition(2, 20)


def test_too_few_rows_are_refused():
    with pytest.raises(ValueError, match=r"8 x \(50 -> 60\) has too few rows .* over 16 devices"):
        partition_batch(BatchShape(8, 50, 60), shards=16)


def test_a_long_validation_line_gets_empty_rows():
    shape = BatchShape(8, 50, 60)
    read = [ProcessRows(16, (shard,), pads=True)(shape).tolist() for shard in range(16)]
    assert read == [[row] for row in range(16)]


def test_a_limit_below_one_row_is_refused():
    with pytest.raises(ValueError, match=r"tokens_per_device=50 .* at least 60"):
        partition_batch(BatchShape(8, 50, 60), shards=1, tokens_per_device=50)
