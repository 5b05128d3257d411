"""The command `prepare`: kills at any moment, memory, and training on its result."""

import dataclasses
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import tiny_run

from flaxformer_mt import prepare
from flaxformer_mt.config import load_config, save_config
from flaxformer_mt.data.config import DataConfig
from flaxformer_mt.data.pipeline import build_data
from flaxformer_mt.data.prepared import preparing
from flaxformer_mt.data.sources.corpora import CorpusConfig
from flaxformer_mt.data.tokenization.config import TokenizerConfig
from flaxformer_mt.storage.paths import as_path, file_sizes
from flaxformer_mt.train import main as train_command
from flaxformer_mt.train import train

WORDS = [
    "der",
    "die",
    "ein",
    "hund",
    "katze",
    "baum",
    "rot",
    "blau",
    "sieht",
    "hat",
    "geht",
    "morgen",
    "garten",
    "schnell",
]


def write_pairs(file: Path, number: int, words: int = 8) -> None:
    rng = random.Random(number)
    with open(file, "w", encoding="utf-8") as lines:
        for index in range(number):
            source, target = (" ".join(rng.choices(WORDS, k=words)) for _ in range(2))
            lines.write(f"{source} {index}\t{target}\n")


def arguments(text: Path, output: Path | str, *more: str) -> list[str]:
    return [
        *("--data.train.pairs", str(text), "--data.tokenizer.vocab-size", "300"),
        *("--data.tokenizer.max-lines", "1000", "--output", str(output), *more),
    ]


def files_of(directory: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(directory)): file.read_bytes()
        for file in sorted(directory.rglob("*"))
        if file.is_file() and file.name not in ("owner.lock", "inputs.json")
    }


def test_the_command_prepares_and_says_what_comes_next(tmp_path, capsys):
    write_pairs(tmp_path / "text.tsv", 300)
    with open(tmp_path / "text.tsv", "a", encoding="utf-8") as lines:
        lines.write("no tab\n")
    command = arguments(tmp_path / "text.tsv", tmp_path / "prepared")
    assert prepare.main(command) == 0
    captured = capsys.readouterr()
    assert "301 pairs read, 300 kept, 1 dropped (1 wrong columns)" in captured.out
    assert "text.tsv, line 301" in captured.out
    assert "--data.prepared" in captured.out
    assert "pairs/s" in captured.err
    assert "reading: 100%" in captured.err  # of the bytes, so that it shows the time left
    before = files_of(tmp_path / "prepared")
    assert prepare.main(command) == 0  # nothing left to do
    assert files_of(tmp_path / "prepared") == before
    assert load_config(str(tmp_path / "prepared" / "config.json")).data.train.pairs == (
        str(tmp_path / "text.tsv"),
    )
    with open(tmp_path / "text.tsv", "a", encoding="utf-8") as lines:
        lines.write("a\tb\n")
    assert prepare.main(command) == 2
    assert "text.tsv has changed" in capsys.readouterr().err
    (tmp_path / "text.tsv").unlink()
    assert prepare.main(command) == 2
    assert "text.tsv is gone" in capsys.readouterr().err


def test_unusable_arguments_are_refused(tmp_path, capsys, monkeypatch):
    write_pairs(tmp_path / "text.tsv", 10)
    text = tmp_path / "text.tsv"
    for more, message in (
        (("--data.prepared", str(tmp_path)), "is prepared already"),
        (("--shard-size", "0"), "--shard-size 1 or more"),
        (("--beam-options", "--runner X"), "need --engine beam"),
    ):
        with pytest.raises(SystemExit):
            prepare.main(arguments(text, tmp_path / "prepared", *more))
        assert message in " ".join(capsys.readouterr().err.replace("│", " ").split())
    short = arguments(text, tmp_path / "prepared", "--data.max-source-length", "2")
    assert prepare.main(short) == 2
    assert "no training pair is left of 10" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "apache_beam", None)  # as if it were not installed
    assert prepare.main(arguments(text, tmp_path / "beam", "--engine", "beam")) == 2
    assert "pip install 'flaxformer_mt[beam]'" in capsys.readouterr().err
    assert not (tmp_path / "beam").exists()


def killed(*_, **__):
    raise OSError("killed")


@pytest.mark.slow
def test_another_machine_continues_in_a_bucket(bucket, tmp_path, monkeypatch):
    write_pairs(tmp_path / "text.tsv", 300)
    more = ("--shard-size", "100")
    assert prepare.main(arguments(tmp_path / "text.tsv", tmp_path / "here", *more)) == 0
    command = arguments(tmp_path / "text.tsv", f"{bucket}/prepared", *more)
    there = as_path(f"{bucket}/prepared")
    (there / "raw").mkdir(parents=True, exist_ok=True)
    (there / "raw" / "large.tsv").write_bytes(b"not of the preparation")
    with monkeypatch.context() as once:  # killed after the first pass
        once.setattr(preparing, "learning_text", killed)
        assert prepare.main(command) == 2
    assert (there / "inputs.json").exists()
    assert prepare.main(command) == 0
    expected = files_of(tmp_path / "here")

    def uploaded() -> dict[str, bytes]:
        others = ("owner.lock", "inputs.json", "raw/large.tsv")
        names = [name for name in file_sizes(there) if name not in others]
        return {name: (there / name).read_bytes() for name in names}

    def same() -> bool:
        found = uploaded()
        return found.keys() == expected.keys() and all(
            found[name] == expected[name] for name in found if name != "config.json"
        )

    assert same()
    # Killed in the second of three shards, on a machine that is gone.
    kept = there.fs.modified(f"{there.path}/shards/00000/source.ids")
    for name in ("manifest.json", "shards/00001/shard.json", "shards/00002/shard.json"):
        (there / name).unlink()
    (there / "shards" / "00001" / "source.ids").write_bytes(b"half")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache of another machine"))
    assert prepare.main(command) == 0
    assert same()
    assert there.fs.modified(f"{there.path}/shards/00000/source.ids") == kept
    before = (there / "config.json").read_bytes()
    assert prepare.main([*command, "--seed", "7"]) == 0  # nothing left to do
    assert len((there / "config.json").read_bytes()) == len(before)
    assert (there / "config.json").read_bytes() != before
    assert not list((tmp_path / "cache of another machine").rglob("preparing/**/*.ids"))
    config = DataConfig(
        prepared=f"{bucket}/prepared", tokenizer=TokenizerConfig(vocab_size=300, max_lines=1000)
    )
    data, local = (
        build_data(
            dataclasses.replace(config, prepared=str(name)),
            tokenizer_directory=str(tmp_path / "tokenizer"),
            seed=0,
        )
        for name in (config.prepared, tmp_path / "here")
    )
    assert data.fingerprints == local.fingerprints
    copies = list((tmp_path / "cache of another machine").rglob("*"))
    assert not [file for file in copies if file.name == "large.tsv"]
    # Another corpus at the same address leaves no file of this one.
    (copy,) = (file.parent for file in copies if file.name == "manifest.json")
    (copy / "tokenizer" / "old.txt").write_text("x")
    build_data(config, tokenizer_directory=str(tmp_path / "tokenizer"), seed=0)
    assert not (copy / "tokenizer" / "old.txt").exists()
    (there / "manifest.json").unlink()
    with pytest.raises(ValueError, match=f"{bucket}/prepared contains no complete prepared"):
        build_data(config, tokenizer_directory=str(tmp_path / "tokenizer"), seed=0)


@pytest.mark.slow
def test_a_kill_at_any_moment_changes_nothing(tmp_path):
    write_pairs(tmp_path / "text.tsv", 40_000)
    base = [sys.executable, "-m", "flaxformer_mt.prepare"]
    more = ("--num-workers", "2", "--shard-size", "4096")
    expected, killed = (
        [*base, *arguments(tmp_path / "text.tsv", tmp_path / name, *more)]
        for name in ("expected", "killed")
    )
    started = time.time()
    subprocess.run(expected, check=True, capture_output=True)
    took = time.time() - started
    for share in (0.3, 0.6, 0.7, 0.8):
        process = subprocess.Popen(killed, stderr=subprocess.DEVNULL, start_new_session=True)
        time.sleep(share * took)
        process.kill()
        process.wait()
        for _ in range(100):  # its workers end too
            try:
                os.killpg(process.pid, 0)
            except ProcessLookupError:
                break
            time.sleep(0.1)
        else:
            pytest.fail("a process is left")
    subprocess.run(killed, check=True, capture_output=True)
    found, wanted = files_of(tmp_path / "killed"), files_of(tmp_path / "expected")
    assert sorted(found) == sorted(wanted)
    assert {name for name in found if found[name] != wanted[name]} <= {"config.json"}


def test_a_damaged_corpus_is_named(tmp_path, capsys):
    write_pairs(tmp_path / "text.tsv", 300)
    prepared = tmp_path / "prepared"
    assert prepare.main(arguments(tmp_path / "text.tsv", prepared)) == 0
    file = prepared / "shards" / "00000" / "target.ids"
    content = file.read_bytes()
    for damage in (lambda: file.write_bytes(content[:-2]), file.unlink):
        damage()
        assert prepare.main(arguments(tmp_path / "text.tsv", prepared)) == 2
        assert f"damaged: {file} is missing or truncated" in capsys.readouterr().err
        with pytest.raises(ValueError, match="is damaged"):
            build_data(
                dataclasses.replace(
                    load_config(str(prepared / "config.json")).data, prepared=str(prepared)
                ),
                tokenizer_directory=str(tmp_path / "tokenizer"),
                seed=0,
            )
    file.write_bytes(content)
    for lengths in (file.with_name("lengths.npy"), prepared / "lengths.npy"):
        content = lengths.read_bytes()
        for kept in (0, len(content) // 2):
            lengths.write_bytes(content[:kept])
            assert prepare.main(arguments(tmp_path / "text.tsv", prepared)) == 2
            assert f"damaged: {lengths} is missing or truncated" in capsys.readouterr().err
        lengths.write_bytes(content)
    counts = file.with_name("shard.json")
    content = counts.read_bytes()
    counts.write_bytes(b"")
    assert prepare.main(arguments(tmp_path / "text.tsv", prepared)) == 2
    assert f"{counts} is damaged" in capsys.readouterr().err
    counts.unlink()
    assert prepare.main(arguments(tmp_path / "text.tsv", prepared)) == 2
    assert f"damaged: {counts} is missing" in capsys.readouterr().err


def test_a_workdir_is_no_prepared_corpus(tmp_path, capsys):
    write_pairs(tmp_path / "text.tsv", 20)
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    assert prepare.main(arguments(tmp_path / "text.tsv", tmp_path / "run")) == 2
    assert "is the workdir of a training" in capsys.readouterr().err
    assert list((tmp_path / "run").iterdir()) == [tmp_path / "run" / "checkpoints"]
    assert train_command(["--data.prepared", str(tmp_path / "run"), "--workdir", "w"]) == 2
    assert "--data.prepared must name the output of" in capsys.readouterr().err


@pytest.mark.slow
def test_interrupted_it_ends_in_order(tmp_path):
    write_pairs(tmp_path / "text.tsv", 40_000)
    command = arguments(tmp_path / "text.tsv", tmp_path / "prepared", "--num-workers", "2")
    process = subprocess.Popen(
        [sys.executable, "-m", "flaxformer_mt.prepare", *command],
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (tmp_path / "prepared" / "shards").exists():
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted" in errors and "Traceback" not in errors


MEMORY = """
import resource, sys
from pathlib import Path
from flaxformer_mt.data.config import DataConfig
from flaxformer_mt.data.pipeline import build_data
from flaxformer_mt.data.prepared.preparing import prepare_corpus
from flaxformer_mt.data.sources.corpora import CorpusConfig
from flaxformer_mt.data.tokenization.config import TokenizerConfig

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10

text, output, stage = sys.argv[1:]
config = DataConfig(
    train=CorpusConfig(pairs=(text,)),
    tokenizer=TokenizerConfig(vocab_size=300, max_lines=1000),
    prepared=output if stage == "train" else "",
)
if stage == "prepare":
    prepare_corpus(config, Path(output))
else:
    data = build_data(config, tokenizer_directory=output + "-tokenizer", seed=0)
    plan = data.epochs.plan(0)
    for index in range(200):
        plan.batch(index)
print(peak())
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_text(tmp_path):
    """200,000 pairs need little more than 20,000; their text alone has 60 MB."""

    def peak(number: int, stage: str) -> int:
        text = tmp_path / f"{number}.tsv"
        if not text.exists():
            write_pairs(text, number, words=25)
        done = subprocess.run(
            [sys.executable, "-c", MEMORY, str(text), str(tmp_path / str(number)), stage],
            check=True,
            capture_output=True,
            text=True,
        )
        return int(done.stdout)

    assert peak(200_000, "prepare") - peak(20_000, "prepare") < 25
    # 36 bytes a pair: its place in the epoch and in the batches, and its lengths for a moment.
    assert peak(200_000, "train") - peak(20_000, "train") < 25


@pytest.mark.slow
def test_training_on_a_prepared_corpus_equals_training_on_its_text(tmp_path, monkeypatch):
    config = dataclasses.replace(
        tiny_run.CONFIG,
        data=dataclasses.replace(tiny_run.CONFIG.data, validation=CorpusConfig()),
        training=dataclasses.replace(tiny_run.CONFIG.training, num_steps=6, average_last=0),
    )
    save_config(config, str(tmp_path))
    assert prepare.main(
        ["--config", str(tmp_path / "config.json"), "--output", str(tmp_path / "prepared")]
    ) == 0  # fmt: skip
    data = dataclasses.replace(config.data, prepared=str(tmp_path / "prepared"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    cached = dataclasses.replace(config.data, in_memory_mb=0)
    for name, this in (("text", config.data), ("ids", data), ("cached", cached)):
        train(dataclasses.replace(config, data=this), str(tmp_path / name), quiet=True)
    text, *others = (tiny_run.losses(tmp_path / name) for name in ("text", "ids", "cached"))
    for losses in others:
        np.testing.assert_array_equal(text, losses)
    assert len(text) == config.training.num_steps
    assert list((tmp_path / "cache" / "flaxformer_mt" / "prepared").glob("*/manifest.json"))
