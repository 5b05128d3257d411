"""What this machine can do at best, measured beside the contenders, in the same rounds.

A matrix product of [n n] and [n n] is 2 n^3 operations; a copy of x bytes moves 2 x.
"""

import time
from collections.abc import Callable, Mapping

from benchmarks.child import Answer, num_cpus
from benchmarks.rounds import Entry, Sample

CALLS = 5


class JaxLimits:
    """As JAX reaches them."""

    def __init__(self, *, device: str) -> None:
        """Makes the arrays, and compiles."""
        import jax
        import jax.numpy as jnp

        n, numbers = _sizes(device)
        product, copy = jax.jit(jnp.matmul), jax.jit(lambda x: -x)
        self._bytes = numbers * 4
        self._n = n
        matrices = {kind: jnp.ones((n, n), kind) for kind in ("float32", "bfloat16")}
        vector = jnp.ones(numbers, jnp.float32)
        self._products = {
            kind: lambda x=x: jax.block_until_ready(product(x, x)) for kind, x in matrices.items()
        }
        self._copy = lambda: jax.block_until_ready(copy(vector))
        self.round()

    def round(self) -> Answer:
        """Operations/s of a matrix product in each precision, bytes/s of a copy."""
        return _measure(self._products, self._copy, self._n, self._bytes)


class TorchLimits:
    """As PyTorch reaches them."""

    def __init__(self, *, device: str) -> None:
        """Makes the arrays."""
        import torch  # pyright: ignore[reportMissingImports]

        torch.set_num_threads(num_cpus())
        place = "cuda" if device == "gpu" else "cpu"
        n, numbers = _sizes(device)
        self._n, self._bytes = n, numbers * 4
        kinds = {"float32": torch.float32, "bfloat16": torch.bfloat16}
        matrices = {
            name: torch.ones(n, n, dtype=kind, device=place) for name, kind in kinds.items()
        }
        vector = torch.ones(numbers, device=place)
        target = torch.empty_like(vector)

        def done() -> None:
            if place == "cuda":
                torch.cuda.synchronize()

        self._products = {
            name: lambda x=x: (torch.matmul(x, x), done()) for name, x in matrices.items()
        }
        self._copy = lambda: (target.copy_(vector), done())
        self.round()

    def round(self) -> Answer:
        """Operations/s of a matrix product in each precision, bytes/s of a copy."""
        return _measure(self._products, self._copy, self._n, self._bytes)


ENTRIES = (
    Entry("limits of jax", "benchmarks.limits:JaxLimits", {}),
    Entry("limits of torch", "benchmarks.limits:TorchLimits", {}, ("torch",)),
)


def take_best(samples: dict[str, Sample]) -> dict[str, float]:
    """Takes the limits out of the samples of a run.

    Returns the largest of each kind over all rounds: float32 and bfloat16 in FLOP/s, bytes in B/s.
    """
    found = [samples.pop(entry.name) for entry in ENTRIES if entry.name in samples]
    answers = [answer for sample in found for answer in sample.answers]
    kinds = ("float32", "bfloat16", "bytes")
    return {kind: max(answer[kind] for answer in answers) for kind in kinds}


def _sizes(device: str) -> tuple[int, int]:
    """Side of the matrices, and numbers of the vector: larger than any cache."""
    return (8192, 1 << 28) if device == "gpu" else (2048, 1 << 26)


def _measure(
    products: Mapping[str, Callable[[], object]], copy: Callable[[], object], n: int, size: int
) -> Answer:
    seconds = {name: _fastest(work) for name, work in products.items()}
    rates = {name: 2 * n**3 / fastest for name, fastest in seconds.items()}
    return {**rates, "bytes": 2 * size / _fastest(copy), "seconds": sum(seconds.values())}


def _fastest(work: Callable[[], object]) -> float:
    """Seconds of the fastest of some calls."""
    found = []
    for _ in range(CALLS):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return min(found)
