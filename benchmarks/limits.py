"""Peak rates of this machine, measured in the same rounds as the contenders.

A matrix product of [n n] and [n n] is 2 n^3 operations; a copy of x bytes moves 2 x.
"""

import functools
import time
from collections.abc import Callable
from typing import TypeAlias

from benchmarks.child import Answer, Entry
from benchmarks.rounds import Sample
from flaxformer_mt.runtime.host import num_cpus

CALLS = 5
LIMITS = "benchmarks.limits:Limits"
ENTRIES = (
    Entry("limits of jax", LIMITS, {"library": "jax"}),
    Entry("limits of torch", LIMITS, {"library": "torch"}, ("torch",)),
)
Work: TypeAlias = dict[str, Callable[[], object]]
"""What to time: a product in "float32" and in "bfloat16", a copy as "bytes"."""


class Limits:
    """The peak rates that a library reaches."""

    def __init__(self, *, library: str, device: str) -> None:
        """Makes arrays that are larger than any cache, and does one round."""
        n, numbers = (8192, 1 << 28) if device == "gpu" else (2048, 1 << 26)
        self._amounts = {"float32": 2 * n**3, "bfloat16": 2 * n**3, "bytes": 2 * 4 * numbers}
        self._work = in_jax(n, numbers) if library == "jax" else in_torch(n, numbers, device)
        self.round()

    def round(self) -> Answer:
        """Returns operations/s of a matrix product in each precision, and bytes/s of a copy."""
        seconds = {name: _fastest(work) for name, work in self._work.items()}
        rates = {name: self._amounts[name] / fastest for name, fastest in seconds.items()}
        return rates | {"seconds": sum(seconds.values())}


def in_jax(n: int, numbers: int) -> Work:
    """Returns products of matrices [n n], and a copy of `numbers` numbers."""
    import jax
    import jax.numpy as jnp

    # In float32, as in our model: products that return bfloat16 are slow on a CPU.
    product = jax.jit(functools.partial(jnp.matmul, preferred_element_type="float32"))
    # In place: new memory costs page faults, which are no limit of the machine.
    negate = jax.jit(jnp.negative, donate_argnums=0)
    vector = jnp.ones(numbers, "float32")

    def multiply(kind: str) -> Callable[[], object]:
        matrix = jnp.ones((n, n), kind)
        return lambda: jax.block_until_ready(product(matrix, matrix))

    def copy() -> None:
        nonlocal vector
        vector = jax.block_until_ready(negate(vector))

    return {"float32": multiply("float32"), "bfloat16": multiply("bfloat16"), "bytes": copy}


def in_torch(n: int, numbers: int, device: str) -> Work:
    """Returns the same in PyTorch."""
    import torch

    torch.set_num_threads(num_cpus())
    place = "cuda" if device == "gpu" else "cpu"

    def finished(function: Callable, *arrays: torch.Tensor) -> Callable[[], object]:
        wait = torch.cuda.synchronize if place == "cuda" else lambda: None
        return lambda: (function(*arrays), wait())

    float32 = torch.ones(n, n, device=place)
    bfloat16 = float32.to(torch.bfloat16)
    vector = torch.ones(numbers, device=place)
    return {
        "float32": finished(torch.matmul, float32, float32),
        "bfloat16": finished(torch.matmul, bfloat16, bfloat16),
        "bytes": finished(torch.empty_like(vector).copy_, vector),
    }


def take_best(samples: dict[str, Sample]) -> dict[str, float]:
    """Removes the limits from the samples of a run; returns the largest of each kind.

    float32 and bfloat16 are in FLOP/s, bytes in B/s.
    """
    found = [samples.pop(entry.name) for entry in ENTRIES if entry.name in samples]
    answers = [answer for sample in found for answer in sample.answers]
    return {kind: max(each[kind] for each in answers) for kind in ("float32", "bfloat16", "bytes")}


def _fastest(work: Callable[[], object]) -> float:
    """Returns the seconds of the fastest of some calls."""
    found = []
    for _ in range(CALLS):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return min(found)
