"""Preparing on Apache Beam gives every file of the local engine. Skipped without Beam.

`make test-beam` installs it in an environment of its own.
"""

import dataclasses
import importlib.util
import itertools
import json
import random
import shutil
from pathlib import Path

import pytest

from flaxformer_mt import prepare
from flaxformer_mt.config import Config, save_config
from flaxformer_mt.data import encoding
from flaxformer_mt.data.config import DataConfig
from flaxformer_mt.data.prepared import beam, job
from flaxformer_mt.data.prepared.beam import BeamWorkers
from flaxformer_mt.data.prepared.preparing import prepare_corpus
from flaxformer_mt.data.sources.corpora import CorpusConfig
from flaxformer_mt.data.tokenization.config import TokenizerConfig
from flaxformer_mt.storage.paths import as_path, file_sizes

pytestmark = [
    pytest.mark.skipif(not importlib.util.find_spec("apache_beam"), reason="needs apache-beam"),
    pytest.mark.filterwarnings("default"),  # those of Beam are no errors
]
IN_MEMORY = "--runner FnApiRunner"
WORDS = ["der", "die", "ein", "hund", "katze", "baum", "rot", "blau", "sieht", "hat", "geht"]


def sentences(seed: int, count: int) -> list[str]:
    rng = random.Random(seed)
    return [f"{' '.join(rng.choices(WORDS, k=rng.randint(1, 12)))} {i}" for i in range(count)]


def write(file: Path, lines: list[str]) -> None:
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


@pytest.fixture
def config(tmp_path) -> DataConfig:
    """Sources of each kind of reading, with bad records and a held-out line."""
    source, target = sentences(0, 330), sentences(1, 330)
    source[7], target[201], source[250] = "", " ", "im test"
    write(tmp_path / "a.en", source)
    write(tmp_path / "a.de", target)
    lines = [f"{s}\t{t}" for s, t in zip(sentences(2, 200), sentences(3, 200), strict=True)]
    lines[130] = "no tab"
    write(tmp_path / "b.tsv", lines)
    write(tmp_path / "test.en", ["im test"])
    write(tmp_path / "test.de", ["x"])
    return DataConfig(
        directory=str(tmp_path),
        train=CorpusConfig(
            source=("a.en",), target=("a.de",), pairs=("b.tsv", "demo:train:150"), limit=320
        ),
        test=CorpusConfig(source=("test.en",), target=("test.de",)),
        exclude=("test",),
        tokenizer=TokenizerConfig(vocab_size=120, byte_fallback=False, max_lines=300),
        max_target_length=40,
    )


def run(
    config: DataConfig, output: Path, options: str | None = None, after_part=None
) -> dict[str, bytes]:
    """Prepares, on Beam if there are options; returns all files."""
    shared = output.with_name(f"{output.name}.beam")
    workers = None if options is None else BeamWorkers(options, shared)
    prepare_corpus(config, output, shard_size=128, workers=workers, after_part=after_part)
    return files_of(output)


def files_of(directory: Path) -> dict[str, bytes]:
    files = (file for file in sorted(directory.rglob("*")) if file.is_file())
    found = {str(file.relative_to(directory)): file.read_bytes() for file in files}
    return {name: content for name, content in found.items() if name != "owner.lock"}


def assert_same(found: dict[str, bytes], expected: dict[str, bytes]) -> None:
    assert found.keys() == expected.keys()
    assert [name for name in expected if found[name] != expected[name]] == []


@pytest.mark.parametrize("kind", ["subwords with text", "unknown words"])
def test_every_file_is_that_of_the_local_engine(config, tmp_path, monkeypatch, kind):
    monkeypatch.setattr(job, "BLOCK_SIZE", 32)
    tokenizer = dataclasses.replace(config.tokenizer, sampling_alpha=0.2)
    if kind == "unknown words":
        monkeypatch.setattr(encoding, "_RECORDS_NAMED", 150)  # in the second shard of each corpus
        tokenizer = TokenizerConfig(kind="word", shared=False, vocab_size=30)
    config = dataclasses.replace(config, tokenizer=tokenizer)
    monkeypatch.setattr(beam, "_GROUP", 3)
    expected = run(config, tmp_path / "local")
    assert_same(run(config, tmp_path / "beam", IN_MEMORY), expected)
    if kind == "unknown words":
        counts = [json.loads(expected[f"shards/0000{n}/shard.json"]) for n in range(3)]
        assert [bool(one["unknown_words"][0]) for one in counts] == [True, True, False]


def test_processes_give_the_same_files(config, tmp_path):
    command = [
        *("--data.directory", str(tmp_path), "--data.train.source", "a.en"),
        *("--data.train.target", "a.de", "--data.train.pairs", "b.tsv"),
        *("--data.tokenizer.vocab-size", "320", "--shard-size", "128"),
    ]
    assert prepare.main([*command, "--output", str(tmp_path / "local")]) == 0
    options = "--runner FnApiRunner --direct_num_workers 2 --direct_running_mode multi_processing"
    more = ["--engine", "beam", "--beam-options", options, "--output", str(tmp_path / "beam")]
    assert prepare.main([*command, *more]) == 0
    found, expected = (files_of(tmp_path / name) for name in ("beam", "local"))
    assert_same(found, expected)


write_results = beam._write


def write_twice(group, folder):
    """As if a worker was killed while it wrote, and two others repeated its work."""
    key, results = group[0], list(group[1])
    for _ in range(2):
        write_results((key, results), folder)
    Path(folder, str(key[0]), f"{key[1]:08}.x.1.partial").write_bytes(b"half")


def test_repeated_work_and_a_second_start_change_nothing(config, tmp_path, monkeypatch):
    monkeypatch.setattr(job, "BLOCK_SIZE", 32)
    monkeypatch.setattr(beam, "_GROUP", 3)
    expected = run(config, tmp_path / "local")
    monkeypatch.setattr(beam, "_write", write_twice)
    output = tmp_path / "output"
    parts = itertools.count(1)

    def stop():
        if next(parts) == 5:  # the first pass, the tokenizer, three shards
            raise OSError("stopped")

    with pytest.raises(OSError, match="stopped"):
        run(config, output, IN_MEMORY, stop)
    kept = {file: file.stat().st_mtime_ns for file in output.glob("shards/*/*")}
    assert {file.parent.name for file in kept} == {"00000", "00001", "00002"}
    assert_same(run(config, output, IN_MEMORY, lambda: None), expected)
    assert kept == {file: file.stat().st_mtime_ns for file in kept}
    assert not output.with_name("output.beam").exists()


def test_a_corpus_and_the_results_of_workers_in_a_bucket(config, tmp_path, bucket):
    base = tmp_path / "model"
    save_config(Config(), str(base))
    run(config, tmp_path / "first")
    shutil.copytree(tmp_path / "first" / "tokenizer", base / "tokenizer")
    command = [
        *("--data.directory", str(tmp_path), "--data.train.pairs", "b.tsv"),
        *("--shard-size", "64", "--training.init-from", str(base)),
        *("--data.tokenizer.vocab-size", "120", "--data.tokenizer.max-lines", "300"),
        *("--data.tokenizer.byte-fallback", "False"),
    ]
    assert prepare.main([*command, "--output", str(tmp_path / "local")]) == 0
    assert prepare.main([*command, "--output", f"{bucket}/there/", "--engine", "beam"]) == 0
    found = {
        name: (as_path(bucket) / name).read_bytes()
        for name in file_sizes(as_path(bucket))
        if not name.endswith("owner.lock")
    }
    expected = {f"there/{n}": content for n, content in files_of(tmp_path / "local").items()}
    assert_same(found, expected)


def test_an_error_of_a_worker_is_named(config, tmp_path):
    with open(tmp_path / "a.en", "a") as lines:
        lines.write("one more\n")
    config = dataclasses.replace(config, train=dataclasses.replace(config.train, limit=0))
    with pytest.raises(ValueError, match=r"a.en has 331 lines"):
        run(config, tmp_path / "beam", "")
