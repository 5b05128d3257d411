"""Large text is prepared by the first start of training: the same batches, once, and it says so."""

import dataclasses
import functools
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from prepared_text import assert_same, build, sentences, write

from flaxformer_mt.data.config import DataConfig
from flaxformer_mt.data.sources.corpora import CorpusConfig
from flaxformer_mt.data.tokenization.config import TokenizerConfig


@pytest.fixture
def config(tmp_path) -> DataConfig:
    write(tmp_path / "a.tsv", [f"{s}\t{s}" for s in sentences(0, 300)] + ["no tab"])
    return DataConfig(
        directory=str(tmp_path),
        train=CorpusConfig(pairs=("a.tsv", "demo:train:100")),
        tokenizer=TokenizerConfig(vocab_size=150, byte_fallback=False),
        tokens_per_batch=1200,
        num_buckets=4,
        in_memory_mb=0,
    )


@pytest.fixture
def prepared(tmp_path, monkeypatch) -> Path:
    """The folder of prepared text in the user's cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user cache"))
    return tmp_path / "user cache" / "flaxformer_mt" / "prepared"


def caches(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_dir())


def test_large_text_is_prepared_once_with_the_same_batches(config, prepared, tmp_path, capsys):
    text = build(config, tmp_path / "text", quarantine=tmp_path / "text.jsonl")
    first = build(
        config, tmp_path / "ids", num_prepare_processes=1, quarantine=tmp_path / "ids.jsonl"
    )
    assert_same(text, first)
    assert (tmp_path / "text.jsonl").read_bytes() == (tmp_path / "ids.jsonl").read_bytes()
    (name,) = caches(prepared)
    assert str(prepared / name) in (errors := capsys.readouterr().err)
    assert "Preparing the training text (about 0 MB), once" in errors
    # The second start of the run, the first start of another one, and a run that was in memory.
    for workdir in ("ids", "other", "text"):
        assert_same(text, build(config, tmp_path / workdir, num_prepare_processes=1), epochs=1)
        assert "was prepared before" in capsys.readouterr().err
    assert caches(prepared) == [name]


def test_little_text_stays_in_memory(config, prepared, tmp_path):
    build(dataclasses.replace(config, in_memory_mb=1), tmp_path / "a", num_prepare_processes=1)
    assert not prepared.exists()


def test_other_text_settings_or_tokenizers_are_prepared_anew(config, prepared, tmp_path):
    build(config, tmp_path / "a", num_prepare_processes=1)
    shorter = dataclasses.replace(config, max_source_length=20)
    assert_same(
        build(shorter, tmp_path / "b"), build(shorter, tmp_path / "c", num_prepare_processes=1)
    )
    write(tmp_path / "a.tsv", [f"{s}\t{s}" for s in sentences(1, 300)])
    # With the tokenizer of the text before.
    other = build(config, tmp_path / "a", num_prepare_processes=1)
    assert_same(build(config, tmp_path / "a"), other)
    assert len(caches(prepared)) == 3


def test_of_several_processes_one_prepares(config, prepared, tmp_path, capsys):
    with ThreadPoolExecutor(2) as threads:
        start = functools.partial(build, config, num_prepare_processes=1)
        both = list(threads.map(start, (tmp_path / "0", tmp_path / "1")))
    assert_same(*both, epochs=1)
    assert capsys.readouterr().err.count("Preparing the training text") == 1


def test_a_killed_preparation_continues(config, prepared, tmp_path, capsys):
    expected = build(config, tmp_path / "a", num_prepare_processes=1)
    (name,) = caches(prepared)
    os.remove(prepared / name / "manifest.json")
    shard = prepared / name / "shards" / "00000" / "source.ids"
    before = shard.stat().st_mtime_ns
    assert_same(expected, build(config, tmp_path / "b", num_prepare_processes=1), epochs=1)
    assert shard.stat().st_mtime_ns == before


def test_the_share_of_bad_records_is_checked_again(config, prepared, tmp_path):
    """The text was prepared with a larger one."""
    build(
        dataclasses.replace(config, max_bad_share="100%"), tmp_path / "a", num_prepare_processes=1
    )
    with pytest.raises(ValueError, match=r"1 of 301 records of a.tsv are bad"):
        build(
            dataclasses.replace(config, max_bad_share="0"), tmp_path / "b", num_prepare_processes=1
        )
