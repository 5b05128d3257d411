"""Batch plans: every pair the right number of times, for any number of processes."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flaxformer_mt.data.batching.batch import BatchShape
from flaxformer_mt.data.batching.buckets import choose_bucket_shapes
from flaxformer_mt.data.batching.plan import BatchPlan, Epochs, plan_in_order
from flaxformer_mt.data.tokenization.tokenized import TokenizedPairs


def make_pairs(source_lengths, target_lengths) -> TokenizedPairs:
    """Returns pairs; pair i consists of token i on both sides, repeated to its lengths."""

    def side(lengths):
        tokens = np.repeat(np.arange(len(lengths)), lengths).astype(np.int32)
        return tokens, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)

    return TokenizedPairs(*side(source_lengths), *side(target_lengths))


def random_pairs(size: int) -> TokenizedPairs:
    lengths = np.random.default_rng(0).integers(2, 30, size)
    return make_pairs(lengths, lengths[::-1])


def choose(pairs: TokenizedPairs, tokens: int = 240, multiple: int = 1) -> tuple[BatchShape, ...]:
    return choose_bucket_shapes(
        pairs.source_lengths,
        pairs.target_lengths,
        tokens_per_batch=tokens,
        num_buckets=5,
        rows_multiple_of=multiple,
    )


def plan(pairs, shapes, *, seed=0, epoch=0, corpus_sizes=None, weights=(1.0,)) -> BatchPlan:
    return Epochs(
        pairs=pairs,
        shapes=tuple(shapes),
        seed=seed,
        corpus_sizes=corpus_sizes or (len(pairs),),
        weights=weights,
    ).plan(epoch)


def all_batches(plan: BatchPlan):
    return [plan.batch(index) for index in range(len(plan))]


@given(
    st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20)), min_size=1, max_size=80),
    st.integers(0, 5),
)
def test_an_epoch_is_every_pair_once_within_bounds(lengths, epoch):
    pairs = make_pairs(*np.array(lengths).T)
    shapes = choose(pairs, tokens=40)
    for this in (plan(pairs, shapes, epoch=epoch), plan_in_order(pairs, shapes)):
        seen: Counter[int] = Counter()
        partly_filled: Counter[int] = Counter()
        for index, batch in enumerate(all_batches(this)):
            shape = this.shape(index)
            assert batch.inputs.shape == (shape.rows, shape.source_length)
            assert batch.targets.shape == (shape.rows, shape.target_length)
            rows = batch.inputs_segment_ids.any(axis=1)
            assert rows.any()
            partly_filled[this.batches[index].shape] += int(not rows.all())
            for row in np.flatnonzero(rows):
                pair = batch.inputs[row, 0]
                seen[int(pair)] += 1
                assert (
                    batch.inputs_segment_ids[row].sum(),
                    batch.targets_segment_ids[row].sum(),
                ) == (lengths[pair])
                assert set(batch.targets[row][batch.targets_segment_ids[row] == 1]) == {pair}
        assert seen == dict.fromkeys(range(len(lengths)), 1)
        assert max(partly_filled.values()) <= 1


def test_the_order_is_a_function_of_seed_and_epoch():
    pairs = random_pairs(300)
    shapes = choose(pairs)
    once = plan(pairs, shapes, seed=1, epoch=2)
    again = plan(pairs, shapes, seed=1, epoch=2)
    np.testing.assert_array_equal(once.order, again.order)
    shapes_in_order = np.array([batch.shape for batch in once.batches])
    assert [batch.shape for batch in again.batches] == shapes_in_order.tolist()
    for other in (plan(pairs, shapes, seed=2, epoch=2), plan(pairs, shapes, seed=1, epoch=3)):
        assert other.order.tolist() != once.order.tolist()
    # Shuffled globally: not sorted by bucket, and not in the order of the corpus.
    assert np.any(np.diff(shapes_in_order) < 0) and np.any(np.diff(shapes_in_order) > 0)
    assert np.mean(np.abs(np.diff(once.order)) == 1) < 0.1


def test_any_rows_can_be_read_and_rows_beyond_the_shape_are_empty():
    pairs = random_pairs(300)
    this = plan(pairs, choose(pairs, multiple=4))
    rows = np.array([3, 0, 999, 1])
    for index in range(len(this)):
        assert max(shape.rows for shape in this.shapes) < 999
        for part, whole in zip(this.batch(index, rows), this.batch(index), strict=True):
            np.testing.assert_array_equal(part[[0, 1, 3]], whole[[3, 0, 1]])
            assert part.shape == (4, whole.shape[1]) and not part[2].any()
        assert this.batch(index, rows[:0]).inputs.shape[0] == 0


def test_negative_rows_are_refused():
    pairs = make_pairs([5] * 9, [5] * 9)
    with pytest.raises(ValueError, match="rows of a batch are numbered from 0, got -1"):
        plan(pairs, [BatchShape(5, 5, 5)]).batch(0, np.array([2, -1]))


def test_weights_say_how_often_a_corpus_is_seen():
    pairs = random_pairs(400)
    shapes = choose(pairs)
    halves = []
    for epoch in range(2):
        this = plan(
            pairs, shapes, epoch=epoch, corpus_sizes=(100, 100, 200), weights=(2.5, 0.0, 0.5)
        )
        times = np.bincount(this.order, minlength=400)
        assert set(times[:100]) == {2, 3} and times[:100].sum() == 250
        assert not times[100:200].any()
        assert set(times[200:]) == {0, 1} and times[200:].sum() == 100
        halves.append(np.flatnonzero(times[200:]).tolist())
    assert halves[0] != halves[1]  # another half each epoch


def test_padding_counts_every_cell_of_every_batch():
    pairs = random_pairs(300)
    this = plan(pairs, choose(pairs))
    batches = all_batches(this)
    cells = sum(batch.inputs.size + batch.targets.size for batch in batches)
    real = sum(
        batch.inputs_segment_ids.sum() + batch.targets_segment_ids.sum() for batch in batches
    )
    assert this.padding == pytest.approx(1 - real / cells)


def test_a_partial_batch_moves_to_the_next_bucket_unless_nearly_full():
    shapes = [BatchShape(10, 8, 8), BatchShape(5, 16, 16)]
    lengths = [8] * 13 + [16] * 2
    this = plan_in_order(make_pairs(lengths, lengths), shapes)
    assert [batch.shape for batch in this.batches] == [
        0,
        1,
    ]  # 10 of the short; 3 of them beside the 2 long ones
    lengths = [8] * 19 + [16] * 2
    this = plan_in_order(make_pairs(lengths, lengths), shapes)
    assert [batch.shape for batch in this.batches] == [0, 0, 1]  # 9 short rows and 1 empty one


def test_a_pair_longer_than_every_shape_is_refused():
    with pytest.raises(ValueError, match="1 pairs are longer than the largest batch shape"):
        plan(make_pairs([3, 9], [3, 3]), [BatchShape(2, 8, 8)])


def test_multi30k_pads_less_than_a_tenth(shared_data):
    # Words instead of pieces have nearly the same lengths, and need no tokenizer.
    sides = [(shared_data / "multi30k" / f"train.{language}") for language in ("en", "de")]
    lengths = [
        [len(line.split()) + 1 for line in side.read_text(encoding="utf-8").strip().split("\n")]
        for side in sides
    ]
    pairs = make_pairs(*map(np.array, lengths))
    assert len(pairs) == 29_000
    shapes = choose_bucket_shapes(
        pairs.source_lengths,
        pairs.target_lengths,
        tokens_per_batch=4096,
        num_buckets=16,
        rows_multiple_of=8,
    )
    assert plan(pairs, shapes).padding < 0.1
