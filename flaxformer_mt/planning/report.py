"""A plan as text, for people. Every number is the compiler's estimate."""

from collections.abc import Sequence

from flaxformer_mt.config import Config
from flaxformer_mt.inspection.table import short
from flaxformer_mt.planning.estimates import Estimate, Plan, TrainEstimate
from flaxformer_mt.planning.memory import memory_table
from flaxformer_mt.planning.scaling import GIB, NOTICE
from flaxformer_mt.runtime.sharding import parse_memory


def plan_table(plan: Plan, config: Config) -> str:
    """What each program takes, and whether all of it fits."""
    chip, count = plan.place.chip, len(plan.place.devices)
    memory = f"{chip.memory / GIB:.1f} GiB" if chip.memory else "unknown memory"
    lines = [
        f"{plan.place.name}: {count} devices of {memory}" + _peaks(plan),
        NOTICE,
        f"shapes      {plan.workload.origin}",
        f"state       {plan.state_bytes / GIB:.2f} GiB on each device (parameters, optimiser)",
    ]
    if plan.failure:
        return "\n".join([*lines[:3], f"NO PLAN     {plan.failure}"])
    if plan.micro_batches:
        limit = parse_memory(config.mesh.memory_limit)
        lines.append(memory_table(plan.micro_batches, limit, shards=plan.shards))
    lines += ["", *_table(_program_rows(plan)), ""]
    for one in (*plan.train, *_others(plan)):
        found = one.estimate if isinstance(one, TrainEstimate) else one
        if found.failure:
            lines.append(f"FAILED      {found.name}: {found.failure}")
    lines += summary_lines(plan, config)
    return "\n".join(lines)


def _peaks(plan: Plan) -> str:
    chip = plan.place.chip
    if not chip.flops:
        return ""
    return (
        f", {short(chip.flops)}FLOP/s in bfloat16, {short(chip.bandwidth)}B/s to memory, "
        f"{short(chip.interconnect)}B/s to other chips (as stated by the maker)"
    )


def _operations(flops: int) -> str:
    return f"{flops / 1e15:,.1f} P" if flops >= 1e15 else short(flops).strip()


def _others(plan: Plan) -> list[Estimate]:
    return [*plan.evaluate, *(one.estimate for one in plan.search)]


def _program_rows(plan: Plan) -> list[tuple[str, ...]]:
    """The header, then one row for each program."""
    rows = [
        (
            "program",
            "memory",
            "of all",
            "FLOPs",
            "sent",
            "collectives",
            "seconds",
            "tokens/s",
            "MFU",
            "compiled in",
        )
    ]
    for one in plan.train:
        micro = f" in {one.micro_batches}" if one.micro_batches > 1 else ""
        rows.append(_row(one.estimate, plan, one.estimate.name + micro, one.tokens_per_second))
    rows += [_row(one, plan, one.name, 0.0) for one in plan.evaluate]
    for one in plan.search:
        rows.append(_row(one.estimate, plan, one.estimate.name, one.tokens_per_second, of_one=True))
    return rows


def _row(one: Estimate, plan: Plan, name: str, tokens: float, *, of_one: bool = False):
    chip = plan.place.chip
    share = f"{one.peak / chip.memory:.0%}" if chip.memory and one.peak else ""
    kinds = ", ".join(f"{each.count} {each.kind} {short(each.bytes)}B" for each in one.collectives)
    seconds = f"{one.step_seconds:.4f}" if one.step_seconds else "?"
    if of_one and one.step_seconds:
        seconds = "a loop"
    if one.timed == "roofline":
        seconds += " (roofline)"
    used = 0.0 if of_one else one.utilization(plan.place)
    if one.failure:
        wanted = f"{one.peak / GIB:.2f} GiB" if one.peak else ""
        return (name, wanted, share, "", "", "FAILED", "", "", "", f"{one.compile_seconds:.0f} s")
    return (
        name,
        f"{one.peak / GIB:.2f} GiB",
        share,
        _operations(one.flops),
        short(sum(each.sent for each in one.collectives)).strip() + "B" if kinds else "",
        kinds,
        seconds,
        f"{tokens:,.0f}" + (" a chip" if of_one else "") if tokens else "",
        f"{used:.0%}" if used else "",
        f"{one.compile_seconds:.0f} s",
    )


def _table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) if index in (0, 5) else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return [lines[0], "  ".join("-" * width for width in widths), *lines[1:]]


def summary_lines(plan: Plan, config: Config) -> list[str]:
    """Fits or not, how fast, what would fit, and what else could be done."""
    memory = plan.place.chip.memory
    estimates = [*(one.estimate for one in plan.train), *_others(plan)]
    failed = [one.name for one in estimates if one.failure]
    too_large = [one.name for one in estimates if memory and one.peak > memory]
    lines = []
    if failed or too_large:
        lines.append(f"FITS NOT    {'; '.join(dict.fromkeys(failed + too_large))}")
    elif memory:
        most = max(one.peak for one in estimates) / memory
        lines.append(f"fits        all of it; at most {most:.0%} of a device's memory")
    else:
        lines.append("fits        unknown: these devices do not tell their memory")
    if speed := plan.tokens_per_second:
        lines.append(
            f"training    about {speed:,.0f} target tokens/s if the estimate holds, "
            f"{speed / len(plan.place.devices):,.0f} a device"
        )
    if most := plan.tokens_that_fit:
        lines.append(
            f"would fit   about {most:,} tokens a device at once (data.tokens_per_batch "
            f"{most * plan.shards:,}): a straight line, which --mesh.memory-limit "
            f"{memory / GIB:.0f}GiB confirms by compiling"
        )
    if plan.place.chip.flops and config.model.dtype == "float32":
        lines.append(
            "hint        model.dtype is float32: --model.dtype bfloat16 is what TPUs are fast in"
        )
    return lines
