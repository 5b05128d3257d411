"""The plan of a recipe on some hardware: an estimate of each program, and a table of them."""

import dataclasses
import math
from collections.abc import Iterator, Sequence

import jax

from flaxformer_mt.config import Config
from flaxformer_mt.data.tokenization.vocabulary import BOS_ID
from flaxformer_mt.inspection.table import short
from flaxformer_mt.kernels.choose import choose_kernels
from flaxformer_mt.model.initialization import boxed_params
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.planning.compiler import Estimate, estimate
from flaxformer_mt.planning.hardware import Hardware
from flaxformer_mt.planning.memory import (
    bytes_on_device,
    memory_table,
    plan_micro_batches,
    train_program,
)
from flaxformer_mt.planning.workload import AssumedBatch
from flaxformer_mt.runtime.sharding import make_mesh, parse_memory
from flaxformer_mt.training.adapting import make_adaptation
from flaxformer_mt.training.optimizer import make_optimizer

NOTICE = "Estimates of the compiler, not measurements: nothing ran."
HEADER = (
    "| hardware | program | memory a device | FLOPs | sent a device | computing | sending "
    "| target tokens/s | MFU |\n|---|---|--:|--:|--:|--:|--:|--:|--:|"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """The estimates of a recipe on some hardware."""

    hardware: Hardware
    train: tuple[Estimate, ...] = ()
    """The training step of each batch shape."""
    state_bytes: int = 0
    """Bytes of parameters and optimiser state on one device."""
    memory: str = ""
    """A table of the micro-batches, with `mesh.memory_limit`; "" without it."""
    tokens_per_second: float = 0.0
    """Target tokens per second of training, over all shapes; 0 = unknown."""
    failure: str = ""
    """Why there is no estimate, such as a mesh that does not fit; "" if there is one."""

    @property
    def fits(self) -> bool:
        """Whether all programs compile, and fit the memory of a device if it is known."""
        memory = self.hardware.memory or math.inf
        return not self.failure and all(
            not one.failure and one.peak_bytes <= memory for one in self.train
        )


def make_plan(config: Config, hardware: Hardware, batches: Sequence[AssumedBatch]) -> Plan:
    """Compiles the training step of a recipe for some hardware. It runs nothing.

    The plan has a `failure` if mesh or memory limit do not fit the hardware.
    """
    kernels = choose_kernels(config.model.kernels, hardware.devices[0].platform)
    size = config.data.tokenizer.vocab_size
    model = Transformer(config.model, size, size, BOS_ID, kernels)
    try:
        return _plan_training(config, model, hardware, batches)
    except (ValueError, RuntimeError) as error:  # RuntimeErrors come from the compiler
        return Plan(hardware=hardware, failure=str(error).strip() or type(error).__name__)


def _plan_training(
    config: Config, model: Transformer, hardware: Hardware, batches: Sequence[AssumedBatch]
) -> Plan:
    optimizer = make_optimizer(config.training, config.model.d_model)
    boxed = jax.eval_shape(lambda: boxed_params(model, jax.random.key(0)))
    adaptation = make_adaptation(config.training, boxed)
    mesh = make_mesh(config.mesh, hardware.devices)
    program = train_program(config, model, optimizer, adaptation, mesh)
    tokens_per_device, memory = config.mesh.tokens_per_device, ""
    if limit := parse_memory(config.mesh.memory_limit):
        shapes = [batch.shape for batch in batches]
        chosen = plan_micro_batches(program, shapes, limit, hardware.compiler_options)
        tokens_per_device, memory = chosen.tokens_per_device, memory_table(chosen)

    def train_step(batch: AssumedBatch) -> Estimate:
        name = f"train {batch.shape}"
        try:
            step, arguments = program(batch.shape, tokens_per_device)
        except ValueError as error:  # fewer rows than devices
            return Estimate(name=name, failure=str(error))
        micro_batches = arguments[1].inputs.shape[0]
        name += f" in {micro_batches}" if micro_batches > 1 else ""
        return estimate(name, hardware, step, arguments, target_tokens=batch.target_tokens)

    steps = tuple(map(train_step, batches))
    seconds = sum(one.seconds * batch.share for one, batch in zip(steps, batches, strict=True))
    tokens = sum(batch.target_tokens * batch.share for batch in batches)
    return Plan(
        hardware=hardware,
        train=steps,
        state_bytes=bytes_on_device(program.state),
        memory=memory,
        tokens_per_second=tokens / seconds if all(one.seconds for one in steps) else 0.0,
    )


def table_rows(plan: Plan) -> list[str]:
    """Returns a line of Markdown for each program, under `HEADER`."""
    return [f"| {plan.hardware.name} | {_cells(one)} |" for one in plan.train]


def _cells(one: Estimate) -> str:
    sent, timed = sum(one.sent.values()), ["?"] * 4
    if one.seconds:
        timed = [f"{1e3 * time:,.2f} ms" for time in (one.compute_seconds, one.send_seconds)]
        timed += [f"{one.tokens_per_second:,.0f}", f"{one.utilization:.0%}"]
    cells = (
        one.name,
        _memory(one.peak_bytes),
        "does not compile" if one.failure else short(one.flops),
        f"{short(sent)}B" if sent else "0",
        *timed,
    )
    return " | ".join(cells)


def _memory(size: int) -> str:
    if size < 2**27:
        return f"{size / 2**20:.1f} MiB" if size else ""
    return f"{size / 2**30:.2f} GiB"


def summary_lines(plan: Plan, config: Config) -> Iterator[str]:
    """Yields lines that say what did not compile, whether memory suffices, and the speed."""
    for line in _summary(plan, config):
        yield f"{plan.hardware.name}: {line}"
    if plan.memory:
        yield plan.memory


def _summary(plan: Plan, config: Config) -> Iterator[str]:
    hardware, estimates = plan.hardware, plan.train
    if plan.failure:
        yield f"no plan: {plan.failure}"
        return
    yield from (f"{one.name} failed: {one.failure}" for one in estimates if one.failure)
    state = f"; {short(plan.state_bytes)}B of parameters and optimiser state on each device"
    too_large = [one.name for one in estimates if one.peak_bytes > hardware.memory]
    if not hardware.memory:
        yield f"the memory of a device is not known{state}"
    elif too_large:
        yield f"does not fit: {'; '.join(too_large)}{state}"
    elif not any(one.failure for one in estimates):
        used = max(one.peak_bytes for one in estimates) / hardware.memory
        yield f"fits in {used:.0%} of the memory of a device{state}"
    if speed := plan.tokens_per_second:
        each = speed / len(hardware.devices)
        yield f"training {speed:,.0f} target tokens/s, {each:,.0f} a device"
    if hardware.flops and config.model.dtype == "float32":
        yield "model.dtype is float32; --model.dtype bfloat16 is faster on TPUs"
