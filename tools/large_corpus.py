"""Writes a large corpus from a small one, and measures how training starts on a prepared one.

    python -m tools.large_corpus write --source A.en --target A.fr --pairs 1000000 --output DIR
    python -m tools.large_corpus start --prepared PREPARED

`docs/scale.md` has the commands in between, and the results.
"""

import argparse
import dataclasses
import itertools
import resource
import tempfile
import time
from pathlib import Path

from flaxformer_mt.config import load_config
from flaxformer_mt.data.pipeline import build_data
from flaxformer_mt.data.sources.corpora import CorpusConfig, read_corpora


def write(source: Path, target: Path, pairs: int, output: Path) -> None:
    """Writes all pairs again and again, each with its number, so that no two are equal."""
    config = CorpusConfig(source=(str(source),), target=(str(target),))
    (text,) = read_corpora(config, "", ("", ""))
    output.mkdir(parents=True, exist_ok=True)
    with (
        open(output / "source.txt", "w", encoding="utf-8", newline="\n") as sources,
        open(output / "target.txt", "w", encoding="utf-8", newline="\n") as targets,
    ):
        for count, pair in enumerate(itertools.islice(itertools.cycle(text), pairs)):
            sources.write(f"{pair.source} {count}\n")
            targets.write(f"{pair.target} {count}\n")


def start(prepared: Path) -> None:
    """Prints time and memory until the first batch, and until the last batch of the epoch.

    The time of the last batch is that of a resume there.
    """
    config = load_config(str(prepared / "config.json")).data
    config = dataclasses.replace(config, prepared=str(prepared))
    with tempfile.TemporaryDirectory() as folder:
        _report("imported", began := (time.process_time(), time.perf_counter()))
        data = build_data(config, tokenizer_directory=f"{folder}/tokenizer", seed=0)
        _report("data built", began)
        data.epochs.plan(0).batch(0)
        _report("first batch", began)
        began = (time.process_time(), time.perf_counter())
        last = data.epochs.plan(data.epochs.num_parts - 1)
        last.batch(len(last) - 1)
        _report("last batch of the epoch", began)
        print(f"{len(data.epochs.pairs):,} pairs in {data.epochs.num_parts} parts of an epoch")


def _report(what: str, began: tuple[float, float]) -> None:
    cpu, clock = time.process_time() - began[0], time.perf_counter() - began[1]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{what:<24} {cpu:6.1f} s of CPU, {clock:6.1f} s of the clock, {peak:6.0f} MB at most")


def main() -> None:
    """Runs one of the two commands."""
    parser = argparse.ArgumentParser(description="Large corpora for measurements.")
    commands = parser.add_subparsers(required=True)
    writing = commands.add_parser("write")
    for name in ("--source", "--target", "--output"):
        writing.add_argument(name, type=Path, required=True)
    writing.add_argument("--pairs", type=int, required=True)
    writing.set_defaults(run=write)
    starting = commands.add_parser("start")
    starting.add_argument("--prepared", type=Path, required=True)
    starting.set_defaults(run=start)
    arguments = vars(parser.parse_args())
    arguments.pop("run")(**arguments)


if __name__ == "__main__":
    main()
