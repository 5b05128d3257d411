"""Preparing on Apache Beam gives every file of the local engine. Skipped without Beam.

`make test-beam` installs it in an environment of its own.
"""

import dataclasses
import importlib.util
import json
import random
from pathlib import Path

import pytest

from flaxformer_mt import prepare
from flaxformer_mt.data.config import DataConfig
from flaxformer_mt.data.prepared import beam_shards, preparing, shards
from flaxformer_mt.data.prepared.beam import BeamWorkers
from flaxformer_mt.data.prepared.preparing import Preparation, prepare_corpus
from flaxformer_mt.data.sources.corpora import CorpusConfig
from flaxformer_mt.data.tokenization.tokenizer import TokenizerConfig

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


def run(config: DataConfig, output: Path, options: str | None = None) -> dict[str, bytes]:
    """Prepares, on Beam if there are options; returns all files."""
    workers = None if options is None else BeamWorkers(options, output / "beam")
    how = Preparation(
        config=config, output=output, shard_size=128, show_progress=False, workers=workers
    )
    prepare_corpus(how)
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
    monkeypatch.setattr(preparing, "BLOCK_SIZE", 32)
    tokenizer = dataclasses.replace(config.tokenizer, sampling_alpha=0.2)
    if kind == "unknown words":
        # The limit is reached in the second shard, on each side.
        for module in (preparing, shards, beam_shards):
            monkeypatch.setattr(module, "MAX_PAIRS_NAMED", 150)
        tokenizer = TokenizerConfig(kind="word", shared=False, vocab_size=30)
    config = dataclasses.replace(config, tokenizer=tokenizer)
    expected = run(config, tmp_path / "local")
    assert_same(run(config, tmp_path / "beam", IN_MEMORY), expected)
    if kind == "unknown words":
        counts = [json.loads(expected[f"shards/0000{n}/shard.json"]) for n in range(3)]
        assert [one["pairs_with_unknown"][0] for one in counts][1:] != [0, 0]
        assert counts[2]["pairs_with_unknown"] == [0, 0]


def test_processes_give_the_same_files(config, tmp_path):
    command = [
        *("--data.directory", str(tmp_path), "--data.train.source", "a.en"),
        *("--data.train.target", "a.de", "--data.train.pairs", "b.tsv"),
        *("--data.tokenizer.vocab-size", "320", "--shard-size", "128"),
    ]
    assert prepare.main([*command, "--output", str(tmp_path / "local")]) == 0
    beam = "--runner FnApiRunner --direct_num_workers 2 --direct_running_mode multi_processing"
    more = ["--engine", "beam", "--beam-options", beam, "--output", str(tmp_path / "beam")]
    assert prepare.main([*command, *more]) == 0
    found, expected = (files_of(tmp_path / name) for name in ("beam", "local"))
    assert_same(found, expected)


write_shard = beam_shards._write_shard
written: list[int] = []


def write_twice(shards, new_writer, group, blocks):
    """As if two workers wrote the same shard."""
    for _ in range(2):
        write_shard(shards, new_writer, group, blocks)
    written.append(blocks[0].shard)


def write_three(*given):
    if len(written) == 3:
        raise OSError("no space left")
    write_twice(*given)


def test_a_stopped_preparation_continues_with_its_complete_shards(config, tmp_path, monkeypatch):
    expected = run(config, tmp_path / "local")
    output = tmp_path / "beam"
    written.clear()
    monkeypatch.setattr(beam_shards, "_write_shard", write_three)
    with pytest.raises(ValueError, match="^no space left$"):
        run(config, output, IN_MEMORY)
    (partly,) = (output / "beam").glob("shards-*")
    assert sorted(int(folder.name) for folder in partly.iterdir()) == sorted(written)
    monkeypatch.setattr(beam_shards, "_write_shard", write_twice)
    assert_same(run(config, output, IN_MEMORY), expected)
    assert sorted(written) == list(range(7))


def test_an_error_of_a_worker_is_named(config, tmp_path):
    with open(tmp_path / "a.en", "a") as lines:
        lines.write("one more\n")
    config = dataclasses.replace(config, train=dataclasses.replace(config.train, limit=0))
    with pytest.raises(ValueError, match=r"a.en has 331 lines"):
        run(config, tmp_path / "beam", "")
