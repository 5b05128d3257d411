"""Measures contenders alternately, in rounds (A B C, A B C, ...), on a quiet machine.

If the machine is slow for a while, all contenders of a round are slow. So a ratio is the median of
the ratios within rounds, never the ratio of two medians.
"""

import contextlib
import dataclasses
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.child import Answer, Child, Device, Entry
from flaxformer_mt.runtime.host import allowed_cpus

try:
    import psutil
except ModuleNotFoundError as error:
    raise SystemExit("error: benchmarks need psutil: pip install -e '.[bench]'") from error


T = TypeVar("T")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """The options that all benchmarks have."""

    repeats: int = 5
    """Number of rounds."""
    cpus: tuple[int, ...] = ()
    """Numbers of the CPUs to use, such as 0 1; none = all that are allowed."""
    device: Device = "cpu"
    """Device of the contenders."""
    busy: float = 10.0
    """The machine is quiet if other processes use less than this percentage of the CPUs."""
    wait: float = 60.0
    """Limit of seconds to wait for a quiet machine before each round. After this time the round is
    measured, and the row says that the machine was busy."""
    out: str = ""
    """File to append the rows to; empty = .cache/benchmarks/NAME.jsonl."""

    def __post_init__(self) -> None:
        self.check(repeats=1)

    def check(self, *some: str, **least: int) -> None:
        """Raises ValueError if one of these fields is empty or below its `least` value."""
        for name in some:
            if not getattr(self, name):
                raise ValueError(f"{name}: name one at least")
        for name, smallest in least.items():
            value = getattr(self, name)
            values = value if isinstance(value, tuple) else (value,)
            if not values or min(values) < smallest:
                raise ValueError(f"{name} must be at least {smallest}, got {value}")


@dataclasses.dataclass(frozen=True)
class Sample:
    """The results of one contender in all rounds."""

    ready: Answer
    """Its answer after the warm-up."""
    answers: list[Answer] = dataclasses.field(default_factory=list)
    busy: list[float] = dataclasses.field(default_factory=list)
    """Percentage of the CPUs that other processes used just before each round."""

    @property
    def seconds(self) -> list[float]:
        """The seconds of each round."""
        return [answer["seconds"] for answer in self.answers]


@contextlib.contextmanager
def workplace(settings: Settings) -> Iterator[Path]:
    """Yields a temporary folder. Pins this process to its CPUs, and hides accelerators from it.

    Raises OSError if the rows could not be written later.
    """
    import jax

    jax.config.update("jax_platforms", "cpu")  # accelerators are for the contenders
    pin(settings.cpus)
    if settings.out:
        Path(settings.out).parent.mkdir(parents=True, exist_ok=True)
        Path(settings.out).open("a").close()
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        with tempfile.TemporaryDirectory(prefix="benchmark-") as directory:
            yield Path(directory)
    finally:
        signal.signal(signal.SIGTERM, before)


def compete(entries: Sequence[Entry], directory: Path, settings: Settings) -> dict[str, Sample]:
    """Returns the samples of all contenders that can run here, measured alternately."""
    with ready(entries, directory, settings) as children:
        return alternate(children, settings)


def compete_alone(
    entries: Sequence[Entry], directory: Path, settings: Settings
) -> dict[str, Sample]:
    """Returns the samples of contenders that are started again in each round, one at a time."""
    samples: dict[str, Sample] = {}
    left = _startable(entries)
    for _ in range(settings.repeats):
        for entry in tuple(left):
            with (
                _left_out_if_it_fails(entry, left),
                contextlib.closing(_start(entry, directory, settings)) as child,
            ):
                child.wait_until_ready()
                _take_turn(child, samples, settings)
    return _whole(samples, settings)


@contextlib.contextmanager
def ready(entries: Sequence[Entry], directory: Path, settings: Settings) -> Iterator[list[Child]]:
    """Yields all contenders that can run here, and ends them at the exit.

    On CPUs they get ready one after the other. On a GPU, for which compilation takes minutes, they
    get ready at the same time. Their output is in `directory`.

    Raises:
      ValueError: there is none (`limits` is no contender).
    """
    left = _startable(entries)
    with contextlib.ExitStack() as started:
        children: list[Child] = []
        for entry in left:
            children.append(_start(entry, directory, settings))
            started.callback(children[-1].close)
            if settings.device == "cpu":
                with _left_out_if_it_fails(children[-1], children):
                    children[-1].wait_until_ready()
        if settings.device == "gpu":
            for child in tuple(children):
                with _left_out_if_it_fails(child, children):
                    child.wait_until_ready()
        _check_who_is_left(child.name for child in children)
        yield children


def _startable(entries: Iterable[Entry]) -> list[Entry]:
    """Returns the entries whose packages are installed; of equal names only one."""
    found = []
    for entry in {entry.name: entry for entry in entries}.values():
        if installed(*entry.needs):
            found.append(entry)
        else:
            say(f"  {entry.name} is left out: pip install -e '.[bench]'")
    return found


def _start(entry: Entry, directory: Path, settings: Settings) -> Child:
    say(f"  {entry.name} gets ready")
    return Child(entry, log=directory / f"{entry.name}.log", device=settings.device)


def is_contender(name: str) -> bool:
    """Returns whether this is a contender, and not a measurement of the machine (`limits`)."""
    return not name.startswith("limits")


def _check_who_is_left(names: Iterable[str]) -> None:
    if not any(map(is_contender, names)):
        raise ValueError("no contender is left to measure")


def alternate(children: list[Child], settings: Settings, **request: Any) -> dict[str, Sample]:
    """Returns the samples of `settings.repeats` rounds in which each contender has one turn.

    A contender that fails is removed from `children`. Raises ValueError if all fail.
    """
    samples: dict[str, Sample] = {}
    for _ in range(settings.repeats):
        for child in tuple(children):
            with _left_out_if_it_fails(child, children):
                _take_turn(child, samples, settings, **request)
    return _whole(samples, settings)


def _whole(samples: Mapping[str, Sample], settings: Settings) -> dict[str, Sample]:
    """Returns the samples of the contenders that finished all rounds."""
    whole = {n: sample for n, sample in samples.items() if len(sample.answers) == settings.repeats}
    if any(map(is_contender, samples)) or not whole:
        _check_who_is_left(whole)
    return whole


def ask_each(children: list[Child], **request: Any) -> dict[str, Answer]:
    """Returns one answer of each contender, unmeasured; removes those that fail from `children`."""
    answers = {}
    for child in tuple(children):
        with _left_out_if_it_fails(child, children):
            answers[child.name] = child.ask(**request)
    return answers


@contextlib.contextmanager
def _left_out_if_it_fails(who: T, of: list[T]) -> Iterator[None]:
    """Removes a contender that fails from the list, so that the others continue."""
    try:
        yield
    except RuntimeError as error:
        say(f"  left out: {error}")
        of.remove(who)


def _take_turn(
    child: Child, samples: dict[str, Sample], settings: Settings, **request: Any
) -> None:
    """Waits for a quiet machine, and adds a round of one contender to its sample."""
    sample = samples.setdefault(child.name, Sample(child.ready))
    sample.busy.append(wait_until_quiet(settings))
    sample.answers.append(child.ask(**request))
    say(f"  round {len(sample.answers)}, {child.name}: {sample.seconds[-1]:.2f} s")


def ratios(samples: Mapping[str, Sample]) -> dict[str, dict[str, float]]:
    """Returns how many times as fast each is as each other one: the median over the rounds."""
    return {
        name: {
            other: statistics.median(
                b / a for a, b in zip(mine.seconds, theirs.seconds, strict=True)
            )
            for other, theirs in samples.items()
            if other != name
        }
        for name, mine in samples.items()
    }


def wait_until_quiet(settings: Settings) -> float:
    """Waits until other processes use little of our CPUs for a second, or `settings.wait` seconds.

    Returns the percentage that they used last.
    """
    end = time.monotonic() + settings.wait
    while True:
        load: Any = psutil.cpu_percent(interval=1.0 if settings.wait else 0.1, percpu=True)
        busy = statistics.mean(load[cpu] for cpu in allowed_cpus())
        if busy < settings.busy or time.monotonic() >= end:
            return busy


def pin(cpus: Sequence[int]) -> None:
    """Keeps this process and its children on these CPUs; none = changes nothing.

    Raises ValueError for a CPU that does not exist.
    """
    if not cpus:
        return
    if not hasattr(os, "sched_setaffinity"):
        raise ValueError("this system cannot keep a process on some CPUs; leave out --cpus")
    there = allowed_cpus()
    if not set(cpus) <= set(there):  # Linux would ignore the others
        raise ValueError(f"cannot use the CPUs {cpus}: there are {there}")
    os.sched_setaffinity(0, cpus)


def installed(*packages: str) -> bool:
    """Returns whether all of them can be imported."""
    return all(find_spec(package) for package in packages)


def say(line: str) -> None:
    """Prints progress on standard error; standard output has only the tables."""
    print(line, file=sys.stderr, flush=True)
