"""From files to batches, all stages together, on a small corpus written for the occasion."""

import dataclasses
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from flaxformer_mt.data.batching.batch import BatchShape
from flaxformer_mt.data.config import DataConfig
from flaxformer_mt.data.fingerprints import changed
from flaxformer_mt.data.pipeline import Data, build_data
from flaxformer_mt.data.sources.corpora import CorpusConfig
from flaxformer_mt.data.tokenization import tokenized
from flaxformer_mt.data.tokenization.config import TokenizerConfig
from flaxformer_mt.data.worker_processes import Workers


def write(directory: Path, name: str, lines: list[str]) -> None:
    (directory / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def sentences(seed: int, count: int) -> list[str]:
    rng = np.random.default_rng(seed)
    words = ["der", "die", "ein", "hund", "katze", "baum", "rot", "blau", "sieht", "hat", "geht"]
    return [" ".join(rng.choice(words, rng.integers(1, 12))) + f" {i}" for i in range(count)]


@pytest.fixture(scope="module")
def directory(tmp_path_factory) -> Path:
    """Training: 203 pairs, of which 2 have an empty side, 1 is too long and 1 + 2 are held out."""
    directory = tmp_path_factory.mktemp("corpus")
    source = [*sentences(0, 197), "", "baum", "hund " * 200, "im test", " im test ", "im blau"]
    target = [*sentences(1, 197), "rot", " ", "hund", "x", "y", "z"]
    write(directory, "train.en", source)
    write(directory, "train.de", target)
    write(directory, "val.en", ["im blau", "hund " * 70 + "hund", *sentences(2, 20)])
    write(directory, "val.de", ["z", "baum", *sentences(3, 20)])
    write(directory, "test.en", ["im test", *sentences(4, 10)])
    write(directory, "test.de", ["x", *sentences(5, 10)])
    return directory


@pytest.fixture(scope="module")
def config(directory) -> DataConfig:
    return DataConfig(
        directory=str(directory),
        train=CorpusConfig(source=("train.en",), target=("train.de",)),
        validation=CorpusConfig(source=("val.en",), target=("val.de",)),
        test=CorpusConfig(source=("test.en",), target=("test.de",)),
        exclude=("validation", "test"),
        tokenizer=TokenizerConfig(vocab_size=60, byte_fallback=False),
        max_source_length=100,
        tokens_per_batch=1200,
        num_buckets=4,
    )


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    directory = str(tmp_path_factory.mktemp("tokenizer"))

    def build(config: DataConfig, **options) -> Data:
        return build_data(config, tokenizer_directory=directory, **{"seed": 0, **options})

    return build


def first_half(shape: BatchShape) -> np.ndarray:
    return np.arange(shape.rows // 2)


def second_half(shape: BatchShape) -> np.ndarray:
    return np.arange(shape.rows // 2, shape.rows)


def texts(data: Data, batches) -> Counter[tuple[str, str]]:
    """The sentence pairs in the batches, turned back into text."""
    found = Counter()
    for batch in batches:
        for row in np.flatnonzero(batch.inputs_segment_ids.any(axis=1)):
            source = batch.inputs[row][batch.inputs_segment_ids[row] == 1]
            target = batch.targets[row][batch.targets_segment_ids[row] == 1]
            found[
                data.tokenizer.source.detokenize(source.tolist()),
                data.tokenizer.target.detokenize(target.tolist()),
            ] += 1
    return found


def one_epoch(data: Data, epoch: int = 0):
    iterator = data.train_iterator()
    iterator.set_state({"epoch": epoch, "index": 0})
    while iterator.get_state()["epoch"] == epoch:
        yield next(iterator)
    iterator.close()


def test_an_epoch_is_the_usable_training_text(config, build):
    data = build(config)
    expected = Counter(zip(sentences(0, 197), sentences(1, 197), strict=True))
    assert texts(data, one_epoch(data)) == expected


def test_the_first_epoch_is_planned_once(config, build):
    epochs = build(config).epochs
    assert epochs.plan(0) is epochs.plan(0)
    again = dataclasses.replace(epochs, first=None).plan(0)
    np.testing.assert_array_equal(again.order, epochs.plan(0).order)
    assert epochs.plan(1).order.tolist() != again.order.tolist()


def test_the_report_counts_every_pair(config, build):
    data = build(config)
    report = data.report
    assert (report.train.read, report.train.kept) == (203, 197)
    assert report.train.dropped == {
        "empty source": 1,
        "empty target": 1,
        "source longer than 100 tokens": 1,
        "with a validation line as source": 1,
        "with a test line as source": 2,
    }
    assert (report.validation.kept, report.test.kept) == (22, 11)
    batches = list(one_epoch(data))
    assert report.steps_per_epoch == len(batches)
    shapes = {(*batch.inputs.shape, batch.targets.shape[1]) for batch in batches}
    assert shapes <= set(report.shapes)
    assert 0 < report.padding < 1
    for part in ("203 pairs read, 197 kept", "2 with a test line as source", "% padding"):
        assert part in str(report)
    assert "warning" not in str(report)


def test_a_corpus_that_one_batch_holds_is_warned_about(config, build):
    one_pair = dataclasses.replace(config, train=CorpusConfig(pairs=("demo:train:1",)), exclude=())
    report = str(build(one_pair).report)
    assert "warning     one batch holds all 1 training pairs" in report
    assert "lower data.tokens_per_batch" in report


def test_unknown_tokens_are_counted_and_named(config, build, tmp_path):
    write(tmp_path, "train.en", ["der hund ☃ geht", "der hund ☃☃ .", "die katze ☂"] * 5)
    write(tmp_path, "train.de", ["der hund geht"] * 15)
    corpus = dataclasses.replace(config.train)
    trained_before = build(config)  # the tokenizer, on text without such signs
    assert trained_before.report.source.num_unknown == 0
    data = build(
        dataclasses.replace(
            config,
            directory=str(tmp_path),
            train=corpus,
            exclude=(),
            validation=CorpusConfig(),
            test=CorpusConfig(),
        )
    )
    report = data.report
    assert report.source.most_frequent_unknown[:1] == (("☃", 15),)
    assert dict(report.source.most_frequent_unknown)["☂"] == 5
    assert 0 < report.source.unknown_fraction < 1
    assert report.target.num_unknown == 0
    assert "'☃' 15 times" in str(report)


def test_validation_is_every_pair_once_in_the_same_order(config, build):
    data = build(config)
    batches = list(data.validation_batches())
    assert texts(data, batches) == Counter(tuple(pair) for pair in data.validation)
    assert len(data.validation) == 22
    for batch, again in zip(batches, data.validation_batches(), strict=True):
        np.testing.assert_array_equal(batch.inputs, again.inputs)


@pytest.mark.parametrize("batching", ["bucket", "pack"])
def test_training_does_not_depend_on_the_validation_set(config, build, directory, batching):
    config = dataclasses.replace(config, exclude=(), batching=batching, tokens_per_batch=4000)
    if batching == "bucket":  # eight of the longest training rows, and no longer one
        longest = max(build(config).shapes[-1][1:])
        config = dataclasses.replace(config, tokens_per_batch=8 * longest)
    without = build(dataclasses.replace(config, validation=CorpusConfig()))
    words = "hund katze baum rot"
    write(directory, "long.en", [words, f"{words} " * 6])  # more than any training line
    write(directory, "long.de", [words, f"{words} " * 7])
    long = CorpusConfig(source=("long.en",), target=("long.de",))
    data = build(dataclasses.replace(config, validation=long))
    assert data.shapes == without.shapes and data.fingerprints == without.fingerprints
    segments = [batch.inputs_segment_ids for batch in data.validation_batches()]
    assert sum(int(rows.max(axis=1).sum()) for rows in segments) == 2  # each pair once
    more = 1 if batching == "bucket" else 0
    assert len(data.validation_plan.shapes) == len(data.shapes) + more


def test_batches_do_not_depend_on_the_number_of_processes(config, build):
    alone = build(config)
    pair = [build(config, shard_rows=rows) for rows in (first_half, second_half)]
    assert alone.shapes == pair[0].shapes
    streams = [one_epoch(data) for data in (alone, *pair)]
    for whole, *shares in zip(*streams, strict=True):
        np.testing.assert_array_equal(
            np.concatenate([share.targets for share in shares]), whole.targets
        )
    validation = [list(data.validation_batches()) for data in (alone, *pair)]
    for whole, *shares in zip(*validation, strict=True):
        np.testing.assert_array_equal(
            np.concatenate([share.inputs for share in shares]), whole.inputs
        )


def test_sampling_gives_the_same_text_in_other_pieces_and_resumes(config, build):
    config = dataclasses.replace(
        config, tokenizer=dataclasses.replace(config.tokenizer, sampling_alpha=0.2)
    )
    data = build(config)
    epochs = [list(one_epoch(data, epoch)) for epoch in range(2)]
    assert texts(data, epochs[0]) == texts(data, epochs[1])
    lengths = [sum(batch.inputs_segment_ids.sum() for batch in batches) for batches in epochs]
    assert lengths[0] != lengths[1]
    for epoch in range(2, 8):  # the shapes chosen at the start fit every sample
        assert len(data.epochs.plan(epoch).order) == 197
    again = data.train_iterator()
    again.set_state(json.loads(json.dumps({"epoch": 1, "index": 1})))
    np.testing.assert_array_equal(next(again).inputs, epochs[1][1].inputs)
    again.close()


def test_another_alpha_is_noticed_by_a_run_that_resumes(config, build):
    """The shapes of packed batches do not depend on the samples."""
    first, second = (
        dataclasses.replace(
            config,
            batching="pack",
            tokens_per_batch=2048,
            tokenizer=dataclasses.replace(config.tokenizer, sampling_alpha=alpha),
        )
        for alpha in (0.2, 0.4)
    )
    (line,) = changed(build(first).fingerprints, build(second).fingerprints)
    assert "the settings of the batches have changed" in line


def test_worker_processes_sample_the_same(config, build, monkeypatch):
    monkeypatch.setattr(tokenized, "_SAMPLED_CHUNK", 8)  # 197 pairs: 25 chunks, 2 groups
    config = dataclasses.replace(
        config, tokenizer=dataclasses.replace(config.tokenizer, sampling_alpha=0.2)
    )
    alone, helped = build(config), build(dataclasses.replace(config, num_workers=2))
    for epoch in (0, 3):
        found, expected = (data.epochs.plan(epoch).pairs for data in (helped, alone))
        np.testing.assert_array_equal(found.inputs, expected.inputs)
        np.testing.assert_array_equal(found.targets_offsets, expected.targets_offsets)
    assert not multiprocessing.active_children()


def test_worker_processes_outlive_a_closed_terminal():
    """It sends SIGHUP to all processes; the parent saves the run first."""
    with Workers(1, here=False) as workers:
        assert list(workers.map(abs, [-1, -2])) == [1, 2]
        (process,) = multiprocessing.active_children()
        assert process.pid
        os.kill(process.pid, signal.SIGHUP)
        time.sleep(0.2)
        assert list(workers.map(abs, [-3, -4])) == [3, 4]


def test_sampling_ends_soon_after_the_stream_is_closed(config, build, monkeypatch):
    config = dataclasses.replace(
        config, tokenizer=dataclasses.replace(config.tokenizer, sampling_alpha=0.2)
    )
    stream, sample = build(config).train_iterator(), tokenized.SubwordSampler.sample

    def slow(*arguments):
        time.sleep(0.1)
        return sample(*arguments)

    monkeypatch.setattr(tokenized, "_SAMPLED_CHUNK", 1)
    monkeypatch.setattr(tokenized.SubwordSampler, "sample", slow)
    next(stream)  # a thread samples the next epoch, which takes 20 seconds
    start = time.monotonic()
    stream.close()
    for thread in threading.enumerate():
        if thread.name == "plan-epoch":
            thread.join()
    assert time.monotonic() - start < 10


@pytest.mark.slow
def test_python_exits_while_an_epoch_is_sampled(tmp_path):
    code = """
import sys
from flaxformer_mt.data.config import DataConfig
from flaxformer_mt.data.pipeline import build_data
from flaxformer_mt.data.sources.corpora import CorpusConfig
from flaxformer_mt.data.tokenization.config import TokenizerConfig
from flaxformer_mt.data.worker_processes import Workers

tokenizer = TokenizerConfig(vocab_size=400, sampling_alpha=0.2)
train = CorpusConfig(pairs=("demo:train:4000",))
config = DataConfig(train=train, tokenizer=tokenizer)
data = build_data(config, tokenizer_directory=sys.argv[1], seed=0)
next(data.train_iterator())  # a thread samples the second epoch
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)


def test_unusable_settings_are_explained(config, build):
    with pytest.raises(ValueError, match="no training pair is left: 203 pairs read, 0 kept"):
        build(dataclasses.replace(config, max_source_length=2))
    with pytest.raises(ValueError, match="data.test lists no text"):
        dataclasses.replace(config, test=CorpusConfig())
    with pytest.raises(ValueError, match="data.train lists no text"):
        build(dataclasses.replace(config, train=CorpusConfig()))
    with pytest.raises(ValueError, match="data.num_buckets must be at least 1, got 0"):
        dataclasses.replace(config, num_buckets=0)
    with pytest.raises(ValueError, match="seed must not be negative"):
        build(config, seed=-1)


def test_data_starts_no_jax():
    code = """
import sys, flaxformer_mt.data.pipeline
assert "jax" not in sys.modules and "grain" not in sys.modules, "imported by data.pipeline"
import flaxformer_mt.data.batching.iterator  # Grain imports jax where it is installed,
from jax._src import xla_bridge
assert not xla_bridge._backends, "started a backend"  # but must not start it
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_news_words_report_unknown_tokens_and_held_out_lines(shared_data, tmp_path):
    directory = shared_data / "news-zh-en"
    config = DataConfig(
        directory=str(directory),
        target_language="zh",
        train=CorpusConfig(source=("en.txt",), target=("cn.txt",), limit=1500),
        test=CorpusConfig(source=("en.test.txt",), target=("cn.test.txt",)),
        exclude=("test",),
        tokenizer=TokenizerConfig(
            kind="word",
            shared=False,
            source_vocab="en.txt.vocab.tsv",
            target_vocab="cn.txt.vocab.tsv",
        ),
    )
    report = build_data(config, tokenizer_directory=str(tmp_path), seed=0).report

    def lines(name: str) -> list[str]:
        return (directory / name).read_text(encoding="utf-8").split("\n")

    test_lines = {line.strip() for line in lines("en.test.txt")}
    kept = [line.split() for line in lines("en.txt")[:1500] if line.strip() not in test_lines]
    known = {row.partition("\t")[0] for row in lines("en.txt.vocab.tsv")}
    unknown = Counter(word for words in kept for word in words if word not in known)
    assert report.train.dropped == {"with a test line as source": 1500 - len(kept)}
    assert report.source.num_tokens == sum(map(len, kept))
    assert report.source.num_unknown == unknown.total()
    assert report.source.most_frequent_unknown == tuple(unknown.most_common(8))
    assert {"'.'", "','"} <= set(str(report).replace(":", " ").split())
