"""Estimates a recipe's memory and time on other hardware: `python -m flaxformer_mt.plan`.

    python -m flaxformer_mt.plan --config configs/wmt14_en_de_big.py --topology v5e:2x4

It compiles the training step, and prints memory, operations and time.
"""

import dataclasses
import sys

from flaxformer_mt.cli import command
from flaxformer_mt.config_arguments import ConfigArguments
from flaxformer_mt.planning.hardware import local_devices, open_topology
from flaxformer_mt.planning.plans import HEADER, NOTICE, make_plan, summary_lines, table_rows
from flaxformer_mt.planning.workload import assume_batches, describe_assumptions, largest_batch
from flaxformer_mt.runtime.command import exit_process
from flaxformer_mt.runtime.sharding import configure_cpu_devices


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlanArguments(ConfigArguments):
    """Estimate memory and time of training on other hardware. Nothing is trained."""

    topology: tuple[str, ...] = ()
    """Hardware to compile for, such as v5e:2x4 (extra [tpu]) or h100:8 (extra [gpu-compiler]). This
    machine does not need it. Empty = the devices of this machine."""
    only_largest: bool = False
    """Compile only the largest batch shape."""


def plan(arguments: PlanArguments) -> int:
    """Runs the command `plan`: prints a plan for each topology; 1 if the recipe fits none."""
    config = arguments.as_config()
    if arguments.topology:  # all of it, before time is spent on the first
        all_hardware = [open_topology(name) for name in arguments.topology]
    else:
        configure_cpu_devices(config.mesh)
        all_hardware = [local_devices()]
    batches = assume_batches(config)
    if arguments.only_largest:
        batches = [largest_batch(batches)]
    print(f"{NOTICE}\n\n{describe_assumptions(config)}\n\n{HEADER}", flush=True)
    plans = []
    for hardware in all_hardware:
        plans.append(make_plan(config, hardware, batches))
        for row in table_rows(plans[-1]):
            print(row, flush=True)
    print("", *(line for plan in plans for line in summary_lines(plan, config)), sep="\n")
    if any(plan.fits for plan in plans):
        return 0
    names = ", ".join(hardware.name for hardware in all_hardware)
    print(f"error: the recipe does not fit {names}; the lines above say why", file=sys.stderr)
    return 1


main = command("plan", PlanArguments, plan)

if __name__ == "__main__":
    exit_process(main())
