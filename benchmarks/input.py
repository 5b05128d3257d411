"""The data pipeline alone, pairs/s: `python -m benchmarks.input --data FOLDER`.

From token ids that were cut once, and from text that is cut anew each epoch (subword sampling), in
buckets and packed, prepared by a thread on one core or by worker processes on all of them. And how
long a training step waits for its batch. A round is whole epochs, their planning included.
"""

import dataclasses
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from benchmarks.rounds import Entry, Sample, Settings, alternate, pin, ready, say
from benchmarks.table import Row, make_rows, publish
from benchmarks.task import Size, Text, make_config, one_of_each, untrained, use_cpu, write_batches
from flaxformer_mt.cli import guard, parse_arguments
from flaxformer_mt.config import Config, to_json
from flaxformer_mt.data.pipeline import DataConfig

Cut = Literal["once", "anew"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class InputArguments(Settings, Text):
    """How fast batches come, and how long a training step waits for them."""

    workers: tuple[int, ...] = (0, 1, 2)
    """Processes that prepare batches; 0 = a thread, on the first of the CPUs alone."""
    cut: tuple[Cut, ...] = ("once", "anew")
    """Whether text is cut into tokens once, or anew each epoch."""
    batching: tuple[Literal["bucket", "pack"], ...] = ("bucket", "pack")
    """How pairs become batches."""
    epochs: int = 2
    """Of a round."""
    size: Size = "small"
    """The model whose steps wait."""
    dtypes: tuple[Literal["float32", "bfloat16"], ...] = ("float32",)
    """In which precision."""
    steps: int = 16
    """Of a round of training; 0 = train nothing."""


def main(args: list[str] | None = None) -> int:
    """Exit status."""

    def parse_and_measure() -> None:
        measure(parse_arguments(InputArguments, args, verb="input", package="benchmarks"))

    return guard(parse_and_measure)


def measure(arguments: InputArguments) -> None:
    """A table for each way of batching, and one of waiting."""
    pin(arguments.cpus)
    use_cpu()
    for batching in arguments.batching:
        with tempfile.TemporaryDirectory(prefix="benchmark-") as directory:
            publish(measure_pipeline(batching, arguments, Path(directory)), arguments)
    if arguments.steps:
        with tempfile.TemporaryDirectory(prefix="benchmark-") as directory:
            publish(measure_waiting(arguments, Path(directory)), arguments)


def measure_pipeline(
    batching: Literal["bucket", "pack"], arguments: InputArguments, directory: Path
) -> list[Row]:
    """Pairs/s, by how text is cut and how many workers there are."""
    entries = []
    for cut in arguments.cut:
        for workers in arguments.workers:
            config = configure(arguments, batching, cut, workers)
            job = {
                "config": to_json(config),
                "tokenizer": str(directory / "tokenizer"),
                "epochs": arguments.epochs,
                "one_core": not workers,
            }
            name = f"ours, cut {cut}, {workers or 'no'} worker{'s' * (workers != 1)}"
            entries.append(Entry(name, "benchmarks.contenders.ours:Pipeline", job))
    rounds = [once_each(entries, directory, arguments) for _ in range(arguments.repeats)]
    samples = {entry.name: Sample([], []) for entry in entries}
    for found in rounds:
        for name, sample in found.items():
            samples[name].answers.extend(sample.answers)
            samples[name].busy.extend(sample.busy)
    facts = {name: sample.answers[0] for name, sample in samples.items()}
    return make_rows(
        samples,
        min(fact["pairs"] for fact in facts.values()),
        facts={},
        settings=arguments,
        details={
            name: {"padding": f"{fact['padding']:.1%}", "shapes": fact["shapes"]}
            for name, fact in facts.items()
        },
        benchmark="input",
        case=f"{batching}, batches of {arguments.tokens_per_batch:,} tokens of {arguments.name}",
        unit="pairs/s",
    )


def once_each(
    entries: Sequence[Entry], directory: Path, arguments: InputArguments
) -> dict[str, Sample]:
    """A round in which each contender is started anew, and ends before the next one starts."""
    samples = {}
    for entry in entries:
        with ready([entry], directory, arguments) as children:
            samples |= alternate(children, dataclasses.replace(arguments, repeats=1))
    return samples


def measure_waiting(arguments: InputArguments, directory: Path) -> list[Row]:
    """The share of a training step that waits for the pipeline."""
    say(f"{arguments.size}: preparing batches and weights")
    config = make_config(arguments.size, arguments.data_config())
    _, data = untrained(config, directory / "workdir")
    write_batches(directory / "batches.npz", one_of_each(data))
    entries = [
        Entry(
            f"ours {dtype}",
            "benchmarks.contenders.ours:TrainingFromPipeline",
            {
                "workdir": str(directory / "workdir"),
                "batches": str(directory / "batches.npz"),
                "dtype": dtype,
                "steps": arguments.steps,
            },
        )
        for dtype in arguments.dtypes
    ]
    with ready(entries, directory, arguments) as children:
        samples = alternate(children, arguments)
    return make_rows(
        samples,
        arguments.steps,
        facts={child.name: child.ready for child in children},
        settings=arguments,
        details={name: {"waiting": f"{waiting(sample):.2%}"} for name, sample in samples.items()},
        benchmark="input",
        case=f"training {arguments.size} from the pipeline, {arguments.name}",
        unit="updates/s",
    )


def waiting(sample: Sample) -> float:
    """Share of the time of a round in which the loop waited for its next batch."""
    return statistics.median(answer["waited"] / answer["seconds"] for answer in sample.answers)


def configure(
    arguments: InputArguments, batching: Literal["bucket", "pack"], cut: Cut, workers: int
) -> Config:
    """As `train` is told."""
    data: DataConfig = arguments.data_config()
    tokenizer = dataclasses.replace(data.tokenizer, sampling_alpha=0.1 if cut == "anew" else 0.0)
    data = dataclasses.replace(data, batching=batching, num_workers=workers, tokenizer=tokenizer)
    return make_config(arguments.size, data)


if __name__ == "__main__":
    sys.exit(main())
