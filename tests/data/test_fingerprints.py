"""Fingerprints: equal for equal data, and different after any change of the batches."""

import dataclasses

import numpy as np
import pytest

from flaxformer_mt.data.batching.batch import BatchShape
from flaxformer_mt.data.batching.packing import pack_pairs
from flaxformer_mt.data.batching.plan import Epochs
from flaxformer_mt.data.config import DataConfig
from flaxformer_mt.data.fingerprints import BATCHES, changed, fingerprint_data
from flaxformer_mt.data.pipeline import Data, build_data
from flaxformer_mt.data.sources.corpora import CorpusConfig
from flaxformer_mt.data.tokenization.config import TokenizerConfig
from flaxformer_mt.data.tokenization.tokenized import TokenizedPairs


@pytest.fixture
def config(tmp_path) -> DataConfig:
    (tmp_path / "a.tsv").write_text("a b\tb a\n" * 20 + "a\tb\n")
    (tmp_path / "b.tsv").write_text("b a\ta b\n" * 10)
    return DataConfig(
        directory=str(tmp_path),
        train=CorpusConfig(pairs=("a.tsv", "b.tsv")),
        tokenizer=TokenizerConfig(kind="word"),
        batching="pack",  # whose shape depends on no text
    )


def build(config: DataConfig, seed: int = 0) -> Data:
    directory = f"{config.directory}/tokenizer"
    return build_data(config, tokenizer_directory=directory, seed=seed)


def test_the_same_data_has_the_same_fingerprints(config):
    first, again = build(config).fingerprints, build(config).fingerprints
    assert first == again
    assert list(first) == ["a.tsv", "b.tsv", BATCHES]
    assert all(len(digits) == 16 for digits in first.values())
    assert len(set(first.values())) == 3
    assert changed(first, again) == []


@pytest.mark.parametrize("line", ["a b\tb\n", "a\tb a\n", "b a\tb a\n"])
def test_a_changed_line_changes_the_fingerprint_of_its_corpus_only(config, tmp_path, line):
    before = build(config).fingerprints
    (tmp_path / "a.tsv").write_text("a b\tb a\n" * 19 + line + "a\tb\n")
    assert changed(before, build(config).fingerprints) == ["a.tsv has changed"]


def test_sentence_ends_and_batch_settings_change_the_fingerprint():
    tokens, offsets, moved = np.full(3, 9, np.int32), np.array([0, 1, 3]), np.array([0, 2, 3])
    epochs = Epochs(
        pairs=TokenizedPairs(tokens, offsets, tokens, offsets),
        shapes=(BatchShape(8, 4, 4),),
        seed=0,
        corpus_sizes=(2,),
        weights=(1.0,),
    )
    before = fingerprint_data(["a"], epochs)
    other = TokenizedPairs(tokens, offsets, tokens, moved)
    now = fingerprint_data(["a"], dataclasses.replace(epochs, pairs=other))
    assert changed(before, now) == ["a has changed"]
    now = fingerprint_data(["a"], dataclasses.replace(epochs, batcher=pack_pairs))
    assert [name for name in now if now[name] != before[name]] == [BATCHES]


@pytest.mark.parametrize(
    "changes",
    [
        {"tokens_per_batch": 2048},
        {"batching": "bucket"},
        {"train": CorpusConfig(pairs=("a.tsv", "b.tsv"), weights=(1.0, 2.0))},
    ],
)
def test_settings_of_the_batches_change_the_fingerprint(config, changes):
    before = build(config).fingerprints
    now = build(dataclasses.replace(config, **changes)).fingerprints
    (line,) = changed(before, now)
    assert line.startswith("the settings of the batches have changed")


def test_the_order_of_the_corpora_changes_the_fingerprint(config):
    before = build(config).fingerprints
    turned = dataclasses.replace(config, train=CorpusConfig(pairs=("b.tsv", "a.tsv")))
    assert changed(before, build(turned).fingerprints) == ["the order of the corpora has changed"]


def test_the_seed_changes_the_fingerprint(config):
    (line,) = changed(build(config).fingerprints, build(config, seed=1).fingerprints)
    assert "the seed" in line


def test_new_and_missing_corpora_are_named(config):
    before = build(config).fingerprints
    twice = dataclasses.replace(config, train=CorpusConfig(pairs=("a.tsv", "a.tsv")))
    now = build(twice).fingerprints
    assert list(now) == ["a.tsv", "a.tsv #2", BATCHES]
    lines = changed(before, now)
    assert lines == ["b.tsv is gone", "a.tsv #2 is new"]


def test_the_same_text_in_another_place_is_the_same(config, tmp_path):
    before = build(config).fingerprints
    for name in ("a.tsv", "b.tsv"):
        (tmp_path / name).rename(tmp_path / f"moved-{name}")
    moved = CorpusConfig(pairs=("moved-a.tsv", "moved-b.tsv"))
    now = build(dataclasses.replace(config, train=moved)).fingerprints
    assert list(now) != list(before) and changed(before, now) == []


def test_a_checkpoint_without_fingerprints_has_nothing_to_compare(config):
    assert changed({}, build(config).fingerprints) == []
