"""Compiles the training step for the other batch shapes while the first one compiles and trains."""

from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import jax

from flaxformer_mt.data.batching.batch import Batch, BatchShape
from flaxformer_mt.runtime.host import num_cpus
from flaxformer_mt.runtime.sharding import BatchPlacement
from flaxformer_mt.training.state import TrainState

PlacedShape = tuple[int, ...]
"""(micro-batches, rows, source length, target length) of a batch on the devices."""


def placed_shape(batch: Batch) -> PlacedShape:
    """Returns the shape that decides which program a batch [A B T] needs."""
    return (*batch.inputs.shape, batch.targets.shape[-1])


class CompilationsAhead:
    """Compilations in background threads, one for each core but one.

    A later call of the step does not compile again, because `lower(...).compile()` shares JAX's
    in-memory cache with calls of the same function.
    """

    def __init__(self, step: Any, state: TrainState, placement: BatchPlacement):
        """Stores the jitted `step` of (state, batch) and the shapes of its inputs."""
        self._step, self._placement = step, placement
        self._state = jax.tree.map(
            lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), state
        )
        self._pool = ThreadPoolExecutor(max(1, num_cpus() - 1), "compile")
        self._started: dict[PlacedShape, Future[None]] = {}

    def start(self, shapes: Iterable[BatchShape], *, but: PlacedShape) -> None:
        """Starts to compile for all shapes except `but`, in the given order."""
        if jax.process_count() > 1:  # the processes of a run must compile in the same order
            return
        batches = {placed_shape(batch): batch for batch in map(self._placement.like, shapes)}
        for shape, batch in batches.items():
            if shape != but:
                self._started[shape] = self._pool.submit(self._compile, batch)

    def wait_for(self, shape: PlacedShape) -> None:
        """Waits for a running compilation for a shape. Cancels one that has not begun.

        Raises the exception of the compilation, if it failed.
        """
        future = self._started.pop(shape, None)
        if future and not future.cancel():
            future.result()

    def close(self) -> None:
        """Cancels the compilations that have not begun."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _compile(self, batch: Batch) -> None:
        self._step.lower(self._state, batch).compile()
