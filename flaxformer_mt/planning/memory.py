"""Searches the micro-batch that fits a memory limit, by compiling instead of running.

plan = plan_micro_batches(config, model, optimizer, adaptation, mesh, shapes, limit)
print(memory_table(plan, limit, shards=...))
rows = process_rows(mesh, plan.tokens_per_device)
"""

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
from flaxformer_mt.planning.recipe import train_program
from flaxformer_mt.planning.workload import attention_cells
from flaxformer_mt.runtime.batch_partition import partition_batch
from flaxformer_mt.runtime.sharding import num_shards
from flaxformer_mt.training.adapting import Adaptation

PeakOf = Callable[[BatchShape, int], int]
"""(shape, tokens_per_device) -> peak bytes of one device."""


class MicroBatchPlan(NamedTuple):
    """The micro-batches that fit.

    Attributes:
      tokens_per_device: the value for `mesh.tokens_per_device`.
      peaks: peak bytes of a device for each shape, with that value.
    """

    tokens_per_device: int
    peaks: Mapping[BatchShape, int]


def choose_tokens_per_device(
    peak_of: PeakOf, shapes: Sequence[BatchShape], limit: int, *, shards: int, state: int = 0
) -> MicroBatchPlan:
    """Returns the largest micro-batch whose peak memory fits `limit` for every shape.

    Memory is nearly affine in the rows of a device. So a line through two compiled sizes predicts
    the size that fits, and few compilations confirm it.

    Args:
      peak_of: compiles a step and returns its memory; called once for each division into rows.
      shapes: of the batches.
      limit: bytes that a device may use.
      shards: devices that a batch is split over.
      state: bytes of parameters and optimiser state on a device.

    Raises:
      ValueError: one row of a shape does not fit.
    """
    known: dict[tuple[BatchShape, int], int] = {}

    def peak(shape: BatchShape, tokens: int) -> int:
        partition = partition_batch(shape, shards=shards, tokens_per_device=tokens)
        key = shape, partition.rows // shards
        if key not in known:
            known[key] = peak_of(shape, tokens)
        return known[key]

    tokens = max(max(shape[1:]) * -(-shape.rows // shards) for shape in shapes)
    one_row = max(max(shape[1:]) for shape in shapes)  # divide() refuses less
    for shape in sorted(shapes, key=attention_cells, reverse=True):
        if peak(shape, tokens) > limit:
            fitting = _fitting(peak, shape, tokens, limit, shards=shards, state=state)
            tokens = max(one_row, fitting)
    peaks = {shape: peak(shape, tokens) for shape in shapes}
    for shape in shapes:
        if peaks[shape] > limit:
            raise ValueError(_no_row_fits(shape, peaks[shape], limit, state))
    return MicroBatchPlan(tokens, peaks)


def _fitting(
    peak: PeakOf, shape: BatchShape, tokens: int, limit: int, *, shards: int, state: int
) -> int:
    """The most tokens with which a shape fits that does not fit with `tokens`.

    Regula falsi over the possible numbers of rows of a micro-batch.
    """
    longest = max(shape[1:])
    partition = partition_batch(shape, shards=shards, tokens_per_device=tokens)
    counts = range(partition.micro_batches, -(-shape.rows // shards) + 1)
    sizes = sorted({-(-shape.rows // (shards * count)) for count in counts})
    low, high = -1, len(sizes) - 1  # sizes[low] fits (-1: none known to), sizes[high] does not
    at_high, known_low = peak(shape, sizes[high] * longest), (0, state)
    while high - low > 1:
        rows, at_low = known_low
        slope = (at_high - at_low) / (sizes[high] - rows)
        guess = rows + (limit - at_low) / slope if slope > 0 else rows
        middle = min(max(sum(size <= guess for size in sizes) - 1, low + 1), high - 1)
        found = peak(shape, sizes[middle] * longest)
        if found <= limit:
            low, known_low = middle, (sizes[middle], found)
        else:
            high, at_high = middle, found
    if low < 0:
        raise ValueError(_no_row_fits(shape, at_high, limit, state))
    return sizes[low] * longest


def _no_row_fits(shape: BatchShape, needed: int, limit: int, state: int) -> str:
    rest = f": {short(state)}B of state and {short(needed - state)}B of the rest" if state else ""
    return (
        f"one row of the batch shape {shape} on each device needs {short(needed)}B{rest}, but the "
        f"limit is {short(limit)}B: split the state over devices (mesh.fsdp), recompute "
        "activations (--model.remat full), compute in bfloat16 (--model.dtype bfloat16), or lower "
        "data.max_source_length and data.max_target_length"
    )


def plan_micro_batches(
    config: Config,
    model: Transformer,
    optimizer: optax.GradientTransformation,
    adaptation: Adaptation,
    mesh: Mesh,
    shapes: Sequence[BatchShape],
    limit: int,
    *,
    compiler_options: dict[str, Any] | None = None,
) -> MicroBatchPlan:
    """Returns the largest micro-batch with which the training step fits, for every batch shape.

    Args:
      config: the recipe; model, optimizer, adaptation and mesh are made from it.
      shapes: of the batches.
      limit: bytes that a device may use; `sharding.parse_memory(config.mesh.memory_limit)`.
      compiler_options: for `Lowered.compile`.

    Raises:
      ValueError: one row of a shape does not fit, or a shape cannot be divided.
    """
    program = train_program(config, model, optimizer, adaptation, mesh)

    def peak_of(shape: BatchShape, tokens_per_device: int) -> int:
        step, arguments = program(shape, tokens_per_device)
        lowered = step.lower(*arguments)
        try:
            return peak_bytes(lowered.compile(compiler_options=compiler_options or None))
        except RuntimeError as error:  # JAX's errors of compiling are RuntimeErrors
            if requested := requested_bytes(str(error)):
                return max(requested, limit + 1)
            raise

    shards = num_shards(mesh)
    return choose_tokens_per_device(
        peak_of, shapes, limit, shards=shards, state=bytes_on_device(program.state)
    )


def bytes_on_device(tree: Any) -> int:
    """Returns the bytes on one device of a tree of shapes with shardings."""
    return sum(
        x.dtype.itemsize * math.prod(x.sharding.shard_shape(x.shape)) for x in jax.tree.leaves(tree)
    )


def memory_table(plan: MicroBatchPlan, limit: int, *, shards: int) -> str:
    """Returns the micro-batches and the memory of each shape as text."""
    lines = [
        f"micro-batches of at most {plan.tokens_per_device:,} tokens a device; peak memory of a "
        f"device by the compiler's estimate (limit {limit / 2**30:.2f} GiB):"
    ]
    for shape, peak in plan.peaks.items():
        partition = partition_batch(shape, shards=shards, tokens_per_device=plan.tokens_per_device)
        lines.append(
            f"  {shape!s:>24}  {partition.micro_batches:>3} x {partition.rows} rows  "
            f"{peak / 2**30:>7.2f} GiB  {peak / limit:>4.0%}"
        )
    return "\n".join(lines)
