"""What a TPU's compiler makes of training and of the search: `python -m benchmarks.tpu`.

Nothing runs: programs are compiled, on this machine, for a slice that need not be here (see
`flaxformer_mt.planning`). A step of training is one of the shape that takes the most memory, over
all chips; a step of the search is one token more for every hypothesis, on one chip.
"""

import dataclasses
import sys

from flaxformer_mt.cli import command
from flaxformer_mt.config import Config, load_config
from flaxformer_mt.planning.estimates import Plan, SearchEstimate, TrainEstimate
from flaxformer_mt.planning.plans import make_plan
from flaxformer_mt.planning.topology import open_topology
from flaxformer_mt.planning.workload import make_workload

HEADER = (
    "| config | step | a step | of the peak | padding of arguments | copied, transposed, reshaped "
    "| all-reduce | all-gather |",
    "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TpuArguments:
    """What the compiler says of time, padding, copies and collectives, without a TPU."""

    config: tuple[str, ...] = ("configs/wmt14_en_de_base.py", "configs/wmt14_en_de_big.py")
    """Recipes; their lengths and vocabularies are assumed, as by `plan --assume-lengths`."""
    topology: str = "v5e:2x4"
    """Slice of TPU chips."""
    tensor: int = 1
    """Chips that share each row of a batch."""
    rows: int = 64
    """Sentences that are translated together."""
    length: int = 32
    """Of their sources, in tokens."""


def measure(arguments: TpuArguments) -> None:
    """Prints the table, the lines of a recipe as soon as they are known."""
    if not arguments.config:
        raise ValueError("config: name one at least")
    header = list(HEADER)
    for name in arguments.config:
        print(*header, *rows_of(name, make(load_config(name), arguments)), sep="\n", flush=True)
        header.clear()


def make(config: Config, arguments: TpuArguments) -> Plan:
    """The plan of a recipe in bfloat16: its training step, and its search for one length."""
    rows, length = arguments.rows, arguments.length
    config = dataclasses.replace(
        config,
        model=dataclasses.replace(config.model, dtype="bfloat16"),
        mesh=dataclasses.replace(config.mesh, tensor=arguments.tensor),
        decoding=dataclasses.replace(
            config.decoding, max_rows_per_batch=rows, tokens_per_batch=rows * length
        ),
    )
    return make_plan(
        config,
        make_workload(config, assume_lengths=True),
        open_topology(arguments.topology),
        programs=("train", "translate"),
        only_largest=True,
        source_lengths=(length,),
        progress=lambda what: print(f"{arguments.topology}: compiling {what}", file=sys.stderr),
    )


def rows_of(name: str, plan: Plan) -> list[str]:
    """A line for each program of a plan."""
    if plan.failure:
        return [f"| {name} | {plan.failure} |||||||"]
    return [_row(name, plan, one) for one in (*plan.train, *plan.search)]


def _row(name: str, plan: Plan, one: TrainEstimate | SearchEstimate) -> str:
    found = one.estimate
    if found.failure:
        return f"| {name} | {found.name}: {found.failure} |||||||"
    in_loop = isinstance(one, SearchEstimate)
    seconds = one.token_seconds if in_loop else found.step_seconds
    used = one.utilization(plan.place) if in_loop else found.utilization(plan.place)
    moves = [move for move in found.moves if move.in_loop or not in_loop]
    moved = _amount(sum(move.count for move in moves), sum(move.bytes for move in moves))
    kinds = {each.kind: _amount(each.count, each.sent) for each in found.collectives}
    sent = " | ".join(kinds.get(kind, "0") for kind in ("all-reduce", "all-gather"))
    return (
        f"| {name} | {found.name} | {seconds * 1e3:.2f} ms | {used:.0%} | "
        f"{found.padding - 1:.1%} | {moved} | {sent} |"
    )


def _amount(count: int, size: int) -> str:
    return f"{count}: {size / 1e6:,.1f} MB"


main = command("tpu", TpuArguments, measure, package="benchmarks")

if __name__ == "__main__":
    sys.exit(main())
