"""Packing: every pair once and unchanged, with the same loss as unpacked."""

import itertools
import json
from collections import Counter
from unittest import mock

import grain
import jax
import numpy as np
import optax
import pytest
from grain.experimental import BestFitPackIterDataset
from hypothesis import given
from hypothesis import strategies as st
from tiers import slow_after

from flaxformer_mt.data.batching import packing
from flaxformer_mt.data.batching.batch import Batch, BatchShape
from flaxformer_mt.data.batching.packing import best_fit, pack_pairs
from flaxformer_mt.data.batching.plan import BatchPlan, Epochs, plan_in_order
from flaxformer_mt.data.config import DataConfig
from flaxformer_mt.data.pipeline import build_data, choose_shapes
from flaxformer_mt.data.sources.corpora import CorpusConfig
from flaxformer_mt.data.tokenization.config import TokenizerConfig
from flaxformer_mt.data.tokenization.tokenized import TokenizedPairs
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.model.transformer import Transformer

SHAPE = BatchShape(4, 20, 24)
VOCAB_SIZE = 50


def make_pairs(lengths) -> TokenizedPairs:
    """Returns pairs of random tokens with these (source, target) lengths."""
    rng = np.random.default_rng(0)

    def side(lengths):
        tokens = rng.integers(4, VOCAB_SIZE, sum(lengths)).astype(np.int32)
        return tokens, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)

    sources, targets = zip(*lengths, strict=True)
    return TokenizedPairs(*side(sources), *side(targets))


def random_pairs(size: int) -> TokenizedPairs:
    rng = np.random.default_rng(1)
    return make_pairs(list(zip(rng.integers(2, 15, size), rng.integers(2, 18, size), strict=True)))


def plan(pairs: TokenizedPairs, epoch: int = 0) -> BatchPlan:
    return Epochs(
        pairs=pairs,
        shapes=(SHAPE,),
        seed=3,
        corpus_sizes=(len(pairs),),
        weights=(1.0,),
        batcher=pack_pairs,
    ).plan(epoch)


def unpack(batch: Batch) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Returns the tokens of both sides of every pair in the batch, by its segment ids."""
    found = []
    for row in range(len(batch.inputs)):
        numbers = range(1, max(batch.inputs_segment_ids[row].max(), 0) + 1)
        assert batch.targets_segment_ids[row].max() == len(numbers)
        for number in numbers:
            source = batch.inputs_segment_ids[row] == number
            target = batch.targets_segment_ids[row] == number
            assert batch.inputs_positions[row][source].tolist() == list(range(source.sum()))
            assert batch.targets_positions[row][target].tolist() == list(range(target.sum()))
            found.append(
                (tuple(batch.inputs[row][source].tolist()), tuple(batch.targets[row][target]))
            )
    return found


@given(
    st.lists(st.tuples(st.integers(1, 20), st.integers(1, 24)), min_size=1, max_size=300),
    st.integers(0, 3),
    st.sampled_from([7, 4096]),
)
def test_an_epoch_has_every_pair_once_and_unchanged(lengths, epoch, chunk_size):
    pairs = make_pairs(lengths)
    expected = Counter(
        (tuple(example.inputs.tolist()), tuple(example.targets.tolist()))
        for example in map(pairs.example, range(len(pairs)))
    )
    with mock.patch.object(packing, "_CHUNK_SIZE", chunk_size):
        plans = plan(pairs, epoch), plan_in_order(pairs, [SHAPE], pack_pairs)
    for this in plans:
        batches = [this.batch(index) for index in range(len(this))]
        assert all(batch.inputs.shape == (4, 20) for batch in batches)
        assert all(batch.targets.shape == (4, 24) for batch in batches)
        assert Counter(itertools.chain.from_iterable(map(unpack, batches))) == expected
        empty = [int((~batch.inputs_segment_ids.any(axis=1)).sum()) for batch in batches]
        assert max(empty) < 4 and np.count_nonzero(empty) <= 1


def test_the_rows_are_those_of_grains_best_fit_packer():
    lengths = np.random.default_rng(2).integers(1, 65, (500, 2))
    zeros = np.zeros(64, np.int32)
    features = [
        {"inputs": zeros[:source], "targets": zeros[:target], "index": index}
        for index, (source, target) in enumerate(lengths)
    ]
    rows = BestFitPackIterDataset(
        grain.MapDataset.source(features).to_iter_dataset(),
        length_struct={"inputs": 64, "targets": 80},
        num_packing_bins=len(lengths),
        shuffle_bins=False,
        meta_features=("index",),
    )
    row_of = best_fit(lengths[:, 0], lengths[:, 1], BatchShape(8, 64, 80))
    ours = [np.flatnonzero(row_of == row).tolist() for row in range(row_of.max() + 1)]
    assert ours == [list(row["index"]) for row in rows]


def test_the_order_is_a_function_of_seed_and_epoch():
    pairs = random_pairs(500)
    once, again, other = plan(pairs), plan(pairs), plan(pairs, epoch=1)
    np.testing.assert_array_equal(once.order, again.order)
    for batch, same in zip(once.batches, again.batches, strict=True):
        np.testing.assert_array_equal(batch.row_sizes, same.row_sizes)
    assert once.order.tolist() != other.order.tolist()


def test_a_pair_longer_than_a_row_is_never_lost():
    with pytest.raises(ValueError, match=r"1 pairs are longer than a row of 4 x \(20 -> 24\)"):
        plan(make_pairs([(3, 3), (3, 25)]))


def test_rows_fill_the_token_bound():
    def shapes(tokens_per_batch: int) -> tuple[BatchShape, ...]:
        config = DataConfig(
            batching="pack",
            max_source_length=100,
            max_target_length=64,
            tokens_per_batch=tokens_per_batch,
        )
        return choose_shapes(config, *np.zeros((2, 0), int))

    assert shapes(1700) == (BatchShape(16, 100, 64),)
    with pytest.raises(ValueError, match="tokens_per_batch=799 is too small"):
        shapes(799)


def test_a_restored_iterator_continues_like_the_uninterrupted_one():
    from flaxformer_mt.data.batching.iterator import BatchIterator

    pairs = random_pairs(200)
    epochs = Epochs(
        pairs=pairs,
        shapes=(SHAPE,),
        seed=3,
        corpus_sizes=(200,),
        weights=(1.5,),
        batcher=pack_pairs,
    )
    uninterrupted, fresh = BatchIterator(epochs), BatchIterator(epochs)
    steps = len(epochs.plan(0)) - 2
    for _ in range(steps):
        next(uninterrupted)
    fresh.set_state(json.loads(json.dumps(uninterrupted.get_state())))
    for _ in range(4):  # across the end of the epoch
        for array, expected in zip(next(fresh), next(uninterrupted), strict=True):
            np.testing.assert_array_equal(array, expected)
    assert fresh.get_state()["epoch"] == 1
    uninterrupted.close()
    fresh.close()


@pytest.mark.parametrize(
    ("positions", "local_window"),
    slow_after(1, [("relative", 5), ("sinusoidal", 0), ("rotary", 0)]),
)
def test_the_loss_of_packed_pairs_is_that_of_unpacked_pairs(positions, local_window):
    pairs = random_pairs(60)
    model = Transformer(
        TransformerConfig(
            d_model=16,
            d_ff=32,
            num_heads=2,
            num_encoder_layers=1,
            num_decoder_layers=1,
            positions=positions,
            dropout=0.0,
            local_window=local_window,
        ),
        source_vocab_size=VOCAB_SIZE,
        target_vocab_size=VOCAB_SIZE,
        bos_id=2,
    )
    packed = plan_in_order(pairs, [SHAPE], pack_pairs)
    apart = plan_in_order(pairs, [BatchShape(60, 20, 24)])
    forward = jax.jit(lambda params, batch: model.apply({"params": params}, *batch))
    params = jax.jit(model.init)(jax.random.key(0), *apart.batch(0))["params"]

    def total(plan: BatchPlan) -> tuple[float, int]:
        """Returns the sum of the loss and the number of tokens of the whole plan."""
        loss, tokens = 0.0, 0
        for batch in map(plan.batch, range(len(plan))):
            logits = forward(params, batch)
            losses = optax.softmax_cross_entropy_with_integer_labels(logits, batch.targets)
            real = batch.targets_segment_ids != 0
            loss, tokens = loss + float(losses[real].sum()), tokens + int(real.sum())
        return loss, tokens

    assert len(packed) > 1 and packed.pairs_per_row > 1.5
    (packed_loss, packed_tokens), (apart_loss, apart_tokens) = total(packed), total(apart)
    assert packed_tokens == apart_tokens == pairs.target_lengths.sum()
    assert packed_loss == pytest.approx(apart_loss, rel=1e-5)


@pytest.mark.parametrize(
    ("batching", "max_lengths", "bound"),
    [
        pytest.param("pack", (60, 64), 0.05, marks=pytest.mark.slow),
        pytest.param("pack", (256, 256), 0.05, marks=pytest.mark.slow),
        pytest.param("bucket", (256, 256), 0.1, marks=pytest.mark.slow),
    ],
)
def test_multi30k_pads_little(shared_data, tmp_path_factory, batching, max_lengths, bound):
    files = {side: (f"train.{side}",) for side in ("en", "de")}
    config = DataConfig(
        directory=str(shared_data / "multi30k"),
        train=CorpusConfig(source=files["en"], target=files["de"]),
        tokenizer=TokenizerConfig(vocab_size=8000, max_lines=5000),
        max_source_length=max_lengths[0],
        max_target_length=max_lengths[1],
        batching=batching,
    )
    # Learnt once for all cases.
    directory = tmp_path_factory.getbasetemp() / "multi30k-tokenizer"
    report = build_data(config, tokenizer_directory=str(directory), seed=0).report
    assert report.padding < bound
    told = "pairs a row" in str(report), "in 1 shape," in str(report)
    assert told == ((True, True) if batching == "pack" else (False, False))
