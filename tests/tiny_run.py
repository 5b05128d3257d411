"""A tiny model that trains in seconds, in this process or another."""

import dataclasses
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np

from flaxformer_mt.checkpoints.loading import load_model
from flaxformer_mt.config import Config, to_json
from flaxformer_mt.data.config import DataConfig
from flaxformer_mt.data.sources.corpora import CorpusConfig
from flaxformer_mt.data.tokenization.config import TokenizerConfig
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.training.config import TrainingConfig
from flaxformer_mt.translation.config import DecodingConfig

CONFIG = Config(
    data=DataConfig(
        train=CorpusConfig(pairs=("demo:train:300",)),
        validation=CorpusConfig(pairs=("demo:validation:8",)),
        tokenizer=TokenizerConfig(vocab_size=400, sampling_alpha=0.5),
        tokens_per_batch=512,
        num_buckets=1,
        max_source_length=64,
        max_target_length=64,
    ),
    model=TransformerConfig(d_model=16, d_ff=16, num_encoder_layers=1, num_decoder_layers=1),
    training=TrainingConfig(
        num_steps=12,
        warmup_steps=4,
        log_every=1,
        validate_every=6,
        validation_pairs=2,
        checkpoint_every=3,
        keep_last=2,
        keep_best=1,
    ),
    decoding=DecodingConfig(beam_size=2, max_target_length=16),
)

WITHOUT_DROPOUT = dataclasses.replace(CONFIG, model=dataclasses.replace(CONFIG.model, dropout=0.0))
"""For tests of other things: the random numbers of dropout take half of the compilation."""


def start(config: Config, directory: Path, *arguments: str, devices: int = 0, **environment: str):
    """Starts the command `train` in a new process, by default with the devices of this one."""
    file = directory / "config.py"
    text = f"from flaxformer_mt.config import from_json\nconfig = from_json({to_json(config)!r})\n"
    file.write_text(text, encoding="utf-8")
    devices = devices or jax.device_count()
    command = [sys.executable, "-m", "flaxformer_mt.train", "--config", str(file)]
    return subprocess.Popen(
        [*command, "--workdir", str(directory / "run"), *arguments],
        env=os.environ | {"JAX_NUM_CPU_DEVICES": str(devices)} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def wait_for_step(process: subprocess.Popen[str], workdir: Path, step: int) -> None:
    """Returns when metrics.jsonl has reached the step."""
    file = workdir / "metrics.jsonl"
    for _ in range(2400):
        if file.exists() and f'"step": {step},' in file.read_text(encoding="utf-8"):
            return
        assert process.poll() is None, process.stdout and process.stdout.read()
        time.sleep(0.05)
    raise TimeoutError(f"no step {step} after two minutes")


def params(workdir: Path) -> list[np.ndarray]:
    return [np.asarray(x) for x in jax.tree.leaves(load_model(workdir, "last").params)]


def metric_lines(workdir: Path) -> list[dict]:
    """Returns the lines of metrics.jsonl without times, and without those of a start."""
    text = (workdir / "metrics.jsonl").read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    timed = ("time", "tokens_per_second")
    return [
        {name: value for name, value in line.items() if name not in timed}
        for line in lines
        if line["kind"] != "start"
    ]


def start_lines(workdir: Path) -> list[tuple[int, str]]:
    """Returns the step and the kernels of each line of metrics.jsonl that describes a start."""
    text = (workdir / "metrics.jsonl").read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    return [(line["step"], line["kernels"]) for line in lines if line["kind"] == "start"]


def losses(workdir: Path) -> list[float]:
    """Returns the loss of each step."""
    return [line["loss"] for line in metric_lines(workdir) if line["kind"] == "train"]


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        return free.getsockname()[1]


def two_processes() -> list[dict[str, str]]:
    """Returns the environments of two processes of one run."""
    common = {"JAX_COORDINATOR_ADDRESS": f"localhost:{free_port()}", "JAX_NUM_PROCESSES": "2"}
    return [common | {"JAX_PROCESS_ID": number} for number in "01"]
