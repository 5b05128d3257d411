"""Updates, target tokens/s: `python -m benchmarks.train --size small base --data FOLDER`.

The same batches for all and, but for `nn.Transformer`, the same weights; dropout 0.1 on sub-layers,
label smoothing 0.1, Adam, clipping. Padding is no work done.
"""

import dataclasses
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from benchmarks import limits
from benchmarks.rounds import Entry, Settings, alternate, installed, pin, ready, say
from benchmarks.table import make_rows, publish
from benchmarks.task import (
    Size,
    Text,
    make_config,
    sample_batches,
    shape_of,
    target_tokens,
    untrained,
    use_cpu,
    write_batches,
)
from flaxformer_mt.cli import guard, parse_arguments
from flaxformer_mt.data.batch import Batch

if TYPE_CHECKING:
    from flaxformer_mt.training.checkpoint import LoadedModel

OURS = "benchmarks.contenders.ours:Training"
PYTORCH = "benchmarks.contenders.pytorch:Training"
MARIAN = ("torch", "transformers", "safetensors")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainArguments(Settings, Text):
    """How fast ours trains, PyTorch's nn.Transformer, and Hugging Face Marian."""

    size: tuple[Size, ...] = ("small",)
    """Models: small is 256 wide with 3+3 layers; base (512, 6+6) and big are the paper's."""
    contenders: tuple[Literal["ours", "torch", "marian"], ...] = ("ours", "torch", "marian")
    """Who; torch is nn.Transformer, marian Hugging Face's. What is not installed is left out."""
    dtypes: tuple[Literal["float32", "bfloat16"], ...] = ("float32", "bfloat16")
    """In which precision each."""
    torch_compile: Literal["auto", "no", "yes", "both"] = "auto"
    """PyTorch through torch.compile; auto = on a GPU."""
    batches: int = 8
    """Of a round."""


def main(args: list[str] | None = None) -> int:
    """Exit status."""

    def parse_and_measure() -> None:
        measure(parse_arguments(TrainArguments, args, verb="train", package="benchmarks"))

    return guard(parse_and_measure)


def measure(arguments: TrainArguments) -> None:
    """A table for each size."""
    pin(arguments.cpus)
    use_cpu()
    for size in arguments.size:
        with tempfile.TemporaryDirectory(prefix="benchmark-") as directory:
            measure_size(size, arguments, Path(directory))


def measure_size(size: Size, arguments: TrainArguments, directory: Path) -> None:
    """Prepares the task, starts the contenders, goes through the rounds."""
    from flaxformer_mt.interop.marian import write_marian

    say(f"{size}: preparing batches and weights")
    loaded, data = untrained(make_config(size, arguments.data_config()), directory / "workdir")
    batches = sample_batches(data, arguments.batches)
    write_batches(directory / "batches.npz", batches)
    if installed(*MARIAN):
        write_marian(directory / "marian", loaded)
    entries = [*limits.ENTRIES, *contenders(arguments, loaded, directory)]
    with ready(entries, directory, arguments) as children:
        samples = alternate(children, arguments)
    facts = {child.name: child.ready for child in children}
    peaks = limits.take_best(samples)
    tokens, operations = target_tokens(batches), useful_operations(loaded, batches)
    rows = make_rows(
        samples,
        tokens,
        facts=facts,
        settings=arguments,
        limits={
            name: tokens / operations * peaks["bfloat16" if "bfloat16" in name else "float32"]
            for name in samples
        },
        details={
            name: {
                "first loss": round(facts[name]["first_loss"], 3),
                "compiled later": sum(a.get("compilations_later", 0) for a in sample.answers),
            }
            for name, sample in samples.items()
        },
        benchmark="train",
        case=f"{size}, batches of {arguments.tokens_per_batch:,} tokens of {arguments.name}",
        unit="target tokens/s",
        peaks=peaks,
    )
    publish(rows, arguments)


def contenders(arguments: TrainArguments, loaded: "LoadedModel", directory: Path) -> list[Entry]:
    """Who shall train, with all that they need to know."""
    target = loaded.tokenizer.target
    sizes = dataclasses.asdict(loaded.config.model)
    same = {"batches": str(directory / "batches.npz")}
    for_ours = same | {"workdir": str(directory / "workdir")}
    for_peers: dict[str, Any] = same | {
        "directory": str(directory / "marian"),
        "sizes": sizes | {"vocab_size": target.size, "bos_id": target.bos_id},
        "training": dataclasses.asdict(loaded.config.training),
    }
    choices = {"auto": [arguments.device == "gpu"], "no": [False], "yes": [True]}
    found = []
    for kind in arguments.contenders:
        for dtype in arguments.dtypes:
            if kind == "ours":
                found.append(Entry(f"ours {dtype}", OURS, for_ours | {"dtype": dtype}))
                continue
            needs = MARIAN if kind == "marian" else ("torch",)
            for compiled in choices.get(arguments.torch_compile, [False, True]):
                name = f"{kind} {dtype}{', compiled' if compiled else ''}"
                job = for_peers | {"kind": kind, "dtype": dtype, "compiled": compiled}
                found.append(Entry(name, PYTORCH, job, needs))
    return found


def useful_operations(loaded: "LoadedModel", batches: Sequence[Batch]) -> float:
    """Floating-point operations of forward and backward pass that real tokens need, over batches.

    Those of a whole batch, by its jaxpr, times the share of its cells that hold a token.
    """
    from flaxformer_mt.inspection.costs import count_costs
    from flaxformer_mt.training.optimizer import make_optimizer

    optimizer = make_optimizer(loaded.config.training, loaded.config.model.d_model)
    shapes = [shape_of(batch) for batch in batches]
    of_shape = {
        shape: count_costs(loaded.model, optimizer, shape).gradient for shape in set(shapes)
    }
    shares = [
        ((batch.inputs_segment_ids != 0).sum() + (batch.targets_segment_ids != 0).sum())
        / (batch.inputs.size + batch.targets.size)
        for batch in batches
    ]
    return sum(of_shape[shape] * float(share) for shape, share in zip(shapes, shares, strict=True))


if __name__ == "__main__":
    sys.exit(main())
