"""Rows as JSON lines and as Markdown: `python -m benchmarks.table FILE...` prints recorded rows."""

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

import tyro

from benchmarks.rounds import Sample, Settings, psutil, ratios
from flaxformer_mt.cli import command
from flaxformer_mt.runtime.host import num_cpus

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
    """The result of one contender in one case.

    Attributes:
      benchmark: the script.
      case: the model, the search and the data.
      contender: its name.
      unit: of `value`.
      values: one for each round.
      value: their median.
      ratios: how many times as fast it is as each other one: the median over the rounds.
      fraction_of_limit: value / the best value that the machine allows, if that is known.
      peak_memory: bytes of the process, or of the device.
      compile_seconds: time of compilation before the first round, if something is compiled.
      compilations: number of compiled programs.
      busy: the largest percentage of the CPUs that other processes used before a round.
      quiet: whether this percentage was below the limit before each round.
      details: further results.
      run: date, machine, versions, command.
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
    """Returns one row for each contender.

    Args:
      samples: of each contender.
      amount: work of a round: value = amount / seconds. None: the value is the seconds.
      settings: options of the measurement.
      limits: the best value that the machine allows each contender, where it is known.
      details: further results of each.
      peaks: the machine's peak rates.
      same: fields with the same value in all rows.
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
        limit = (limits or {}).get(name)
        rows.append(
            Row(
                contender=name,
                values=values,
                value=value,
                ratios=ratio[name],
                fraction_of_limit=value / limit if limit else None,
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
    """Returns date, command, machine and versions."""
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
    """Returns the processor with its family: virtual machines say no more than "AMD EPYC"."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    fields = {name.strip(): value.strip() for name, _, value in (x.partition(":") for x in lines)}
    if "model name" not in fields:
        return platform.processor()
    family, model = fields.get("cpu family", "?"), fields.get("model", "?")
    return f"{fields['model name']}, family {family} model {model}"


def publish(rows: Sequence[Row], settings: Settings) -> None:
    """Prints the table of the rows, and appends the rows to the file."""
    print(markdown(rows), flush=True)
    file = Path(settings.out or CACHE / f"{rows[0].benchmark}.jsonl")
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as lines:
        for row in rows:
            lines.write(json.dumps(dataclasses.asdict(row)) + "\n")


def read(files: Iterable[str]) -> list[Row]:
    """Returns the newest row of each contender, case and machine in several files.

    Raises:
      ValueError: a line is no row, or there is no row.
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
    """Returns benchmark, case and machine; rows with the same ones are in one table."""
    on = (str(row.run.get(name, "")) for name in ("device", "accelerator", "cpu", "cpus"))
    return row.benchmark, row.case, *on


def markdown(rows: Sequence[Row]) -> str:
    """Returns a table for each case, with a line for each contender."""
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
    """Yields date, machine, versions and command of each run that the rows come from."""
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
    """Returns the cells by column; `compared` are the rows of ours that get a column of ratios."""
    times = {
        f"{one.contender} / this": f"**{one.ratios[row.contender]:.2f}**"
        if row.contender in one.ratios  # not itself, and of the same run
        else ""
        for one in compared
    }
    limit, compilations = row.fraction_of_limit, row.compilations
    return {
        "contender": row.contender,
        row.unit: _number(row.value),
        "min - max": f"{_number(min(row.values))} - {_number(max(row.values))}",
        **times,
        "of the machine's limit": "" if limit is None else f"{limit:.0%}",
        "memory, MB": f"{row.peak_memory / 1e6:,.0f}" if row.peak_memory else "",
        "compiled": ""
        if compilations is None
        else f"{compilations} in {row.compile_seconds:.0f} s",
        **{name: _number(value) for name, value in row.details.items()},
        "not quiet": "" if row.quiet else f"{row.busy:.0f} %",
    }


def _number(value: Any) -> str:
    """Returns a number with three digits or more."""
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableArguments:
    """Print recorded rows as tables."""

    files: Annotated[tuple[str, ...], tyro.conf.Positional]
    """Files that the benchmarks wrote: JSON lines."""


def print_tables(arguments: TableArguments) -> None:
    """Prints the rows of the files as tables."""
    print(markdown(read(arguments.files)), flush=True)


main = command("table", TableArguments, print_tables, package="benchmarks")


if __name__ == "__main__":
    sys.exit(main())
