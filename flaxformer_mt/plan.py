"""Estimate what a recipe takes on hardware that need not be here: `python -m flaxformer_mt.plan`.

    python -m flaxformer_mt.plan --config configs/wmt14_en_de_big.py --topology v5e:2x4

It compiles the training step and the search, and prints memory, operations and time.
"""

import dataclasses
import json
import sys
from typing import Literal

from flaxformer_mt.cli import command
from flaxformer_mt.config import Config, ConfigArguments
from flaxformer_mt.planning.hardware import Hardware, local_devices, open_topology
from flaxformer_mt.planning.plans import (
    HEADER,
    NOTICE,
    Plan,
    make_plan,
    plan_json,
    summary_lines,
    table_rows,
)
from flaxformer_mt.planning.workload import assume_workload, read_workload
from flaxformer_mt.runtime.command import exit_process
from flaxformer_mt.runtime.sharding import configure_cpu_devices


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlanArguments(ConfigArguments):
    """Estimate what a recipe takes on other hardware. Nothing is trained or translated."""

    workdir: str = ""
    """With --read-data: use the tokenizer of this run. Empty = learn one and discard it."""
    topology: tuple[str, ...] = ()
    """Hardware to compile for, such as v5e:2x4 (extra [tpu]) or h100:8 (extra [gpu]); none of it
    need be here. Empty = the devices of this machine."""
    programs: tuple[Literal["train", "translate"], ...] = ("train", "translate")
    """Which programs to compile."""
    only_largest: bool = False
    """Compile only the largest batch shape and the longest source."""
    read_data: bool = False
    """Take batch shapes and vocabulary from the recipe's data, which may download it. Otherwise
    lengths are assumed."""
    full_effort: bool = False
    """Compile for a TPU as a real run does. That takes seven times as long, and the time is then
    that of a roofline model."""
    json: bool = False
    """Print JSON instead of a table."""


def plan(arguments: PlanArguments) -> None:
    """Runs the command `plan`: makes the plans and prints them."""
    plans = make_plans(arguments.as_config(), arguments)
    if arguments.json:
        print(json.dumps([plan_json(plan) for plan in plans], indent=2))


def make_plans(config: Config, arguments: PlanArguments) -> list[Plan]:
    """Returns one plan for each topology; prints its table as soon as it is made.

    Raises ValueError or OSError for hardware or data that cannot be used.
    """

    def show(*lines: str) -> None:
        if not arguments.json:
            print(*lines, sep="\n", flush=True)

    all_hardware = _hardware(config, arguments)  # all of it, before time is spent on the first
    workload = assume_workload(config)
    if arguments.read_data:
        workload = read_workload(config, workdir=arguments.workdir)
    show(f"{NOTICE}\n\nBatch shapes: {workload.origin}.\n\n{HEADER}")
    plans = []
    for hardware in all_hardware:
        plan = make_plan(
            config,
            workload.largest if arguments.only_largest else workload,
            hardware,
            programs=arguments.programs,
            progress=lambda name, of=hardware.name: print(f"{of}: {name}", file=sys.stderr),
        )
        plans.append(plan)
        show(*table_rows(plan))
    show("", *(line for plan in plans for line in summary_lines(plan, config)))
    return plans


def _hardware(config: Config, arguments: PlanArguments) -> list[Hardware]:
    if not arguments.topology:
        configure_cpu_devices(config.mesh)
        return [local_devices()]
    return [open_topology(name, full_effort=arguments.full_effort) for name in arguments.topology]


main = command("plan", PlanArguments, plan)

if __name__ == "__main__":
    exit_process(main())
