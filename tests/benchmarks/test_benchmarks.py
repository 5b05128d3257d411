"""The scripts from end to end on a tiny task: ours, and the toolkits that are installed."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import decode, limits, startup, train
from benchmarks import input as input_
from benchmarks.contenders.given import read, shape_of, write
from benchmarks.task import (
    Text,
    make_config,
    sample_batches,
    target_tokens,
    untrained,
)
from flaxformer_mt.data.sources.demo_text import open_demo

pytestmark = [pytest.mark.slow, pytest.mark.default_compiler]


@pytest.fixture(autouse=True)
def limits_of_jax(monkeypatch):
    """Leaves out torch: its bfloat16 products take minutes on a CPU without AVX-512."""
    of_jax = tuple(entry for entry in limits.ENTRIES if "torch" not in entry.needs)
    assert len(of_jax) == 1
    monkeypatch.setattr(limits, "ENTRIES", of_jax)


QUICK = ["--wait", "0", "--repeats", "1"]


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> Text:
    """300 pairs to learn from, 12 to translate."""
    folder = tmp_path_factory.mktemp("text")
    for split, size in (("train", 300), ("test", 12)):
        source = open_demo(split)
        pairs = [source[index] for index in range(size)]
        for language, lines in zip(("en", "de"), zip(*pairs, strict=True), strict=True):
            (folder / f"{split}.{language}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return Text(data=str(folder), vocab_size=400, tokens_per_batch=2048)


@pytest.fixture(scope="module")
def workdir(text, tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("model") / "workdir"
    untrained(make_config("tiny", text.data_config()), directory)
    return directory


def arguments(text: Text) -> list[str]:
    sizes = ["--vocab-size", str(text.vocab_size), "--tokens-per-batch", str(text.tokens_per_batch)]
    return ["--data", text.data, *sizes, *QUICK]


def rows(file: Path) -> dict[str, dict]:
    lines = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    return {row["contender"]: row for row in lines}


def test_batches_reach_contenders_unchanged(text, tmp_path):
    _, data = untrained(make_config("tiny", text.data_config()), tmp_path / "workdir")
    batches = sample_batches(data, 5)
    again = read(write(tmp_path / "batches", batches))
    assert list(map(shape_of, again)) == list(map(shape_of, batches))
    assert all(
        np.array_equal(a, b)
        for one, other in zip(batches, again, strict=True)
        for a, b in zip(one, other, strict=True)
    )
    ends = sum((batch.targets == data.tokenizer.target.eos_id).sum() for batch in batches)
    assert target_tokens(batches) > ends > 0


def test_all_batches_of_an_epoch_are_a_fair_sample_of_it(text, tmp_path):
    _, data = untrained(make_config("tiny", text.data_config()), tmp_path / "workdir")
    assert target_tokens(sample_batches(data, 10_000)) == data.epochs.pairs.target_lengths.sum()


def test_a_folder_without_the_text_is_named(text):
    with pytest.raises(FileNotFoundError, match=r"no file train.fr; there is test.de, test.en"):
        Text(data=text.data, source_language="fr").data_config()


def test_training(text, tmp_path, capsys):
    """Marian, where it is installed, has the same weights and batches."""
    out = tmp_path / "rows.jsonl"
    given = ["--size", "tiny", "--batches", "1", "--dtypes", "float32"]
    assert train.main([*arguments(text), *given, "--out", str(out)]) == 0
    found = rows(out)
    ours = found["ours float32"]
    assert ours["value"] > 0 and 0 < ours["fraction_of_limit"] < 1
    assert ours["compilations"] >= 1 and ours["details"]["compiled later"] == 0
    assert "**train: tiny" in capsys.readouterr().out
    if not (importlib.util.find_spec("torch") and importlib.util.find_spec("transformers")):
        pytest.skip("Marian needs the extra [bench]")
    losses = {name: row["details"]["first loss"] for name, row in found.items()}
    # Dropout differs.
    assert losses["ours float32"] == pytest.approx(losses["marian float32"], rel=0.05)
    assert ours["ratios"]["torch float32"] > 0


def test_decoding(text, workdir, tmp_path, capsys):
    out = tmp_path / "rows.jsonl"
    given = ["--workdir", str(workdir), "--beam", "1", "--batch", "8", "--engine-types", "float32"]
    given += ["--sentences", "8", "--contenders", "ours", "ctranslate2", "--out", str(out)]
    given += ["--lengths", "6"]  # an untrained model never writes EOS
    assert decode.main([*arguments(text), *given]) == 0
    found = rows(out)
    assert found["ours float32"]["details"]["compiled later"] == 0
    assert all(", 6 tokens each, 8 sentences of " in row["case"] for row in found.values())
    assert len(found) == 2 and all(
        row["details"]["equal translations"] == "100.0%" for row in found.values()
    )
    assert "**decode: 128 wide, 2+2 layers, beam 1, batch 8, 8 sentences of" in (
        capsys.readouterr().out
    )


@pytest.mark.parametrize(
    "wrong, message",
    [
        (["--sentences", "0"], "sentences must be at least 1, got 0"),
        (["--beam", "5", "0"], "beam must be at least 1, got (5, 0)"),
        (["--beam"], "beam must be at least 1, got ()"),
        (["--lengths", "1"], "lengths must be at least 2"),
        (["--dtypes"], "dtypes: name one at least"),
        (["--contenders"], "contenders: name one at least"),
    ],
)
def test_counts_are_checked_before_anything_starts(wrong, message, capsys):
    with pytest.raises(SystemExit, match="2"):
        decode.main(wrong)
    assert message in capsys.readouterr().err


def test_input(text, tmp_path, capsys):
    out = tmp_path / "rows.jsonl"
    given = ["--workers", "0", "--batching", "pack", "--tokenize", "each_epoch", "--steps", "0"]
    assert input_.main([*arguments(text), *given, "--out", str(out)]) == 0
    (row,) = rows(out).values()
    assert row["value"] > 0 and row["details"]["shapes"] == 1
    assert "pairs/s" in capsys.readouterr().out


def test_startup(text, workdir, tmp_path):
    out = tmp_path / "rows.jsonl"
    given = ["--workdir", str(workdir), "--sentence", "The dog sleeps.", "--out", str(out)]
    assert startup.main([*arguments(text), *given, "--contenders", "ours"]) == 0
    found = rows(out)
    assert found["import nothing"]["value"] < found["import jax"]["value"]
    assert found["ours, warm"]["value"] > found["import nothing"]["value"]
