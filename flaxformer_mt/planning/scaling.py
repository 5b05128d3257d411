"""How training scales over slices, as Markdown; and plans as JSON, for programs."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from flaxformer_mt.planning.estimates import Plan

NOTICE = (
    "ESTIMATES OF THE COMPILER, NOT MEASUREMENTS: nothing ran. Seconds are the compiler's own sum "
    "for computing,\nplus all collectives round a ring over all links, one after the other."
)
GIB = 2**30


def scaling_table(plans: Sequence[Plan]) -> str:
    """One line of Markdown for each slice: how the training step scales with the chips."""
    lines = [
        "| slice | devices | batch | micro-batches | memory a device | sent a device and step | "
        "computing | sending | target tokens/s | a device | efficiency | MFU |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    first = 0.0
    for plan in plans:
        count, name = len(plan.place.devices), plan.place.name
        one = max(plan.train, key=lambda each: each.estimate.peak, default=None)
        failure = plan.failure or (one.estimate.failure if one else "nothing was compiled")
        if one is None or failure:
            lines.append(f"| {name} | {count} | {one.shape if one else ''} | {failure} |||||||||")
            continue
        found = one.estimate
        each = one.tokens_per_second / count
        first = first or each
        share = f", {found.peak / plan.place.chip.memory:.0%}" if plan.place.chip.memory else ""
        sent = sum(collective.sent for collective in found.collectives)
        lines.append(
            f"| {name} | {count} | {one.shape} | {one.micro_batches} | "
            f"{found.peak / GIB:.2f} GiB{share} | {sent / 1e6:,.1f} MB | "
            f"{found.seconds * 1e3:,.1f} ms | {found.interconnect_seconds * 1e3:,.2f} ms | "
            f"{one.tokens_per_second:,.0f} | {each:,.0f} | {each / first if first else 0:.0%} | "
            f"{found.utilization(plan.place):.0%} |"
        )
    return "\n".join(lines)


def plan_json(plan: Plan) -> dict[str, Any]:
    """All of a plan but its devices, for `json.dumps`."""
    return {
        "notice": NOTICE.replace("\n", " "),
        "slice": plan.place.name,
        "devices": len(plan.place.devices),
        "chip": dataclasses.asdict(plan.place.chip),
        "origin": plan.workload.origin,
        "failure": plan.failure,
        "state_bytes": plan.state_bytes,
        "tokens_per_second": plan.tokens_per_second,
        "tokens_that_fit": plan.tokens_that_fit,
        "tokens_per_device": plan.micro_batches and plan.micro_batches.tokens_per_device,
        "train": [
            dataclasses.asdict(one) | {"tokens_per_second": one.tokens_per_second}
            for one in plan.train
        ],
        "evaluate": [dataclasses.asdict(one) for one in plan.evaluate],
        "translate": [
            dataclasses.asdict(one) | {"tokens_per_second": one.tokens_per_second}
            for one in plan.search
        ],
    }
