"""A run in a bucket is the run in a folder, whatever stops it."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest
from tiny_run import CONFIG, two_processes

from flaxformer_mt import average, convert, evaluate, score, summary, translate
from flaxformer_mt.checkpoints.loading import load_model
from flaxformer_mt.config import Config, to_json
from flaxformer_mt.data.sources.corpora import CorpusConfig
from flaxformer_mt.runtime.sharding import MeshConfig
from flaxformer_mt.storage.paths import as_path, file_sizes, write_file
from flaxformer_mt.train import train

LINES = [f"The dog number {number} sleeps in the house.\n" for number in range(60)]


def config_of(directory: str) -> Config:
    """A short run on text files, without validation: only the training step is compiled."""
    corpus = CorpusConfig(source=("train.en",), target=("train.de",))
    data = dataclasses.replace(
        CONFIG.data, directory=directory, train=corpus, validation=CorpusConfig()
    )
    training = dataclasses.replace(
        CONFIG.training, num_steps=6, checkpoint_every=2, validate_every=0, average_last=2
    )
    return dataclasses.replace(CONFIG, data=data, training=training)


def start(config: Config, workdir: str, folder: Path, **environment: str) -> subprocess.Popen[str]:
    (folder / "config.json").write_text(to_json(config), encoding="utf-8")
    command = [sys.executable, "-m", "flaxformer_mt.train", "--workdir", workdir]
    return subprocess.Popen(
        [*command, "--config", str(folder / "config.json")],
        env=os.environ | {"JAX_NUM_CPU_DEVICES": "2"} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def params(workdir: str) -> list[np.ndarray]:
    return [np.asarray(x) for x in jax.tree.leaves(load_model(workdir, "last").params)]


def steps(workdir: str) -> list[int]:
    text = (as_path(workdir) / "metrics.jsonl").read_text(encoding="utf-8")
    lines = map(json.loads, text.splitlines())
    return [line["step"] for line in lines if line["kind"] == "train"]


@pytest.fixture
def corpus(bucket: str) -> str:
    for name in ("train.en", "train.de"):
        write_file(as_path(bucket) / "text" / name, "".join(LINES).encode())
    return f"{bucket}/text"


@pytest.mark.slow
@pytest.mark.parametrize("object_store", ["gs"], indirect=True)
def test_a_killed_run_in_a_bucket_goes_on_as_the_same_run(bucket, corpus, tmp_path):
    config, workdir = config_of(corpus), f"{bucket}/run"
    longer = dataclasses.replace(
        config, training=dataclasses.replace(config.training, num_steps=4000)
    )
    process = start(longer, workdir, tmp_path)
    mark = as_path(workdir) / "checkpoints" / "2" / "commit_success.txt"
    while not mark.exists():
        assert process.poll() is None, process.stdout and process.stdout.read()
        time.sleep(0.05)
    second = start(longer, workdir, tmp_path)
    output, _ = second.communicate(timeout=200)
    assert second.returncode == 2 and f"another run uses {workdir}: process" in output
    process.send_signal(signal.SIGKILL)
    process.communicate()

    reached = max(int(p.name) for p in (as_path(workdir) / "checkpoints").iterdir())
    last = reached + 4
    config = dataclasses.replace(
        config, training=dataclasses.replace(config.training, num_steps=last)
    )
    process = start(config, workdir, tmp_path)
    output, _ = process.communicate(timeout=200)
    assert process.returncode == 0, output
    assert "resumed at step" in output and "averaged the checkpoints" in output
    assert steps(workdir) == list(range(1, last + 1))
    names = file_sizes(as_path(workdir))
    assert any(name.startswith("tensorboard/events") for name in names)
    assert "owner.lock" not in names

    alone = start(config, str(tmp_path / "alone"), tmp_path)
    output, _ = alone.communicate(timeout=200)
    assert alone.returncode == 0, output
    for a, b in zip(params(workdir), params(str(tmp_path / "alone")), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow
@pytest.mark.parametrize("object_store", ["gs"], indirect=True)
def test_commands_read_and_write_in_a_bucket(bucket, corpus, tmp_path, capsys):
    workdir, text = f"{bucket}/run", "".join(LINES[:3])
    train(config_of(corpus), workdir, quiet=True)
    write_file(as_path(bucket) / "in", text.encode())
    there, here = f"{bucket}/out", tmp_path / "out"
    short = ["--decoding.max-target-length", "8"]
    arguments = ["--workdir", workdir, "--input", f"{bucket}/in", *short]
    assert translate.main([*arguments, "--output", there]) == 0
    assert translate.main([*arguments, "--output", str(here)]) == 0
    assert as_path(there).read_bytes() == here.read_bytes() != b""

    sides = ["--workdir", workdir, "--source", f"{bucket}/in", "--decoding.max-target-length", "64"]
    assert score.main([*sides, "--target", f"{bucket}/in", "--output", f"{bucket}/scores"]) == 0
    assert len((as_path(bucket) / "scores").read_text().splitlines()) == 3
    assert evaluate.main([*sides, "--reference", f"{bucket}/in"]) == 0
    assert summary.main(["--workdir", workdir]) == 0
    assert "BLEU" in capsys.readouterr().out
    assert average.main(["--workdir", workdir, "--last", "2"]) == 0
    exported = ["--to", "ctranslate2", "--workdir", workdir, "--output", f"{bucket}/export"]
    assert convert.main(exported) == 0
    assert "model.bin" in file_sizes(as_path(bucket) / "export")
    assert not file_sizes(as_path(bucket) / "run" / "damaged")


@pytest.mark.slow
@pytest.mark.parametrize("object_store", ["s3"], indirect=True)
def test_two_processes_write_one_run_to_a_bucket(bucket, corpus, tmp_path):
    # Each process has a part of the parameters.
    config, workdir = config_of(corpus), f"{bucket}/run"
    config = dataclasses.replace(config, mesh=MeshConfig(data=1, fsdp=4))
    processes = [start(config, workdir, tmp_path, **place) for place in two_processes()]
    outputs = [process.communicate(timeout=200)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    alone = start(config, str(tmp_path / "alone"), tmp_path, JAX_NUM_CPU_DEVICES="4")
    output, _ = alone.communicate(timeout=200)
    assert alone.returncode == 0, output
    for a, b in zip(params(workdir), params(str(tmp_path / "alone")), strict=True):
        np.testing.assert_allclose(np.mean(np.abs(a - b)), 0, atol=2e-5)
        np.testing.assert_allclose(a, b, atol=5e-3)  # rounding, which Adam scales up


@pytest.mark.slow
def test_processes_that_do_not_share_their_workdir_are_refused(tmp_path):
    """Two processes have different folders, as two machines with a local disk each."""
    program = (
        "import sys\n"
        "from flaxformer_mt.cli import exit_code\n"
        "from flaxformer_mt.runtime import processes\n"
        "from flaxformer_mt.runtime.workdir_lock import own_workdir\n"
        "processes._SHARING_TIMEOUT = 1.0\n"
        "processes.connect()\n"
        "def work():\n"
        "    with own_workdir(sys.argv[1]):\n"
        "        print('started')\n"
        "sys.exit(exit_code(work))\n"
    )
    started = []
    for name, place in zip("ab", two_processes(), strict=True):
        (tmp_path / name).mkdir()
        started.append(
            subprocess.Popen(
                [sys.executable, "-c", program, str(tmp_path / name)],
                env=os.environ | {"JAX_NUM_CPU_DEVICES": "1"} | place,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    outputs = [process.communicate(timeout=100)[0] for process in started]
    assert [process.returncode for process in started] == [2, 2], outputs
    assert all("process 1 does not see" in output for output in outputs)
