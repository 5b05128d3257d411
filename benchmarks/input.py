"""Speed of the data pipeline in pairs/s: `python -m benchmarks.input --data FOLDER`.

It measures text that is tokenized once and text that is tokenized again in each epoch (subword
sampling), bucketed and packed batches, a thread on one core and worker processes on all cores. It
also measures how long a training step waits for its batch. A round is a number of whole epochs,
including their planning.
"""

import dataclasses
import statistics
import sys
from pathlib import Path
from typing import Literal

from benchmarks.child import Entry
from benchmarks.contenders.given import write
from benchmarks.rounds import Sample, Settings, compete, compete_alone, say, workplace
from benchmarks.table import Row, make_rows, publish
from benchmarks.task import Size, Text, make_config, one_of_each, untrained
from flaxformer_mt.cli import command
from flaxformer_mt.config import Config, to_json

Batching = Literal["bucket", "pack"]
Tokenize = Literal["once", "each_epoch"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class InputArguments(Settings, Text):
    """Measure the speed of the data pipeline, and how long a training step waits for it."""

    workers: tuple[int, ...] = (0, 1, 2)
    """Processes that tokenize text in each epoch; 0 = a thread on the first CPU only."""
    tokenize: tuple[Tokenize, ...] = ("once", "each_epoch")
    """Whether text is tokenized once, or with subword sampling in each epoch."""
    batching: tuple[Batching, ...] = ("bucket", "pack")
    """How pairs become batches."""
    epochs: int = 2
    """Epochs of a round."""
    size: Size = "small"
    """The model that is trained."""
    dtypes: tuple[Literal["float32", "bfloat16"], ...] = ("float32",)
    """Precisions of the training."""
    steps: int = 16
    """Steps of a round of training; 0 = no training."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check("tokenize", "batching", workers=0, epochs=1, steps=0, tokens_per_batch=1)
        if self.steps:
            self.check("dtypes")


def measure(arguments: InputArguments) -> None:
    """Prints a table for each kind of batching, and one of waiting."""
    for batching in arguments.batching:
        with workplace(arguments) as directory:
            publish(measure_pipeline(batching, arguments, directory), arguments)
    if arguments.steps:
        with workplace(arguments) as directory:
            publish(measure_waiting(arguments, directory), arguments)


def measure_pipeline(batching: Batching, arguments: InputArguments, directory: Path) -> list[Row]:
    """Returns the pairs/s for each tokenization and number of workers.

    Each contender is started again in each round and ends before the next one starts, because it
    continues to prepare batches.
    """
    entries = []
    for tokenize in arguments.tokenize:
        for workers in arguments.workers if tokenize == "each_epoch" else (0,):
            job = {
                "config": to_json(configure(arguments, batching, tokenize, workers)),
                "tokenizer": str(directory / "tokenizer"),
                "epochs": arguments.epochs,
                "one_core": not workers,
            }
            when = tokenize.replace("_", " ")
            name = f"ours, tokenized {when}, {workers or 'no'} worker{'s' * (workers != 1)}"
            entries.append(Entry(name, "benchmarks.contenders.ours:Pipeline", job))
    samples = compete_alone(entries, directory, arguments)
    return make_rows(
        samples,
        min(sample.ready["pairs"] for sample in samples.values()),
        settings=arguments,
        details={
            name: {
                "padding": f"{sample.ready['padding']:.1%}",
                "shapes": sample.ready["shapes"],
            }
            for name, sample in samples.items()
        },
        benchmark="input",
        case=f"{batching}, batches of {arguments.tokens_per_batch:,} tokens of {arguments.name}",
        unit="pairs/s",
    )


def measure_waiting(arguments: InputArguments, directory: Path) -> list[Row]:
    """Returns the share of a training step that waits for the pipeline."""
    say(f"{arguments.size}: preparing batches and weights")
    config = make_config(arguments.size, arguments.data_config())
    workdir = directory / "workdir"
    _, data = untrained(config, workdir)
    batches = write(directory / "batches", one_of_each(data))
    job = {"workdir": str(workdir), "batches": batches, "steps": arguments.steps}
    contender = "benchmarks.contenders.ours:TrainingFromPipeline"
    entries = [
        Entry(f"ours {dtype}", contender, job | {"dtype": dtype}) for dtype in arguments.dtypes
    ]
    samples = compete(entries, directory, arguments)
    return make_rows(
        samples,
        arguments.steps,
        settings=arguments,
        details={name: {"waiting": f"{waiting(sample):.2%}"} for name, sample in samples.items()},
        benchmark="input",
        case=f"training {arguments.size} from the pipeline, {arguments.name}",
        unit="updates/s",
    )


def waiting(sample: Sample) -> float:
    """Returns the share of a round's time in which the loop waited for its next batch."""
    return statistics.median(answer["waited"] / answer["seconds"] for answer in sample.answers)


def configure(
    arguments: InputArguments, batching: Batching, tokenize: Tokenize, workers: int
) -> Config:
    """Returns the config of a training run."""
    data = arguments.data_config()
    alpha = 0.1 if tokenize == "each_epoch" else 0.0
    tokenizer = dataclasses.replace(data.tokenizer, sampling_alpha=alpha)
    data = dataclasses.replace(data, batching=batching, num_workers=workers, tokenizer=tokenizer)
    return make_config(arguments.size, data)


main = command("input", InputArguments, measure, package="benchmarks")

if __name__ == "__main__":
    sys.exit(main())
