"""Compares the attention of XLA, the reference, with the kernel for a device.

    python -m benchmarks.attention                     # measures, on a GPU or a TPU
    python -m benchmarks.attention --topology v5e:1x1  # asks a TPU's compiler, without a TPU

Each row is the forward and backward pass of causal attention over 8,192 tokens, 16 heads of 64, in
bfloat16. Without a TPU, the time of flash attention is not known: the compiler does not look inside
the kernels. It uses the operations and bytes that the authors of the kernels state.
"""

import dataclasses
import functools
import statistics
import sys
import time
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import SingleDeviceSharding

from flaxformer_mt.cli import command
from flaxformer_mt.kernels.gpu import attend as cudnn
from flaxformer_mt.kernels.tpu import attend as flash
from flaxformer_mt.model import attention
from flaxformer_mt.model.kernels import Attend
from flaxformer_mt.model.masks import attention_context
from flaxformer_mt.planning.hardware import Hardware, open_topology

TOKENS, HEADS, WIDTH = 8192, 16, 64
LENGTHS = (16, 32, 64, 128, 256, 512, 1024, 2048)
FLASH_LENGTHS = (128, 256, 512, 1024, 2048)
XLA = attention.attend
FLASH = functools.partial(flash, min_length=128)
CUDNN = functools.partial(cudnn, min_length=0)
CALLS = 20
"""Calls that are timed together, so that the time to start one does not count."""


def gradients(kind: Attend, queries, keys, values, segments):
    """Returns the gradients of the sum of all outputs."""
    context = attention_context(segments, segments, causal=True)

    def total(queries, keys, values):
        return kind(queries, keys, values, context).astype(jnp.float32).sum()

    return jax.grad(total, (0, 1, 2))(queries, keys, values)


def costs(kind: Attend, length: int, hardware: Hardware) -> tuple[float, float, float, float]:
    """Returns MiB of temporaries, GiB moved, 10^9 operations and milliseconds, as compiled."""
    place = SingleDeviceSharding(hardware.devices[0])
    shape = (TOKENS // length, length)
    heads = jax.ShapeDtypeStruct((*shape, HEADS, WIDTH), jnp.bfloat16, sharding=place)
    segments = jax.ShapeDtypeStruct(shape, jnp.int32, sharding=place)
    program = jax.jit(functools.partial(gradients, kind))
    lowered = program.lower(heads, heads, heads, segments)
    compiled = lowered.compile(compiler_options=hardware.compiler_options)
    memory: Any = compiled.memory_analysis()
    stated: Any = compiled.cost_analysis()
    return (
        memory.temp_size_in_bytes / 2**20,
        stated["bytes accessed"] / 2**30,
        stated["flops"] / 1e9,
        stated["optimal_seconds"] * 1e3,
    )


def seconds(kind: Attend, length: int) -> float:
    """Returns the seconds of one call on the device of this machine, the median of five times."""
    shape = (TOKENS // length, length)
    keys = jax.random.split(jax.random.key(0), 3)
    heads = [jax.random.normal(key, (*shape, HEADS, WIDTH), jnp.bfloat16) for key in keys]
    segments = jnp.ones(shape, jnp.int32)
    program = jax.jit(functools.partial(gradients, kind))
    jax.block_until_ready(program(*heads, segments))
    times = []
    for _ in range(5):
        start, result = time.perf_counter(), None
        for _ in range(CALLS):
            result = program(*heads, segments)
        jax.block_until_ready(result)
        times.append((time.perf_counter() - start) / CALLS)
    return statistics.median(times)


def print_measured() -> None:
    """Prints the table of this machine's device."""
    kernels: dict[str, tuple[str, Attend, tuple[int, ...]]] = {
        "gpu": ("cuDNN", CUDNN, LENGTHS),
        "tpu": ("flash", FLASH, FLASH_LENGTHS),
    }
    if jax.default_backend() not in kernels:
        raise ValueError("this machine has no GPU and no TPU: give a --topology to compile")
    name, kernel, lengths = kernels[jax.default_backend()]
    print(f"{jax.devices()[0].device_kind}, jax {jax.__version__}\n")
    print(f"| length | XLA, ms | {name}, ms | ratio |")
    print("|-------:|--------:|----------:|------:|")
    for length in lengths:
        xla, ours = (1e3 * seconds(kind, length) for kind in (XLA, kernel))
        print(f"| {length:,} | {xla:.2f} | {ours:.2f} | **{xla / ours:.2f}** |", flush=True)


def print_compiled(topology: str) -> None:
    """Prints the table of a TPU's compiler."""
    hardware = open_topology(topology)
    print("| length | attention | temporaries, MiB | GiB moved | 10^9 operations | ms, stated |")
    print("|-------:|-----------|-----------------:|----------:|----------------:|-----------:|")
    for length in FLASH_LENGTHS:
        for name, kind in (("XLA", XLA), ("flash", FLASH)):
            mib, gib, operations, ms = costs(kind, length, hardware)
            print(f"| {length:,} | {name} | {mib:,.0f} | {gib:.2f} | {operations:.1f} | {ms:.2f} |")


@dataclasses.dataclass(frozen=True, kw_only=True)
class AttentionArguments:
    """Compares the attention of XLA with the kernel for a device."""

    topology: str = ""
    """One TPU chip to compile for, such as v5e:1x1; empty = measure the device of this machine."""


def compare(arguments: AttentionArguments) -> None:
    """Prints one of the tables."""
    if arguments.topology:
        print_compiled(arguments.topology)
    else:
        print_measured()


main = command("attention", AttentionArguments, compare, package="benchmarks")

if __name__ == "__main__":
    sys.exit(main())
