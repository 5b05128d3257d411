"""The plan of a recipe on some hardware: an estimate of each program, and a table of all."""

import dataclasses
from collections.abc import Callable, Collection, Iterator
from typing import Any

import jax

from flaxformer_mt.config import Config
from flaxformer_mt.inspection.table import short
from flaxformer_mt.kernels.choose import choose_kernels
from flaxformer_mt.model.initialization import boxed_params
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.planning.compiler import Estimate, estimate
from flaxformer_mt.planning.hardware import Hardware
from flaxformer_mt.planning.memory import bytes_on_device, memory_table, plan_micro_batches
from flaxformer_mt.planning.recipe import search_program, search_shapes, train_program
from flaxformer_mt.planning.workload import Workload
from flaxformer_mt.runtime.sharding import make_mesh, num_shards, parse_memory
from flaxformer_mt.training.adapting import make_adaptation
from flaxformer_mt.training.optimizer import make_optimizer

NOTICE = "Estimates of the compiler, not measurements: nothing ran."
HEADER = (
    "| hardware | program | memory a device | FLOPs | sent a device | computing | sending "
    "| target tokens/s | MFU |\n|---|---|--:|--:|--:|--:|--:|--:|--:|"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """What a recipe takes on some hardware.

    Attributes:
      hardware: all devices.
      train: the training step of each shape of the workload.
      translate: each search, on one device.
      state_bytes: parameters and optimiser state on one device.
      tokens_per_device: chosen for `mesh.memory_limit`; 0 without a limit.
      memory: a table of the memory of each shape, with such a limit.
      tokens_per_second: target tokens of training, over all shapes; 0 = unknown.
      failure: why nothing could be compiled, such as a mesh that does not fit; "" if it could.
    """

    hardware: Hardware
    train: tuple[Estimate, ...] = ()
    translate: tuple[Estimate, ...] = ()
    state_bytes: int = 0
    tokens_per_device: int = 0
    memory: str = ""
    tokens_per_second: float = 0.0
    failure: str = ""


def make_plan(
    config: Config,
    workload: Workload,
    hardware: Hardware,
    *,
    programs: Collection[str] = ("train", "translate"),
    progress: Callable[[str], None] = lambda name: None,
) -> Plan:
    """Compiles the programs of a recipe for some hardware; nothing runs.

    Args:
      config: the recipe.
      workload: its batches and sources.
      hardware: to compile for.
      programs: "train", "translate" or both.
      progress: is called with the name of what is compiled next.

    Returns:
      The plan; with `failure` if mesh or memory limit do not fit the hardware.
    """
    kernels = choose_kernels(config.model.kernels, hardware.devices[0].platform)
    model = Transformer(config.model, *workload.vocabulary, workload.bos_id, kernels)
    plan = Plan(hardware=hardware)
    try:
        if "train" in programs:
            plan = _plan_training(config, model, workload, hardware, progress)
        if "translate" in programs:
            shapes = search_shapes(config.decoding, workload.source_lengths)
            found = tuple(_search(config, model, hardware, *shape, progress) for shape in shapes)
            plan = dataclasses.replace(plan, translate=found)
    except ValueError as error:
        return Plan(hardware=hardware, failure=str(error))
    return plan


def _plan_training(
    config: Config,
    model: Transformer,
    workload: Workload,
    hardware: Hardware,
    progress: Callable[[str], None],
) -> Plan:
    optimizer = make_optimizer(config.training, config.model.d_model)
    boxed = jax.eval_shape(lambda: boxed_params(model, jax.random.key(0)))
    adaptation = make_adaptation(config.training, boxed)
    mesh = make_mesh(config.mesh, hardware.devices)
    recipe = config, model, optimizer, adaptation, mesh
    program = train_program(*recipe)
    tokens_per_device, memory = config.mesh.tokens_per_device, ""
    if limit := parse_memory(config.mesh.memory_limit):
        progress(f"the micro-batch that fits {config.mesh.memory_limit}")
        options = hardware.compiler_options
        chosen = plan_micro_batches(*recipe, workload.shapes, limit, compiler_options=options)
        tokens_per_device = chosen.tokens_per_device
        memory = memory_table(chosen, limit, shards=num_shards(mesh))

    def compiled(shape: Any, target_tokens: float) -> Estimate:
        name = f"train {shape}"
        progress(name)
        try:
            step, arguments = program(shape, tokens_per_device)
        except ValueError as error:  # fewer rows than devices
            return Estimate(name=name, failure=str(error))
        micro_batches = arguments[1].inputs.shape[0]
        name += f" in {micro_batches}" if micro_batches > 1 else ""
        found = estimate(name, hardware, step, *arguments)
        return dataclasses.replace(found, target_tokens=target_tokens)

    steps = [*map(compiled, workload.shapes, workload.target_tokens)]
    of_shapes = list(zip(steps, workload.shares, strict=True))
    seconds = sum(share * one.seconds for one, share in of_shapes)
    tokens = sum(share * one.target_tokens for one, share in of_shapes)
    return Plan(
        hardware=hardware,
        train=tuple(steps),
        state_bytes=bytes_on_device(program.state),
        tokens_per_device=tokens_per_device,
        memory=memory,
        tokens_per_second=tokens / seconds if all(one.seconds for one in steps) else 0.0,
    )


def _search(
    config: Config,
    model: Transformer,
    hardware: Hardware,
    rows: int,
    length: int,
    progress: Callable[[str], None],
) -> Estimate:
    """A search on one device, whose translations are as long as their sources."""
    name = f"translate {rows} x {length}, beam {config.decoding.beam_size}"
    progress(name)
    one = dataclasses.replace(hardware, devices=hardware.devices[:1])

    def compiled(*, encode_only: bool) -> Estimate:
        program, arguments = search_program(
            config.decoding, model, one.devices[0], rows, length, encode_only=encode_only
        )
        return estimate(name, one, program, *arguments)

    whole = compiled(encode_only=False)
    if whole.failure:
        return whole
    # The compiler takes the loop once: without what comes before it, that is one target token.
    before = compiled(encode_only=True)
    token_seconds = max(0.0, whole.compute_seconds - before.compute_seconds)
    return dataclasses.replace(
        whole,
        flops=before.flops + length * (whole.flops - before.flops),
        compute_seconds=before.compute_seconds + length * token_seconds,
        target_tokens=float(rows * length),
    )


def table_rows(plan: Plan) -> list[str]:
    """Returns a line of Markdown for each program, under `HEADER`."""
    return [f"| {plan.hardware.name} | {_cells(one)} |" for one in (*plan.train, *plan.translate)]


def _cells(one: Estimate) -> str:
    timed = (
        f"{one.compute_seconds * 1e3:,.2f} ms",
        f"{one.send_seconds * 1e3:,.2f} ms",
        f"{one.tokens_per_second:,.0f}",
        f"{one.utilization:.0%}",
    )
    sent = sum(one.sent.values())
    cells = (
        one.name,
        f"{one.peak_bytes / 2**30:.2f} GiB" if one.peak_bytes else "",
        "does not compile" if one.failure else short(one.flops).strip(),
        f"{short(sent).strip()}B" if sent else "0",
        *(timed if one.seconds else ("?",) * 4),
    )
    return " | ".join(cells)


def summary_lines(plan: Plan, config: Config) -> Iterator[str]:
    """Yields what did not compile, whether all fits, and how fast training is: a line each."""
    hardware, estimates = plan.hardware, [*plan.train, *plan.translate]
    if plan.failure:
        yield f"{hardware.name}: no plan: {plan.failure}"
        return
    for one in estimates:
        if one.failure:
            yield f"{hardware.name}: {one.name} failed: {one.failure}"
    state = f"; {short(plan.state_bytes)}B of parameters and optimiser state on each device"
    state = state if plan.train else ""
    too_large = [one.name for one in estimates if one.failure or one.peak_bytes > hardware.memory]
    if not hardware.memory:
        yield f"{hardware.name}: the memory of a device is not known{state}"
    elif too_large:
        yield f"{hardware.name}: does not fit: {'; '.join(too_large)}{state}"
    else:
        used = max(one.peak_bytes for one in estimates) / hardware.memory
        yield f"{hardware.name}: fits in {used:.0%} of the memory of a device{state}"
    if speed := plan.tokens_per_second:
        each = speed / len(hardware.devices)
        yield f"{hardware.name}: training {speed:,.0f} target tokens/s, {each:,.0f} a device"
    if hardware.flops and config.model.dtype == "float32":
        yield f"{hardware.name}: model.dtype is float32; --model.dtype bfloat16 is faster on TPUs"
    if plan.memory:
        yield plan.memory


def plan_json(plan: Plan) -> dict[str, Any]:
    """Returns a plan with the number of its devices in place of them, for `json.dumps`."""
    hardware = dataclasses.replace(plan.hardware, devices=())
    found = dataclasses.asdict(dataclasses.replace(plan, hardware=hardware))
    found["hardware"]["devices"] = len(plan.hardware.devices)
    for name in ("train", "translate"):
        for fields, one in zip(found[name], getattr(plan, name), strict=True):
            fields["tokens_per_second"] = one.tokens_per_second
    return {"notice": NOTICE, **found}
