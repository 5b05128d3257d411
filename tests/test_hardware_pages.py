"""The commands of docs/tpu_vm.md and docs/gpu.md, as a reader would run them."""

import contextlib
import importlib
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_run import two_processes

from flaxformer_mt.cli import parse_arguments

ROOT = Path(__file__).parents[1]
PAGES = ("tpu_vm", "gpu")
TOY = """
    --data.train.pairs demo:train:300 --data.validation.pairs demo:validation:8
    --data.test.pairs demo:test:4 --data.tokenizer.vocab-size 400 --data.tokens-per-batch 512
    --data.num-buckets 1 --data.max-source-length 64 --data.max-target-length 64
    --model.d-model 16 --model.d-ff 16 --model.num-encoder-layers 1 --model.num-decoder-layers 1
    --training.num-steps 4 --training.warmup-steps 2 --training.checkpoint-every 2
    --training.validate-every 0 --decoding.max-target-length 16
"""


def commands_of(page: str) -> list[list[str]]:
    """Returns the words of each `python -m flaxformer_mt...` of a page, from the name on."""
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = re.findall(r"^ {4,}.*?python -m flaxformer_mt\.([^\n>]+)", text, re.MULTILINE)
    return [shlex.split(line) for line in lines]


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_have_these_flags(page, monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT)
    commands = commands_of(page)
    names = [name for name, *_ in commands]
    assert {"plan", "rehearse", "prepare", "train", "evaluate", "translate"} <= set(names)
    assert names.count("train") == 2
    written: list[str] = []  # by the commands above
    for name, *words in commands:
        module = importlib.import_module(f"flaxformer_mt.{name}")
        (kind,) = (
            value
            for key, value in vars(module).items()
            if key.endswith("Arguments") and value.__module__ == module.__name__
        )
        values = dict(zip(words, words[1:], strict=False))
        reads = ["--data.prepared"] if name == "train" else ["--workdir"]
        if name not in ("plan", "rehearse", "prepare"):
            assert {values[flag] for flag in reads} <= set(written), (name, words)
        written += [values[flag] for flag in ("--output", "--workdir") if flag in values]
        words = [word.replace("$BUCKET", str(tmp_path)) for word in words]
        with contextlib.suppress(FileNotFoundError):  # the workdir of summary
            parse_arguments(kind, words, prog=name)  # exits for an unknown flag


@pytest.mark.slow
def test_the_commands_run_in_order(tmp_path):
    """Prepare, train in two processes, resume in one, evaluate, translate.

    The other page differs in its paths only, which the test above compares.
    """
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    (tmp_path / "text.en").write_text("The dog sleeps.\n", encoding="utf-8")
    toy, num_trainings = shlex.split(TOY), 0
    for name, *words in commands_of("tpu_vm"):
        if name in ("plan", "rehearse"):
            continue  # they have tests of their own
        words = [word.replace("$BUCKET", str(tmp_path / "bucket")) for word in words]
        command = [sys.executable, "-m", f"flaxformer_mt.{name}", *words]
        together = name == "train" and num_trainings == 0
        if name in ("prepare", "train"):
            command += toy
        if name == "train":
            num_trainings += 1
        environment = os.environ | {
            "JAX_NUM_CPU_DEVICES": "1",
            "PYTHONPATH": str(ROOT),
        }
        processes = [
            subprocess.Popen(
                command,
                env=environment | place,
                cwd=tmp_path,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for place in (two_processes() if together else [{}])
        ]
        outputs = [process.communicate(timeout=600)[0] for process in processes]
        assert not any(process.returncode for process in processes), (command, outputs)
        if name == "evaluate":
            assert "BLEU" in outputs[0]
    assert num_trainings == 2
    assert (tmp_path / "text.de").read_text(encoding="utf-8").count("\n") == 1
