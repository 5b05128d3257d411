"""A B C, A B C, ...: contenders one after the other, in rounds, on a quiet machine.

What slows a machine down for a while slows all contenders of a round alike. So a ratio is the
median of the ratios within rounds, never the ratio of two medians.
"""

import contextlib
import dataclasses
import os
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from benchmarks.child import Answer, Child, Device


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """How to measure, whatever is measured."""

    repeats: int = 5
    """Rounds."""
    cpus: tuple[int, ...] = ()
    """Numbers of the CPUs to use, such as 0 1; none = all that are allowed."""
    device: Device = "cpu"
    """What contenders work on."""
    busy: float = 10.0
    """The machine is quiet if other processes take less than this percentage of the CPUs."""
    wait: float = 60.0
    """Seconds to wait at most, before each measurement, until it is. It is measured then all the
    same, and the row tells."""
    out: str = ""
    """File to append the rows to; empty = .cache/benchmarks/NAME.jsonl."""

    def __post_init__(self) -> None:
        if self.repeats < 1:
            raise ValueError(f"repeats must be at least 1, got {self.repeats}")


class Entry(NamedTuple):
    """A contender that is to be started."""

    name: str
    contender: str
    """Its class, as "package.module:Class"."""
    job: dict[str, Any]
    """Keywords of the class."""
    needs: tuple[str, ...] = ()
    """Packages of the extra [bench]; without them it is left out."""


@dataclasses.dataclass(frozen=True)
class Sample:
    """What one contender did in all rounds."""

    answers: list[Answer]
    busy: list[float]
    """Percentage of the CPUs that other processes took, just before each round."""


def alternate(children: Sequence[Child], settings: Settings, **request: Any) -> dict[str, Sample]:
    """Asks each contender in turn, `settings.repeats` times, and waits for quiet before each."""
    samples = {child.name: Sample([], []) for child in children}
    for number in range(settings.repeats):
        for child in children:
            samples[child.name].busy.append(wait_until_quiet(settings))
            answer = child.ask(**request)
            samples[child.name].answers.append(answer)
            say(f"  round {number + 1}, {child.name}: {answer.get('seconds', 0):.2f} s")
    return samples


def ratios(samples: Mapping[str, Sample]) -> dict[str, dict[str, float]]:
    """How many times as fast each is as each other one: the median of that over the rounds."""
    seconds = {
        name: [answer["seconds"] for answer in sample.answers] for name, sample in samples.items()
    }
    return {
        name: {
            other: statistics.median(b / a for a, b in zip(mine, theirs, strict=True))
            for other, theirs in seconds.items()
            if other != name
        }
        for name, mine in seconds.items()
    }


def wait_until_quiet(settings: Settings) -> float:
    """Waits until others take little of our CPUs for a second, or `settings.wait` seconds.

    Returns the percentage that they took last.
    """
    end = time.monotonic() + settings.wait
    while True:
        load: Any = psutil.cpu_percent(interval=1.0 if settings.wait else 0.1, percpu=True)
        busy = statistics.mean(load[cpu] for cpu in allowed_cpus())
        if busy < settings.busy or time.monotonic() >= end:
            return busy


def pin(cpus: Sequence[int]) -> None:
    """Keeps this process, and all that it starts, on these CPUs; none = changes nothing.

    Raises ValueError for one that is not there.
    """
    if not cpus:
        return
    try:
        os.sched_setaffinity(0, cpus)
    except (OSError, AttributeError) as error:
        raise ValueError(f"cannot use the CPUs {cpus}: there are {allowed_cpus()}") from error


def allowed_cpus() -> list[int]:
    """Numbers of the CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # Linux
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


@contextlib.contextmanager
def ready(entries: Sequence[Entry], directory: Path, settings: Settings) -> Iterator[list[Child]]:
    """All contenders that can run here, started one after the other; ended with the block.

    What they print is in `directory`.
    """
    children: list[Child] = []
    try:
        for entry in entries:
            if not installed(*entry.needs):
                say(f"  {entry.name} is left out: pip install -e '.[bench]'")
                continue
            say(f"  {entry.name} gets ready")
            log = directory / f"{entry.name}.log"
            children.append(Child(*entry[:3], log=log, device=settings.device))
        yield children
    finally:
        for child in children:
            child.close()


def installed(*packages: str) -> bool:
    """Whether all of them can be imported."""
    return all(find_spec(package) for package in packages)


def say(line: str) -> None:
    """For who waits; tables alone go to the standard output."""
    print(line, file=sys.stderr, flush=True)
