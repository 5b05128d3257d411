"""Training time without each CPU mechanism: `python -m benchmarks.ablate_training`.

It prints the ratios of `benchmarks/ablations.md`. The shortest time counts. Each measurement has a
process of its own, because malloc's settings cannot be taken back. These processes alternate. They
are not those of `benchmarks.child`, which sets malloc for all contenders.
"""

import argparse
import dataclasses
import itertools
import subprocess
import sys
import time
from typing import Literal

import jax
import numpy as np

from flaxformer_mt.data.batching.batch import Batch, BatchShape, Example, pad_batch
from flaxformer_mt.kernels.choose import choose_kernels
from flaxformer_mt.model.config import preset
from flaxformer_mt.model.kernels import REFERENCE
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.runtime import host
from flaxformer_mt.training.config import TrainingConfig
from flaxformer_mt.training.optimizer import make_optimizer
from flaxformer_mt.training.state import init_state
from flaxformer_mt.training.step import make_train_step

VOCABULARY, LENGTH, TOKENS = 8000, 64, 4096
MECHANISMS = ("", "products", "dropout bits", "malloc")
UPDATES = {"small": 8, "base": 3}


def full_batch() -> Batch:
    """Returns a batch of TOKENS source and target tokens without padding, on a device axis."""
    random, rows = np.random.default_rng(0), TOKENS // LENGTH
    sentences = random.integers(4, VOCABULARY, (rows, LENGTH), dtype=np.int32)
    batch = pad_batch([Example(s, s) for s in sentences], BatchShape(rows, LENGTH, LENGTH))
    return jax.tree.map(lambda x: x[None], batch)


def seconds_an_update(
    size: Literal["small", "base"], dtype: Literal["float32", "bfloat16"], without: str
) -> float:
    """Returns the shortest time of an update with all mechanisms but one."""
    if without != "malloc":
        host.keep_freed_memory()
        host.share_freed_memory()
    kernels = choose_kernels("cpu", "cpu")
    if without == "products":
        kernels = dataclasses.replace(kernels, product=REFERENCE.product)
    if without == "dropout bits":
        kernels = dataclasses.replace(kernels, dropout=REFERENCE.dropout)
    config = dataclasses.replace(preset(size), dtype=dtype)
    model = Transformer(config, VOCABULARY, VOCABULARY, 2, kernels)
    training = TrainingConfig(optimizer="adam")
    optimizer = make_optimizer(training, config.d_model)
    state, batch = init_state(model, optimizer, 0), full_batch()
    step = make_train_step(model, optimizer, training)
    times = []
    for _ in range(2 + UPDATES[size]):  # the first ones compile and fill malloc's heap
        start = time.perf_counter()
        state, metrics = step(state, batch)
        jax.block_until_ready((state, metrics))
        times.append(time.perf_counter() - start)
    return min(times[2:])


def main() -> None:
    """Measures all in child processes, or one in this process (`--child`)."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--child", nargs=3, metavar=("SIZE", "DTYPE", "WITHOUT"))
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.child:
        print(seconds_an_update(*arguments.child))
        return
    columns = (f"without {name}" for name in MECHANISMS[1:])
    print("| size | dtype |", " | ".join(columns), "| an update |")
    for size, dtype in itertools.product(UPDATES, ("float32", "bfloat16")):
        times: dict[str, list[float]] = {name: [] for name in MECHANISMS}
        for name in MECHANISMS * arguments.rounds:
            command = [sys.executable, "-m", "benchmarks.ablate_training", "--child"]
            answer = subprocess.run(
                [*command, size, dtype, name], check=True, capture_output=True, text=True
            )
            times[name].append(float(answer.stdout))
        complete = min(times[""])
        ratios = (f"{min(times[name]) / complete:.2f}" for name in MECHANISMS[1:])
        print(f"| {size} | {dtype} |", " | ".join(ratios), f"| {complete:.2f} s |", flush=True)


if __name__ == "__main__":
    main()
