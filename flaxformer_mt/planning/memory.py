"""The micro-batch that fits: chosen by what the compiler says, without trial and error on a device.

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
from flaxformer_mt.planning.account import peak_memory, wanted_memory
from flaxformer_mt.planning.recipe import train_program
from flaxformer_mt.planning.workload import attention_cells
from flaxformer_mt.runtime.batch_partition import partition_batch
from flaxformer_mt.runtime.sharding import num_shards
from flaxformer_mt.training.adapting import Adaptation

PeakOf = Callable[[BatchShape, int], int]
"""(shape, tokens_per_device) -> bytes that one device needs."""


class MicroBatchPlan(NamedTuple):
    """What fits.

    Attributes:
      tokens_per_device: for `mesh.tokens_per_device` and `sharding.process_rows`.
      peaks: bytes that a device needs for each shape, so divided.
    """

    tokens_per_device: int
    peaks: Mapping[BatchShape, int]


def choose_tokens_per_device(
    peak_of: PeakOf, shapes: Sequence[BatchShape], limit: int, *, shards: int, state: int = 0
) -> MicroBatchPlan:
    """The largest micro-batch whose peak memory fits `limit` for every shape.

    Memory is nearly affine in the rows of a device, so that a line through what has been compiled
    guesses what fits; few compilations confirm it, for the most demanding shape first.

    Args:
      peak_of: compiles, and says what one device needs; compiled once for each pair.
      shapes: of the batches.
      limit: bytes that a device may use.
      shards: devices that a batch is split over.
      state: bytes of parameters and optimiser state on a device, for the message.

    Raises:
      ValueError: not even one row at a time fits.
    """
    known: dict[tuple[BatchShape, int], int] = {}

    def peak(shape: BatchShape, tokens: int) -> int:
        partition = partition_batch(shape, shards=shards, tokens_per_device=tokens)
        key = shape, partition.rows // shards
        if key not in known:
            known[key] = peak_of(shape, tokens)
        return known[key]

    demanding = sorted(shapes, key=attention_cells, reverse=True)
    tokens = max(max(shape[1:]) * -(-shape.rows // shards) for shape in shapes)
    # One row of the longest shape must fit: partition_batch() refuses less.
    least = max(max(shape[1:]) for shape in shapes)
    for shape in demanding:
        if peak(shape, tokens) > limit:
            tokens = max(least, _fitting(peak, shape, tokens, limit, shards=shards, state=state))
    peaks = {shape: peak(shape, tokens) for shape in shapes}
    over = [shape for shape in shapes if peaks[shape] > limit]
    if over:
        raise ValueError(_no_row_fits(over[0], peaks[over[0]], limit, state))
    return MicroBatchPlan(tokens, peaks)


def _fitting(
    peak: PeakOf, shape: BatchShape, tokens: int, limit: int, *, shards: int, state: int
) -> int:
    """The most tokens, fewer than `tokens`, with which a shape fits that does not fit with these.

    Regula falsi over the numbers of micro-batches: those that make a difference to the rows.
    """
    longest = max(shape[1:])
    partition = partition_batch(shape, shards=shards, tokens_per_device=tokens)
    counts = range(partition.micro_batches, -(-shape.rows // shards) + 1)
    sizes = sorted({-(-shape.rows // (shards * count)) for count in counts})
    low, high = -1, len(sizes) - 1  # sizes[high] does not fit; sizes[low] does, if there is one
    at_high, known_low = peak(shape, sizes[high] * longest), (0, state)
    while high - low > 1:
        rows, at_low = known_low
        slope = (at_high - at_low) / (sizes[high] - rows)
        guess = rows + (limit - at_low) / slope if slope > 0 else rows
        place = sum(size <= guess for size in sizes) - 1
        place = min(max(place, low + 1), high - 1)
        found = peak(shape, sizes[place] * longest)
        if found <= limit:
            low, known_low = place, (sizes[place], found)
        else:
            high, at_high = place, found
    if low < 0:
        raise ValueError(_no_row_fits(shape, at_high, limit, state))
    return sizes[low] * longest


def _no_row_fits(shape: BatchShape, needed: int, limit: int, state: int) -> str:
    rest = f": {short(state)}B of state and {short(needed - state)}B of the rest" if state else ""
    return (
        f"one row of the batch shape {shape} on each device needs {short(needed)}B{rest}, but the "
        f"limit is {short(limit)}B: share the state among devices (mesh.fsdp), compute activations "
        "again (--model.remat full), compute in bfloat16 (--model.dtype bfloat16), or lower "
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
    """`choose_tokens_per_device` for the training step of a recipe, as the compiler accounts it.

    Args:
      limit: bytes that a device may use; `sharding.parse_memory(config.mesh.memory_limit)`.
      compiler_options: for `Lowered.compile`.

    Raises:
      ValueError: not even one row at a time fits, or the shapes cannot be divided.
    """
    program = train_program(config, model, optimizer, adaptation, mesh)

    def peak_of(shape: BatchShape, tokens_per_device: int) -> int:
        step, arguments = program(shape, tokens_per_device)
        try:
            return peak_memory(
                step.lower(*arguments).compile(compiler_options=compiler_options or None)
            )[0]
        except RuntimeError as error:  # JAX's errors of compiling are RuntimeErrors
            wanted = wanted_memory(str(error))
            if not wanted:
                raise
            return max(wanted, limit + 1)

    shards = num_shards(mesh)
    return choose_tokens_per_device(
        peak_of, shapes, limit, shards=shards, state=bytes_on_device(program.held)
    )


def bytes_on_device(tree: Any) -> int:
    """Of arrays that are known by shape and sharding."""
    return sum(
        x.dtype.itemsize * math.prod(x.sharding.shard_shape(x.shape)) for x in jax.tree.leaves(tree)
    )


def memory_table(plan: MicroBatchPlan, limit: int, *, shards: int) -> str:
    """What each shape takes, for the person at the terminal."""
    lines = [
        f"micro-batches of at most {plan.tokens_per_device:,} tokens a device; peak memory of a "
        f"device, as the compiler accounts it (limit {limit / 2**30:.2f} GiB):"
    ]
    for shape, peak in plan.peaks.items():
        partition = partition_batch(shape, shards=shards, tokens_per_device=plan.tokens_per_device)
        lines.append(
            f"  {shape!s:>24}  {partition.micro_batches:>3} x {partition.rows} rows  "
            f"{peak / 2**30:>7.2f} GiB  {peak / limit:>4.0%}"
        )
    return "\n".join(lines)
