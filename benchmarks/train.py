"""Speed of training in target tokens/s: `python -m benchmarks.train --size small --data FOLDER`.

All have the same batches, dropout 0.1 on sub-layers, label smoothing 0.1, Adam and clipping, and
all but `nn.Transformer` the same weights. Padding does not count.
"""

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from benchmarks import limits
from benchmarks.child import Entry
from benchmarks.contenders.given import shape_of, write
from benchmarks.rounds import Settings, compete, say, workplace
from benchmarks.table import make_rows, publish
from benchmarks.task import (
    NEEDS,
    Size,
    Text,
    export,
    make_config,
    sample_batches,
    target_tokens,
    untrained,
)
from flaxformer_mt.checkpoints.loading import LoadedModel
from flaxformer_mt.cli import command
from flaxformer_mt.data.batching.batch import Batch
from flaxformer_mt.inspection.flops import training_flops

OURS = "benchmarks.contenders.ours:Training"
PYTORCH = "benchmarks.contenders.pytorch:Training"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainArguments(Settings, Text):
    """Compare the training speed of ours, PyTorch's nn.Transformer and Hugging Face Marian."""

    size: tuple[Size, ...] = ("small",)
    """Models: small is 256 wide with 3+3 layers; base (512, 6+6) and big are the paper's."""
    contenders: tuple[Literal["ours", "torch", "marian"], ...] = ("ours", "torch", "marian")
    """The contenders; torch is nn.Transformer, marian Hugging Face's. Those not installed are left
    out."""
    dtypes: tuple[Literal["float32", "bfloat16"], ...] = ("float32", "bfloat16")
    """Precisions of each contender."""
    torch_compile: Literal["auto", "no", "yes", "both"] = "auto"
    """Whether PyTorch uses torch.compile; auto = on a GPU."""
    batches: int = 8
    """Batches of a round."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check("size", "contenders", "dtypes", batches=1, tokens_per_batch=1)


def measure(arguments: TrainArguments) -> None:
    """Prints a table for each size."""
    for size in arguments.size:
        with workplace(arguments) as directory:
            measure_size(size, arguments, directory)


def measure_size(size: Size, arguments: TrainArguments, directory: Path) -> None:
    """Prepares the task, measures all contenders and publishes the rows."""
    say(f"{size}: preparing batches and weights")
    loaded, data = untrained(make_config(size, arguments.data_config()), directory / "workdir")
    batches = sample_batches(data, arguments.batches)
    same = {"batches": write(directory / "batches", batches)}
    entries = [*limits.ENTRIES, *contenders(arguments, loaded, same, directory)]
    samples = compete(entries, directory, arguments)
    peaks = limits.take_best(samples)
    tokens, operations = target_tokens(batches), useful_operations(loaded, batches)
    rows = make_rows(
        samples,
        tokens,
        settings=arguments,
        limits={
            name: tokens / operations * peaks["bfloat16" if "bfloat16" in name else "float32"]
            for name in samples
        },
        details={
            name: {
                "first loss": round(sample.ready["first_loss"], 3),
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


def contenders(
    arguments: TrainArguments, loaded: LoadedModel, same: dict[str, Any], directory: Path
) -> list[Entry]:
    """Returns the contenders with their jobs: the `same` files for all, and their own."""
    target = loaded.tokenizer.target
    sizes = dataclasses.asdict(loaded.config.model)
    for_ours = same | {"workdir": str(directory / "workdir")}
    for_peers: dict[str, Any] = same | {
        "sizes": sizes | {"vocab_size": target.size, "bos_id": target.bos_id},
        "training": dataclasses.asdict(loaded.config.training),
    }
    choices = {"auto": [arguments.device == "gpu"], "no": [False], "yes": [True]}
    found = []
    for kind in arguments.contenders:
        if kind == "ours":
            for dtype in arguments.dtypes:
                found.append(Entry(f"ours {dtype}", OURS, for_ours | {"dtype": dtype}))
            continue
        weights = export(loaded, kind, directory) if kind == "marian" else ""
        for dtype in arguments.dtypes:
            for compiled in choices.get(arguments.torch_compile, [False, True]):
                name = f"{kind} {dtype}{', compiled' if compiled else ''}"
                job = for_peers | {"weights": weights, "dtype": dtype, "compiled": compiled}
                found.append(Entry(name, PYTORCH, job, NEEDS[kind]))
    return found


def useful_operations(loaded: LoadedModel, batches: Sequence[Batch]) -> float:
    """Returns the FLOPs that real tokens need in forward and backward passes over the batches.

    They are the FLOPs of a batch by its jaxpr, times the share of its cells with a token.
    """
    shapes = [shape_of(batch) for batch in batches]
    of_shape = {shape: training_flops(loaded.model, shape) for shape in set(shapes)}
    shares = [
        ((batch.inputs_segment_ids != 0).sum() + (batch.targets_segment_ids != 0).sum())
        / (batch.inputs.size + batch.targets.size)
        for batch in batches
    ]
    return sum(of_shape[shape] * float(share) for shape, share in zip(shapes, shares, strict=True))


main = command("train", TrainArguments, measure, package="benchmarks")

if __name__ == "__main__":
    sys.exit(main())
