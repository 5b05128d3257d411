"""Kills a training run at random moments, resumes it, and compares it with an uninterrupted one.

    python tests/random_kills.py --kills 24 --seed 1 --directory runs/kills

This is a recorded run (docs/same_run.md), not a test: each kill takes a minute. SIGKILL ends two
runs of one config at random moments, also while they save and validate:

    same      always resumed on 2 devices; its parameters must equal, bit for bit, those of a run
              that was never killed
    elastic   resumed on 1, 2, 4 or 8 devices, or on 2 processes of 1, 2 or 4, at random; the loss
              of every step must equal that of the run that was never killed, except for rounding
"""

import argparse
import json
import os
import random
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

NUM_STEPS = 1200
ARGUMENTS = shlex.split(
    f"""--config configs/demo.py --data.train.pairs demo:train:4000
    --data.validation.pairs demo:validation:40 --data.test.pairs demo:test:20
    --data.tokenizer.sampling-alpha 0.5 --data.batching bucket --data.num-buckets 4
    --model.d-model 32 --model.d-ff 64 --model.num-encoder-layers 1 --model.num-decoder-layers 1
    --training.optimizer adam --training.schedule inverse_sqrt
    --training.num-steps {NUM_STEPS} --training.learning-rate 0.001 --training.warmup-steps 100
    --training.log-every 1 --training.validate-every 40 --training.checkpoint-every 10
    --training.average-last 3"""
)
HARDWARE = [(1, 1), (1, 2), (1, 4), (1, 8), (2, 1), (2, 2), (2, 4)]  # processes, devices of each


def start(workdir: Path, processes: int, devices: int) -> list[subprocess.Popen[bytes]]:
    """Starts the command `train` in each process, with its number of CPU devices."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    started = []
    for index in range(processes):
        environment = os.environ | {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": str(devices)}
        if processes > 1:
            environment |= {
                "JAX_COORDINATOR_ADDRESS": f"localhost:{port}",
                "JAX_NUM_PROCESSES": str(processes),
                "JAX_PROCESS_ID": str(index),
            }
        log = workdir.with_name(f"{workdir.name}.{index}.log").open("ab")
        command = [sys.executable, "-m", "flaxformer_mt.train", *ARGUMENTS]
        started.append(
            subprocess.Popen(
                [*command, "--workdir", str(workdir)], env=environment, stdout=log, stderr=log
            )
        )
    return started


def run(workdir: Path, hardware: list[tuple[int, int]], kills: int, chance: random.Random) -> None:
    """Trains to the end, and kills the run `kills` times before."""
    done = 0
    while True:
        processes, devices = chance.choice(hardware)
        begun = time.monotonic()
        running = start(workdir, processes, devices)
        patience = chance.uniform(10, 60) if done < kills else float("inf")
        while running[0].poll() is None and time.monotonic() - begun < patience:
            time.sleep(0.02)
        finished = running[0].poll()
        for process in running if finished is None else running[1:]:
            if finished is None:
                process.send_signal(signal.SIGKILL)
            process.wait(timeout=120)
        if finished is not None:
            if finished:
                raise SystemExit(f"{workdir}: exit status {finished}: see {workdir}.0.log")
            print(f"{workdir.name}: finished on {processes} x {devices}", flush=True)
            if done < kills:
                print(f"{workdir.name}: it was done after {done} of {kills} kills")
            return
        done += 1
        print(
            f"{workdir.name}: kill {done:2} after {patience:4.1f} s on {processes} x {devices}: "
            f"{phase(workdir)}",
            flush=True,
        )


def phase(workdir: Path) -> str:
    """Returns the phase in which the kill came, from the files it left."""
    checkpoints = workdir / "checkpoints"
    names = [path.name for path in checkpoints.iterdir()] if checkpoints.is_dir() else []
    steps = sorted(int(name) for name in names if name.isdecimal())
    lines = metrics(workdir)
    last = lines[-1] if lines else {}
    what = f"step {last.get('step', 0)}, newest checkpoint {steps[-1] if steps else 'none'}"
    if any(not name.isdecimal() and name != "outdated" for name in names):
        return f"while saving ({what})"
    if last and last["kind"] == "train" and last["step"] % 40 == 0:
        return f"while validating ({what})"
    return f"while training ({what})" if lines else "while starting"


def metrics(workdir: Path) -> list[dict[str, float]]:
    file = workdir / "metrics.jsonl"
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def compare(workdir: Path, other: Path) -> str:
    """Returns the largest differences of losses and parameters between two finished runs."""
    import jax
    import numpy as np

    from flaxformer_mt.checkpoints.loading import load_model

    losses = [
        np.array([line["loss"] for line in metrics(path) if line["kind"] == "train"])
        for path in (workdir, other)
    ]
    assert len(losses[0]) == len(losses[1]) == NUM_STEPS, [len(x) for x in losses]
    leaves = [
        np.concatenate([np.ravel(x) for x in jax.tree.leaves(load_model(path, "last").params)])
        for path in (workdir, other)
    ]
    bits = "bit-identical" if np.array_equal(*leaves) else "not bit-identical"
    return (
        f"{NUM_STEPS:,} losses differ by at most {np.abs(losses[0] - losses[1]).max():.1e} nats, "
        f"parameters by {np.abs(leaves[0] - leaves[1]).max():.1e} at most and "
        f"{np.abs(leaves[0] - leaves[1]).mean():.1e} on average ({bits})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=24, help="half of them for each run")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--directory", type=Path, required=True)
    arguments = parser.parse_args()
    shutil.rmtree(arguments.directory, ignore_errors=True)
    arguments.directory.mkdir(parents=True)
    chance = random.Random(arguments.seed)
    whole, same, elastic = (arguments.directory / name for name in ("whole", "same", "elastic"))
    run(whole, [(1, 2)], 0, chance)
    run(same, [(1, 2)], arguments.kills // 2, chance)
    run(elastic, HARDWARE, arguments.kills - arguments.kills // 2, chance)
    os.environ["JAX_PLATFORMS"] = "cpu"
    print("same against whole:   ", compare(same, whole))
    print("elastic against whole:", compare(elastic, whole))


if __name__ == "__main__":
    main()
