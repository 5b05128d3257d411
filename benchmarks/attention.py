"""Compares XLA's attention with flash attention by the numbers of a TPU's compiler, without a TPU.

    python -m benchmarks.attention --topology v5e:1x1

Each row compiles the forward and backward pass of causal attention over 8,192 tokens, 16 heads of
64, in bfloat16. The time of flash attention is not measured: the compiler does not look inside the
kernels. It uses the operations and bytes that the authors of the kernels state.
"""

import argparse
import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import SingleDeviceSharding

from flaxformer_mt.kernels.tpu.attention import attend
from flaxformer_mt.model import attention
from flaxformer_mt.model.kernels import Attend
from flaxformer_mt.model.masks import attention_context
from flaxformer_mt.planning.hardware import Hardware, open_topology

TOKENS, HEADS, WIDTH = 8192, 16, 64
LENGTHS = (128, 256, 512, 1024, 2048)
KINDS: dict[str, Attend] = {
    "XLA": attention.attend,
    "flash": functools.partial(attend, min_length=128),
}


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


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topology", default="v5e:1x1", help="one TPU chip")
    hardware = open_topology(parser.parse_args().topology)
    print("| length | attention | temporaries, MiB | GiB moved | 10^9 operations | ms, stated |")
    print("|-------:|-----------|-----------------:|----------:|----------------:|-----------:|")
    for length in LENGTHS:
        for name, kind in KINDS.items():
            mib, gib, operations, ms = costs(kind, length, hardware)
            print(f"| {length:,} | {name} | {mib:,.0f} | {gib:.2f} | {operations:.1f} | {ms:.2f} |")


if __name__ == "__main__":
    main()
