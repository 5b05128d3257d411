"""Prepared corpora: the same batches as from text, also after kills, and no changed input."""

import dataclasses
import itertools
import json
import os
import shutil
import subprocess
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from prepared_text import assert_same, build, sentences, write
from tiers import slow_after

from flaxformer_mt.data.config import DataConfig
from flaxformer_mt.data.encoding import scan_block
from flaxformer_mt.data.fingerprints import BATCHES
from flaxformer_mt.data.prepared import job
from flaxformer_mt.data.prepared.manifest import Manifest
from flaxformer_mt.data.prepared.preparing import prepare_corpus
from flaxformer_mt.data.sources.blocks import Block
from flaxformer_mt.data.sources.corpora import CorpusConfig
from flaxformer_mt.data.sources.pair import Pair
from flaxformer_mt.data.sources.quarantine import BadRecord
from flaxformer_mt.data.tokenization.config import TokenizerConfig


@pytest.fixture(scope="module")
def directory(tmp_path_factory) -> Path:
    """Four corpora of 400 pairs, with bad records, held-out lines and long sentences."""
    directory = tmp_path_factory.mktemp("corpus")
    source, target = sentences(0, 400), sentences(1, 400)
    source[7], target[201], source[399], source[250] = "", " ", "hund katze " * 90, "im test"
    write(directory / "a.en", source)
    write(directory / "a.de.gz", target)
    lines = [f"{s}\t{t}" for s, t in zip(sentences(2, 400), sentences(3, 400), strict=True)]
    lines[130] = "no tab"
    write(directory / "b.tsv", lines)
    records = [
        {"en": s, "de": t} for s, t in zip(sentences(4, 400), sentences(5, 400), strict=True)
    ]
    texts = [json.dumps(record) for record in records]
    texts[5] = "{"
    write(directory / "c.jsonl", texts)
    records[9] = {"en": None, "de": "x"}
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(records[:300]), directory / "d.parquet")
    for part in "12":
        write(directory / f"p-{part}.en", sentences(ord(part), 150))
        write(directory / f"p-{part}.de.zst", sentences(ord(part) + 9, 150))
        write(directory / f"q-{part}.tsv", [*lines[int(part) :: 3], "no tab", "", " \tempty"])
    write(directory / "test.en", ["im test", *sentences(6, 10)])
    write(directory / "test.de", ["x", *sentences(7, 10)])
    write(directory / "val.en", sentences(8, 10))
    write(directory / "val.de", sentences(9, 10))
    return directory


@pytest.fixture(scope="module")
def config(directory) -> DataConfig:
    return DataConfig(
        directory=str(directory),
        train=CorpusConfig(
            source=("a.en",),
            target=("a.de.gz",),
            pairs=("b.tsv", "c.jsonl", "d.parquet", "demo:train:300"),
        ),
        validation=CorpusConfig(source=("val.en",), target=("val.de",)),
        test=CorpusConfig(source=("test.en",), target=("test.de",)),
        exclude=("test",),
        tokenizer=TokenizerConfig(vocab_size=150, byte_fallback=False, max_lines=500),
        max_source_length=100,
        max_target_length=60,
        tokens_per_batch=1200,
        num_buckets=4,
    )


def prepare(config: DataConfig, output: Path, **options) -> Manifest:
    return prepare_corpus(config, output, **{"shard_size": 128, **options})


VARIANTS = {
    "buckets": {},
    "packed": {"batching": "pack"},
    "separate words": {"tokenizer": TokenizerConfig(kind="word", shared=False, vocab_size=80)},
    "limit": {"limit": 250},
    "weights": {"weights": (0.5, 2.0, 1.0, 1.5, 1.0)},
    "temperature": {"temperature": 5.0},
    "tags": {"languages": True},
    "sampling": {"sampling_alpha": 0.2},
    "patterns": {
        "limit": 270,
        "weights": (2.0, 1.0),
        "text": {"source": ("p-*.en",), "target": ("p-?.de.zst",), "pairs": ("q-*.tsv",)},
    },
}


def variant(config: DataConfig, name: str) -> DataConfig:
    """Returns a config for text of any kind with the changes of a variant."""
    changes = dict(VARIANTS[name])
    if text := changes.pop("text", None):
        config = dataclasses.replace(config, train=CorpusConfig(**text))
    for key in ("limit", "weights", "temperature"):
        if key in changes:
            train = dataclasses.replace(config.train, **{key: changes.pop(key)})
            config = dataclasses.replace(config, train=train)
    if changes.pop("languages", False):
        # One corpus of another language.
        parts = {
            part: dataclasses.replace(
                getattr(config, part),
                target_languages=("de", "de", "de", "de", "de")[: len(getattr(config, part).names)],
            )
            for part in ("train", "validation", "test")
        }
        config = dataclasses.replace(config, **parts)
    if alpha := changes.pop("sampling_alpha", 0):
        changes["tokenizer"] = dataclasses.replace(config.tokenizer, sampling_alpha=alpha)
    return dataclasses.replace(config, **changes)


FAST = ("packed", "tags", "patterns")


@pytest.mark.parametrize(
    "name", slow_after(len(FAST), [*FAST, *(name for name in VARIANTS if name not in FAST)])
)
def test_batches_and_report_are_those_of_the_text(config, tmp_path, name):
    config = variant(config, name)
    manifest = prepare(config, tmp_path / "prepared")
    if name == "buckets":
        assert [len(corpus.shards) for corpus in manifest.corpora] == [4, 4, 4, 3, 3]
        assert manifest.corpora[0].dropped == {
            "empty source": 1,
            "empty target": 1,
            "with a test line as source": 1,
            "source longer than 100 tokens": 1,
        }
    prepared = dataclasses.replace(config, prepared=str(tmp_path / "prepared"))
    text = build(config, tmp_path / "a", quarantine=tmp_path / "quarantine.jsonl")
    assert_same(text, build(prepared, tmp_path / "b"))
    listed = (tmp_path / "prepared" / "quarantine.jsonl").read_text()
    assert listed == (tmp_path / "quarantine.jsonl").read_text()
    assert listed.count("\n") == 5
    if name == "patterns":
        assert "q-2.tsv, line 134" in listed.replace('", "line": ', ", line ")
        assert [corpus.pairs for corpus in manifest.corpora] == [270, 265]


@pytest.mark.slow
def test_processes_change_nothing(config, tmp_path, monkeypatch):
    monkeypatch.setattr(job, "BLOCK_SIZE", 64)
    alone = prepare(config, tmp_path / "alone")
    shared = prepare(config, tmp_path / "shared", num_processes=2)
    assert alone == shared
    for file in sorted((tmp_path / "alone" / "shards").rglob("*.*")):
        name = file.relative_to(tmp_path / "alone")
        assert file.read_bytes() == (tmp_path / "shared" / name).read_bytes(), name


def test_too_many_bad_records_are_refused_with_the_first(config, tmp_path):
    config = dataclasses.replace(config, max_bad_share="0.1%")
    with pytest.raises(ValueError, match=r"2 of 400 records of a.en | a.de.gz are bad.*line 8"):
        prepare(config, tmp_path / "prepared")


def test_the_text_is_not_needed_afterwards(config, directory, tmp_path):
    for file in directory.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    config = dataclasses.replace(config, directory=str(tmp_path))
    prepare(config, tmp_path / "prepared")
    expected = build(config, tmp_path / "a")
    for name in ("a.en", "a.de.gz", "b.tsv", "c.jsonl", "d.parquet"):
        (tmp_path / name).unlink()
    config = dataclasses.replace(config, prepared=str(tmp_path / "prepared"))
    assert_same(expected, build(config, tmp_path / "b"))
    other_text = dataclasses.replace(config, train=CorpusConfig())
    assert build(other_text, tmp_path / "b").fingerprints == expected.fingerprints


@pytest.mark.parametrize("when", ["between shards", "in a shard"])
def test_a_killed_preparation_continues_at_the_unfinished_shard(config, tmp_path, when):
    expected = prepare(config, tmp_path / "expected")
    output = tmp_path / "prepared"
    prepare(config, output)
    (output / "manifest.json").unlink()
    times = {}
    for number in range(18):
        shard = output / "shards" / f"{number:05}"
        if number >= 6:  # as if it had never been there
            shard.rename(output / "gone") if number == 6 else None
            subprocess.run(["rm", "-r", str(output / "gone" if number == 6 else shard)], check=True)
        else:
            times[number] = (shard / "source.ids").stat().st_mtime_ns
    if when == "in a shard":
        (output / "shards" / "00006.partial").mkdir()
        (output / "shards" / "00006.partial" / "source.ids").write_bytes(b"half")
    assert prepare(config, output) == expected
    for number, before in times.items():
        shard = output / "shards" / f"{number:05}"
        assert (shard / "source.ids").stat().st_mtime_ns == before
    assert not list(output.rglob("*.partial"))


@pytest.mark.parametrize("complete", [True, False])
def test_a_changed_input_is_named_and_refused(config, directory, tmp_path, complete):
    for file in directory.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    config = dataclasses.replace(config, directory=str(tmp_path))
    output = tmp_path / "prepared"
    prepare(config, output)
    if not complete:
        (output / "manifest.json").unlink()
    text = (tmp_path / "b.tsv").read_bytes()
    (tmp_path / "b.tsv").write_bytes(text.replace(b"hund", b"hand", 1))
    with pytest.raises(ValueError, match=r"b.tsv has changed: it has other content of the same"):
        prepare(config, output)
    (tmp_path / "b.tsv").write_bytes(text + b"x\ty\n")
    with pytest.raises(ValueError, match=r"b.tsv has changed: it had [\d,]+ bytes"):
        prepare(config, output)
    (tmp_path / "b.tsv").write_bytes(text)  # another time, the same content
    prepare(config, output)
    with pytest.raises(ValueError, match=r"data.max_source_length was 100 and is now 90"):
        prepare(dataclasses.replace(config, max_source_length=90), output)


@pytest.mark.parametrize("part", [2, 3, 5], ids=["tokenizer", "first shard", "third shard"])
def test_nothing_of_text_that_changes_meanwhile_is_kept(config, directory, tmp_path, part):
    """A resumed preparation, on the text as it was, is that of text that never changed."""
    (tmp_path / "b.tsv").write_bytes(text := (directory / "b.tsv").read_bytes())
    train = CorpusConfig(pairs=("b.tsv",))
    config = dataclasses.replace(config, directory=str(tmp_path), train=train, exclude=())
    expected = prepare(config, tmp_path / "expected", shard_size=64)
    parts = itertools.count(2)

    def change() -> None:
        if next(parts) == part:
            (tmp_path / "b.tsv").write_bytes(text.replace(b"hund", b"hand"))

    with pytest.raises(ValueError, match=r"b.tsv has changed"):
        prepare(config, tmp_path / "prepared", shard_size=64, after_part=change)
    (tmp_path / "b.tsv").write_bytes(text)
    found = prepare(config, tmp_path / "prepared", shard_size=64)
    assert (found.tokenizer, found.corpora) == (expected.tokenizer, expected.corpora)


def test_a_changed_vocabulary_is_named_and_refused(config, tmp_path):
    write(tmp_path / "a.tsv", [f"{s}\t{s}" for s in sentences(0, 300)])
    special = [f"{name}\t1" for name in ("<PAD>", "<UNK>", "<S>", "</S>")]
    write(tmp_path / "words.tsv", [*special, "hund\t9", "katze\t8"])
    tokenizer = TokenizerConfig(kind="word", source_vocab="words.tsv", target_vocab="words.tsv")
    config = dataclasses.replace(
        config,
        directory=str(tmp_path),
        train=CorpusConfig(pairs=("a.tsv",)),
        exclude=(),
        tokenizer=tokenizer,
    )
    prepare(config, tmp_path / "prepared")
    write(tmp_path / "words.tsv", [*special, "hund\t9", "baum\t8"])
    with pytest.raises(ValueError, match=r"words.tsv has changed"):
        prepare(config, tmp_path / "prepared")


@pytest.mark.parametrize("complete", [True, False])
def test_a_new_file_of_a_pattern_is_named_and_refused(config, directory, tmp_path, complete):
    text = (directory / "b.tsv").read_bytes()
    (tmp_path / "b1.tsv").write_bytes(text)
    train = CorpusConfig(pairs=("b*.tsv",))
    config = dataclasses.replace(config, directory=str(tmp_path), train=train, exclude=())
    output = tmp_path / "prepared"
    prepare(config, output)
    if not complete:
        (output / "manifest.json").unlink()
    (tmp_path / "b0.tsv").write_bytes(text)
    with pytest.raises(ValueError, match=r"b0.tsv is new"):
        prepare(config, output)
    (tmp_path / "b0.tsv").unlink()
    prepare(config, output)


def test_other_settings_are_refused_by_training(config, tmp_path):
    prepare(config, tmp_path / "prepared")
    config = dataclasses.replace(config, prepared=str(tmp_path / "prepared"))

    def refusal(**changes) -> str:
        with pytest.raises(ValueError) as error:
            build(dataclasses.replace(config, **changes), tmp_path / "tokenizer")
        return str(error.value)

    assert "data.max_target_length was 60 and is now 50" in refusal(max_target_length=50)
    assert "data.source_language was 'en' and is now 'fr'" in refusal(source_language="fr")
    tokenizer = dataclasses.replace(config.tokenizer, vocab_size=99)
    assert "vocab_size was 150 and is now 99" in refusal(tokenizer=tokenizer)
    sampling = dataclasses.replace(config.tokenizer, sampling_alpha=0.1)
    assert "has token ids only" in refusal(tokenizer=sampling)
    assert "lines of test that data.exclude drops" in refusal(exclude=())
    assert "weights needs one number for each" in refusal(
        train=CorpusConfig(pairs=("a.tsv",), weights=(2.0,))
    )
    assert "data.train.limit: 0 -> 10" in refusal(train=dataclasses.replace(config.train, limit=10))
    limited = dataclasses.replace(config, train=dataclasses.replace(config.train, limit=250))
    prepare(limited, tmp_path / "limited")
    limited = dataclasses.replace(limited, prepared=str(tmp_path / "limited"))
    with pytest.raises(ValueError, match="data.train.limit: 250 -> 0"):
        build(dataclasses.replace(limited, train=config.train), tmp_path / "limited tokenizer")
    build(dataclasses.replace(limited, train=CorpusConfig()), tmp_path / "limited tokenizer")
    languages = ("de", "de", "fr", "de", "de")
    tagged = dataclasses.replace(config.train, target_languages=languages)
    of_set = dataclasses.replace(config.validation, target_languages=("de",))
    assert "data.train.target_languages: none -> de, fr" in refusal(
        train=tagged, validation=of_set, test=CorpusConfig(), exclude=()
    )
    (tmp_path / "prepared" / "manifest.json").unlink()
    assert "no complete prepared corpus" in refusal()


def test_lost_text_is_named_where_it_is_read(config, tmp_path):
    tokenizer = dataclasses.replace(config.tokenizer, sampling_alpha=0.5)
    prepare(dataclasses.replace(config, tokenizer=tokenizer), tmp_path / "prepared")
    text = tmp_path / "prepared" / "shards" / "00001" / "text"
    text.write_bytes(text.read_bytes()[:-1])
    config = dataclasses.replace(config, prepared=str(tmp_path / "prepared"))
    build(config, tmp_path / "tokenizer")
    with pytest.raises(ValueError, match="00001/text is missing or truncated"):
        build(dataclasses.replace(config, tokenizer=tokenizer), tmp_path / "tokenizer")


def test_a_bad_row_of_a_later_block_has_its_own_number():
    bad = BadRecord("kind", "table", 0, "reason")
    records = [Pair("a", "b"), bad, Pair(" ", "b"), Pair("a", "b")]
    block = Block(name="table", tag="", first=4, start=9, size=3, share=1.0, read=lambda: records)
    assert [bad.line for bad in scan_block(block, exclude={}).bad] == [6, 7]


def test_a_run_on_text_resumes_on_its_prepared_corpus(config, tmp_path):
    prepare(config, tmp_path / "prepared")
    text = build(config, tmp_path / "tokenizer")
    prepared = dataclasses.replace(config, prepared=str(tmp_path / "prepared"))
    assert build(prepared, tmp_path / "tokenizer").fingerprints == text.fingerprints
    assert BATCHES in text.fingerprints


def test_another_corpus_in_the_same_directory(tmp_path):
    """As in a notebook: nothing of the first one stays in this process."""
    output = tmp_path / "prepared"
    for seed in (0, 1):
        write(tmp_path / "a.tsv", [f"{s}\t{s}" for s in sentences(seed, 300)])
        config = DataConfig(
            directory=str(tmp_path),
            train=CorpusConfig(pairs=("a.tsv",)),
            tokenizer=TokenizerConfig(vocab_size=150, byte_fallback=False),
            tokens_per_batch=1200,
        )
        shutil.rmtree(output, ignore_errors=True)
        prepare(config, output)
        found = build(dataclasses.replace(config, prepared=str(output)), tmp_path / f"ids{seed}")
        expected = build(config, tmp_path / f"text{seed}")
        assert_same(found, expected, epochs=1)


def test_a_file_name_that_is_not_utf_8(tmp_path):
    name = os.fsdecode(b"part-\xe9.tsv")
    write(tmp_path / name, [*(f"{s}\t{s}" for s in sentences(0, 100)), "no tab"])
    train = CorpusConfig(pairs=("part-*.tsv",))
    tokenizer = TokenizerConfig(vocab_size=150, byte_fallback=False)
    config = DataConfig(
        directory=str(tmp_path), train=train, tokenizer=tokenizer, max_bad_share="5%"
    )
    manifest = prepare(config, tmp_path / "prepared")
    assert list(manifest.inputs) == [str(tmp_path / name)]
    assert prepare(config, tmp_path / "prepared") == manifest
