"""What a recipe takes on hardware that need not be there: `python -m flaxformer_mt.plan`.

    python -m flaxformer_mt.plan --config configs/wmt14_en_de_big.py --topology v5e:2x4

The compiler's own account of the programs that training, validation and translation would compile:
memory, operations, bytes between chips, time. Estimates, never measurements.
"""

import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from flaxformer_mt.cli import command
from flaxformer_mt.config import Config, ConfigArguments
from flaxformer_mt.planning.estimates import Plan
from flaxformer_mt.planning.plans import make_plan
from flaxformer_mt.planning.report import plan_table
from flaxformer_mt.planning.scaling import NOTICE, plan_json, scaling_table
from flaxformer_mt.planning.topology import Slice, local_devices, open_topology
from flaxformer_mt.planning.workload import make_workload
from flaxformer_mt.runtime.exit import leave
from flaxformer_mt.runtime.sharding import configure_cpu_devices


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlanArguments(ConfigArguments):
    """Estimate what a recipe takes. Nothing is trained or translated."""

    workdir: str = ""
    """Take the tokenizer of this run; empty = one is learnt for the plan and forgotten."""
    topology: tuple[str, ...] = ()
    """Slices of TPU chips to compile for, such as v5e:2x4 (needs libtpu, no TPU); several make a
    table of how training scales. Empty = the devices of this machine."""
    programs: tuple[Literal["train", "evaluate", "translate"], ...] = (
        "train",
        "evaluate",
        "translate",
    )
    """Which programs to compile."""
    only_largest: bool = False
    """Compile the shape that takes the most memory alone, not all of them."""
    tokens_per_chip: int = 0
    """Weak scaling: data.tokens_per_batch is this times the devices of the slice; 0 = as the recipe
    has it."""
    assume_lengths: bool = False
    """Do not read the data: assume lengths and vocabulary, as where the data is not here."""
    full_effort: bool = False
    """Compile for a slice as a real run does: some seven times as long, and without the compiler's
    estimate of time."""
    json: bool = False
    """Print JSON in place of tables."""
    markdown: str = ""
    """Append the table of how training scales to this file."""


def plan(arguments: PlanArguments) -> None:
    """Make the plans and print them; with several slices, also how training scales."""
    plans = make_plans(arguments.as_config(), arguments)
    table = scaling_table(plans)
    if arguments.json:
        print(json.dumps([plan_json(plan) for plan in plans], indent=2))
    elif len(plans) > 1:
        print(f"\n{NOTICE}\n\n{table}")
    if arguments.markdown:
        heading = f"    python -m flaxformer_mt.plan {' '.join(sys.argv[1:])}"
        with Path(arguments.markdown).open("a", encoding="utf-8") as file:
            file.write(f"\n{heading}\n\nShapes: {plans[0].workload.origin}.\n\n{table}\n")


def make_plans(config: Config, arguments: PlanArguments) -> list[Plan]:
    """One plan for each slice, printed as soon as it is made.

    Raises ValueError or OSError for a slice, or data, that cannot be used.
    """
    plans = []
    for place in _slices(config, arguments):
        of_slice = _scaled(config, arguments.tokens_per_chip * len(place.devices))
        workload = make_workload(
            of_slice, workdir=arguments.workdir, assume_lengths=arguments.assume_lengths
        )
        plan = make_plan(
            of_slice,
            workload,
            place,
            programs=arguments.programs,
            only_largest=arguments.only_largest,
            progress=lambda what, place=place: print(
                f"{place.name}: compiling {what}", file=sys.stderr
            ),
        )
        plans.append(plan)
        if not arguments.json:
            print(f"\n{plan_table(plan, of_slice)}", flush=True)
    return plans


def _slices(config: Config, arguments: PlanArguments) -> Sequence[Slice]:
    if arguments.topology:
        # All of them, before time is spent on the first.
        return [
            open_topology(name, full_effort=arguments.full_effort) for name in arguments.topology
        ]
    configure_cpu_devices(config.mesh)
    return [local_devices()]


def _scaled(config: Config, tokens_per_batch: int) -> Config:
    """With batches of another size; 0 changes nothing."""
    if not tokens_per_batch:
        return config
    data = dataclasses.replace(config.data, tokens_per_batch=tokens_per_batch)
    return dataclasses.replace(config, data=data)


main = command("plan", PlanArguments, plan)

if __name__ == "__main__":
    leave(main())
