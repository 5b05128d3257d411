"""The training step for abstract arguments, and the micro-batch that fits a memory limit.

program = train_program(config, model, optimizer, adaptation, mesh)
plan = plan_micro_batches(program, shapes, limit)
print(memory_table(plan))
rows = process_rows(mesh, plan.tokens_per_device)
"""

import bisect
import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import optax
from jax.sharding import Mesh

from flaxformer_mt.config import Config
from flaxformer_mt.data.batching.batch import BatchShape
from flaxformer_mt.inspection.table import short
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.planning.compiler import peak_bytes, requested_bytes
from flaxformer_mt.planning.workload import attention_cells
from flaxformer_mt.runtime.batch_partition import ProcessRows, partition_batch
from flaxformer_mt.runtime.sharding import BatchPlacement, num_shards
from flaxformer_mt.training.adapting import Adaptation
from flaxformer_mt.training.state import TrainState, abstract_state, init_state
from flaxformer_mt.training.step import make_train_step

Program = tuple[Any, tuple[Any, ...]]
"""A jitted function, and the shapes and shardings of its arguments."""


@dataclasses.dataclass(frozen=True)
class TrainProgram:
    """The training step of a recipe, for batches of any shape."""

    step: Any
    """The jitted function of (state, batch)."""
    state: TrainState
    """Shapes and shardings of the training state."""
    mesh: Mesh

    def __call__(self, shape: BatchShape, tokens_per_device: int) -> Program:
        """Returns the step and its arguments for one shape.

        Raises ValueError if the batch cannot be split over the devices.
        """
        shards = num_shards(self.mesh)
        rows = ProcessRows(shards, tuple(range(shards)), tokens_per_device)
        return self.step, (self.state, BatchPlacement(self.mesh, rows, (shape,)).like(shape))


def train_program(
    config: Config,
    model: Transformer,
    optimizer: optax.GradientTransformation,
    adaptation: Adaptation,
    mesh: Mesh,
) -> TrainProgram:
    """Returns the training step of a recipe."""
    step = make_train_step(model, optimizer, config.training, adaptation)
    init = functools.partial(init_state, model, optimizer, config.seed, adaptation=adaptation)
    make = functools.partial(init, with_ema=config.training.ema_decay > 0)
    state = abstract_state(make, model, adaptation, mesh)
    return TrainProgram(step, state, mesh)


class MicroBatchPlan(NamedTuple):
    """The largest micro-batches that fit the memory limit.

    Attributes:
      tokens_per_device: the value for `mesh.tokens_per_device`.
      peaks: peak bytes of a device for each shape, with that value.
      limit: bytes that a device may use.
      shards: number of devices that split a batch.
    """

    tokens_per_device: int
    peaks: Mapping[BatchShape, int]
    limit: int
    shards: int


def plan_micro_batches(
    program: TrainProgram,
    shapes: Sequence[BatchShape],
    limit: int,
    compiler_options: dict[str, Any] | None = None,
) -> MicroBatchPlan:
    """Returns the largest micro-batches with which the training step fits, for all batch shapes.

    `limit` is the number of bytes that a device may use. `compiler_options` are for
    `Lowered.compile`. Raises ValueError if one row of a shape does not fit, or if a shape cannot be
    split over the devices.
    """

    def peak_of(shape: BatchShape, tokens_per_device: int) -> int:
        step, arguments = program(shape, tokens_per_device)
        lowered = step.lower(*arguments)
        try:
            return peak_bytes(lowered.compile(compiler_options=compiler_options or None))
        except RuntimeError as error:  # compilation raises RuntimeErrors
            if requested := requested_bytes(str(error)):
                return max(requested, limit + 1)
            raise

    state = bytes_on_device(program.state)
    return fit_micro_batches(peak_of, shapes, limit, shards=num_shards(program.mesh), state=state)


def fit_micro_batches(
    peak_of: Callable[[BatchShape, int], int],
    shapes: Sequence[BatchShape],
    limit: int,
    *,
    shards: int,
    state: int = 0,
) -> MicroBatchPlan:
    """Returns the largest micro-batch whose peak memory fits `limit` for every shape.

    Args:
      peak_of: takes a shape and a number of tokens per device, compiles the step, and returns its
        peak bytes on a device; called once for each shape and number of rows.
      shapes, limit: as in `plan_micro_batches`.
      shards: number of devices that split a batch.
      state: bytes of parameters and optimiser state on a device, for the message.

    Raises ValueError if one row of a shape does not fit.
    """

    def rows_of(shape: BatchShape, tokens: int) -> int:
        return partition_batch(shape, shards=shards, tokens_per_device=tokens).rows // shards

    @functools.cache
    def peak(shape: BatchShape, rows: int) -> int:
        return peak_of(shape, rows * max(shape[1:]))

    one_row = max(max(shape[1:]) for shape in shapes)
    tokens = max(max(shape[1:]) * rows_of(shape, 0) for shape in shapes)
    for shape in sorted(shapes, key=attention_cells, reverse=True):
        rows, longest = rows_of(shape, tokens), max(shape[1:])
        if peak(shape, rows) > limit:
            fewer = sorted({rows_of(shape, count * longest) for count in range(1, rows)})
            fitting = bisect.bisect(fewer, limit, key=functools.partial(peak, shape))
            if not fitting:
                raise ValueError(_no_row_fits(shape, peak(shape, 1), limit, state))
            tokens = max(one_row, fewer[fitting - 1] * longest)
    peaks = {shape: peak(shape, rows_of(shape, tokens)) for shape in shapes}
    for shape, needed in peaks.items():
        if needed > limit:
            raise ValueError(_no_row_fits(shape, needed, limit, state))
    return MicroBatchPlan(tokens, peaks, limit, shards)


def _no_row_fits(shape: BatchShape, needed: int, limit: int, state: int) -> str:
    rest = f": {short(state)}B of state and {short(needed - state)}B for the rest" if state else ""
    return (
        f"one row of the batch shape {shape} on each device needs {short(needed)}B{rest}, but the "
        f"limit is {short(limit)}B: split the state over devices (mesh.fsdp), recompute "
        "activations (--model.remat full), compute in bfloat16 (--model.dtype bfloat16), or lower "
        "data.max_source_length and data.max_target_length"
    )


def bytes_on_device(tree: Any) -> int:
    """Returns the bytes that a tree of shapes with shardings takes on one device."""
    return sum(
        x.dtype.itemsize * math.prod(x.sharding.shard_shape(x.shape)) for x in jax.tree.leaves(tree)
    )


def memory_table(plan: MicroBatchPlan) -> str:
    """Returns a text table of the micro-batches and the memory of each shape."""
    tokens, limit = plan.tokens_per_device, plan.limit
    lines = [
        f"micro-batches of at most {tokens:,} tokens a device; peak memory of a device by the "
        f"compiler's estimate (limit {limit / 2**30:.2f} GiB):"
    ]
    for shape, peak in plan.peaks.items():
        parts = partition_batch(shape, shards=plan.shards, tokens_per_device=tokens)
        lines.append(
            f"  {shape!s:>24}  {parts.micro_batches:>3} x {parts.rows} rows  "
            f"{peak / 2**30:>7.2f} GiB  {peak / limit:>4.0%}"
        )
    return "\n".join(lines)
