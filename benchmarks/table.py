"""Rows as JSON lines and as Markdown: `python -m benchmarks.table FILE...` makes the README's."""

import contextlib
import dataclasses
import datetime
import json
import platform
import shlex
import statistics
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any

import psutil
import tyro

from benchmarks.rounds import Sample, Settings, ratios
from flaxformer_mt.cli import command
from flaxformer_mt.runtime.cpus import num_cpus

PACKAGES = (
    "flaxformer_mt",
    "jax",
    "jaxlib",
    "flax",
    "numpy",
    "torch",
    "transformers",
    "ctranslate2",
)
CACHE = Path(".cache/benchmarks")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """What one contender reached in one case.

    Attributes:
      benchmark: the script.
      case: what was done: the model, the search, the data.
      contender: who did it.
      unit: of `value`.
      values: one for each round.
      value: their median.
      ratios: how many times as fast it is as each other one: the median over the rounds.
      fraction_of_limit: share of what the machine can do at best, where that is known.
      peak_memory: bytes of the process, or of the device.
      compile_seconds: what compiling took before the first round, where something is compiled.
      compilations: how many programs that were.
      busy: the largest percentage of the CPUs that other processes took before a round.
      quiet: whether that was little each time.
      details: what else was found.
      run: when, where, with what.
    """

    benchmark: str
    case: str
    contender: str
    unit: str
    values: list[float]
    value: float
    ratios: dict[str, float]
    fraction_of_limit: float | None = None
    peak_memory: int = 0
    compile_seconds: float | None = None
    compilations: int | None = None
    busy: float = 0.0
    quiet: bool = True
    details: dict[str, Any] = dataclasses.field(default_factory=dict)
    run: dict[str, Any] = dataclasses.field(default_factory=dict)


def make_rows(
    samples: Mapping[str, Sample],
    amount: float | None,
    *,
    settings: Settings,
    limits: Mapping[str, float] | None = None,
    details: Mapping[str, Mapping[str, Any]] | None = None,
    peaks: Mapping[str, float] | None = None,
    **same: Any,
) -> list[Row]:
    """One row for each contender.

    Args:
      samples: what each did, and what compiling took as it told when it was warm.
      amount: what a round yields: value = amount / seconds. None: the value is the seconds.
      settings: how it was measured.
      limits: the value that each could have at best on this machine.
      details: of each.
      peaks: what the machine can do at best.
      same: fields that all rows have alike.
    """
    ratio, warm = ratios(samples), [sample.ready for sample in samples.values()]
    run = describe_run(settings) | {
        "peaks": dict(peaks or {}),
        "accelerator": next((it["accelerator"] for it in warm if "accelerator" in it), ""),
    }
    rows = []
    for name, sample in samples.items():
        values = sample.seconds if amount is None else [amount / each for each in sample.seconds]
        value, busy = statistics.median(values), max(sample.busy)
        rows.append(
            Row(
                contender=name,
                values=values,
                value=value,
                ratios=ratio[name],
                fraction_of_limit=value / limits[name] if limits else None,
                peak_memory=max(answer.get("peak_memory", 0) for answer in sample.answers),
                compile_seconds=sample.ready.get("compile_seconds"),
                compilations=sample.ready.get("compilations"),
                busy=busy,
                quiet=busy < settings.busy,
                details=dict((details or {}).get(name, {})),
                run=run,
                **same,
            )
        )
    return rows


def describe_run(settings: Settings) -> dict[str, Any]:
    """When, where and with what."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            versions[package] = version(package)
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": shlex.join(
            ["python", "-m", f"benchmarks.{Path(sys.argv[0]).stem}", *sys.argv[1:]]
        ),
        "device": settings.device,
        "cpu": _cpu_model(),
        "cpus": num_cpus(),
        "memory": psutil.virtual_memory().total,
        "versions": versions,
    }


def _cpu_model() -> str:
    """With its generation, since virtual machines name no more than "AMD EPYC"."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    fields = {name.strip(): value.strip() for name, _, value in (x.partition(":") for x in lines)}
    if "model name" not in fields:
        return platform.processor()
    family, model = fields.get("cpu family", "?"), fields.get("model", "?")
    return f"{fields['model name']}, family {family} model {model}"


def publish(rows: Sequence[Row], settings: Settings) -> None:
    """Prints the table of the rows, and appends them to the file."""
    print(markdown(rows), flush=True)
    file = Path(settings.out or CACHE / f"{rows[0].benchmark}.jsonl")
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as lines:
        for row in rows:
            lines.write(json.dumps(dataclasses.asdict(row)) + "\n")


def read(files: Iterable[str]) -> list[Row]:
    """The rows of several files: of each contender in each case on each machine the newest.

    Raises:
      ValueError: a line is no row, or there is none.
    """
    newest: dict[tuple[str, ...], Row] = {}
    for file in files:
        for number, line in enumerate(Path(file).read_bytes().splitlines(), start=1):
            try:
                row = Row(**json.loads(line))
            except (ValueError, TypeError) as error:
                raise ValueError(
                    f"{file}, line {number}, is no row of a benchmark: {error}"
                ) from error
            newest[*case_of(row), row.contender] = row
    if not newest:
        raise ValueError("no row: name files that benchmarks wrote, such as .cache/benchmarks/*")
    return list(newest.values())


def case_of(row: Row) -> tuple[str, ...]:
    """What was done, and on what: rows that have both alike stand in one table."""
    on = (str(row.run.get(name, "")) for name in ("device", "accelerator", "cpu", "cpus"))
    return row.benchmark, row.case, *on


def markdown(rows: Sequence[Row]) -> str:
    """A table for each case: who, how fast, how ours compares, at what cost."""
    cases: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        cases.setdefault(case_of(row), []).append(row)
    return "\n".join(map(_case, cases.values()))


def _case(rows: Sequence[Row]) -> str:
    ours = [row for row in rows if row.contender.startswith("ours")]
    compared = ours if len(ours) < len(rows) else []
    table = [_cells(row, compared) for row in rows]
    names = dict.fromkeys(name for cells in table for name in cells)
    header = [name for name in names if any(cells.get(name) for cells in table)]
    lines = [header, ["---", *["---:"] * (len(header) - 1)]]
    lines += [[cells.get(name, "") for name in header] for cells in table]
    text = (" | ".join(cells) for cells in lines)
    head = [f"**{rows[0].benchmark}: {rows[0].case}**", "", *(f"| {line} |" for line in text), ""]
    return "\n".join([*head, *_footers(rows)])


def _footers(rows: Sequence[Row]) -> Iterator[str]:
    """When, where and with what: of each run that the rows come from."""
    runs: dict[str, list[Row]] = {}
    for row in rows:
        runs.setdefault(json.dumps(row.run), []).append(row)
    for of_run in runs.values():
        run = of_run[0].run
        who = ", ".join(row.contender for row in of_run) + ": " if len(runs) > 1 else ""
        cpus = f"{run['cpus']} CPU{'s' * (run['cpus'] > 1)} ({run['cpu']})"
        machine = ", ".join(filter(None, [run.get("accelerator"), cpus]))
        packages = ", ".join(f"{name} {number}" for name, number in run["versions"].items())
        peaks = ", ".join(f"{name} {peak / 1e9:,.0f} G/s" for name, peak in run["peaks"].items())
        at_best = f"; at best {peaks}" if peaks else ""
        yield from (f"{who}{run['date'][:10]}, {machine}; {packages}{at_best}", "")
        yield from (f"    {run['command']}", "")


def _cells(row: Row, compared: Sequence[Row]) -> dict[str, str]:
    """By column; `compared` are those of ours that are compared with each other row."""
    times = {
        f"{one.contender} is": f"{one.ratios[row.contender]:.2f} x"
        if row.contender in one.ratios  # not itself, nor one of another run
        else ""
        for one in compared
    }
    limit, compilations = row.fraction_of_limit, row.compilations
    return {
        "contender": row.contender,
        row.unit: _number(row.value),
        "least - most": f"{_number(min(row.values))} - {_number(max(row.values))}",
        **times,
        "of the limit": "" if limit is None else f"{limit:.0%}",
        "memory, MB": f"{row.peak_memory / 1e6:,.0f}" if row.peak_memory else "",
        "compiled": ""
        if compilations is None
        else f"{compilations} in {row.compile_seconds:.0f} s",
        **{name: _number(value) for name, value in row.details.items()},
        "not quiet": "" if row.quiet else f"{row.busy:.0f} %",
    }


def _number(value: Any) -> str:
    """Three digits or more."""
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableArguments:
    """Tables as the README has them."""

    files: Annotated[tuple[str, ...], tyro.conf.Positional]
    """What the benchmarks wrote: JSON lines."""


def print_tables(arguments: TableArguments) -> None:
    """Print the records of the files as tables."""
    print(markdown(read(arguments.files)), flush=True)


main = command("table", TableArguments, print_tables, package="benchmarks")


if __name__ == "__main__":
    sys.exit(main())
