"""Train several variants of one config and compare them: `python -m flaxformer_mt.sweep`.

A config file can define, beside `config`, a dict of variants by name (see configs/table_3.py). Each
is trained in a workdir of its own under the sweep's; those that are finished are not trained again,
so that a sweep can be stopped and goes on.
"""

import dataclasses
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flaxformer_mt.cli import command
from flaxformer_mt.config import Config, differences, load_variants, workdir_config
from flaxformer_mt.runtime.exit import leave

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclasses.dataclass(frozen=True, kw_only=True)
class SweepArguments:
    """Train variants of a config one after another, and write table.md, table.json and table.png.

    The same command goes on where it was stopped. The plot needs matplotlib (the [plots] extra).
    """

    config: str = "configs/table_3.py"
    """Python file that defines the variants: a dict of name to Config, the base model first."""
    variants: str = "variants"
    """The name of that dict in the file."""
    workdir: str = "runs/sweep"
    """Directory of the sweep: the tables, and a workdir for each variant."""
    only: tuple[str, ...] = ()
    """Train these variants alone, by their names. If not given, all."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """What one variant came to."""

    name: str
    changes: str
    """Fields of the config that differ from the first variant's."""
    parameters: int
    perplexity: float
    """Of the validation set, per target token, after the last step."""
    bleu: float
    """Of the validation set, after the last step."""
    tokens_per_second: float
    """Real (not padding) target tokens in training: the median over log lines."""
    minutes: float
    """From start to end, compilation and validation included."""


def sweep(arguments: SweepArguments) -> None:
    """Trains what is not yet trained; writes the table after each variant, the plot at the end."""
    variants = load_variants(arguments.config, arguments.variants)
    unknown = sorted(set(arguments.only) - set(variants))
    if unknown:
        raise ValueError(f"no variant {unknown[0]!r} in {arguments.config}: {', '.join(variants)}")
    base = next(iter(variants.values()))
    workdir = Path(arguments.workdir)
    rows: list[Row] = []
    for name, config in variants.items():
        if arguments.only and name not in arguments.only:
            continue
        print(f"{name} ({len(rows) + 1} of {len(arguments.only or variants)})", file=sys.stderr)
        rows.append(run_variant(name, base, config, workdir / directory_name(name)))
        write_tables(rows, workdir)
    print((workdir / "table.md").read_text(encoding="utf-8"))
    draw(rows, workdir / "table.png")


def directory_name(name: str) -> str:
    """A variant's name as the name of a directory."""
    return "".join(c if c.isalnum() or c in "._-" else "_" for c in name)


def run_variant(name: str, base: Config, config: Config, workdir: Path) -> Row:
    """The variant's row: read from its workdir if it is finished, else after training it."""
    result = workdir / "result.json"
    changes = differences(base, config)
    if result.is_file():
        if stale := differences(workdir_config(str(workdir)), config):
            raise ValueError(
                f"{workdir} was finished with another config ({'; '.join(stale)}): choose another "
                "--workdir, or delete it to train it again"
            )
        row = Row(**json.loads(result.read_text(encoding="utf-8")))
        return dataclasses.replace(row, name=name, changes="; ".join(changes))
    import jax

    from flaxformer_mt.train import train

    start = time.monotonic()
    try:
        ending = train(config, str(workdir), quiet=True)
    except ValueError as error:
        raise ValueError(f"variant {name!r}: {error}") from error
    if ending != "complete":
        raise KeyboardInterrupt
    jax.clear_caches()  # the next variant needs none of these programs
    row = Row(
        name=name,
        changes="; ".join(changes),
        minutes=(time.monotonic() - start) / 60,
        **read_results(workdir),
    )
    result.write_text(json.dumps(dataclasses.asdict(row), indent=2) + "\n", encoding="utf-8")
    return row


def read_results(workdir: Path) -> dict[str, Any]:
    """Size, quality and speed of a finished run, from what its workdir says of it."""
    import jax
    import numpy as np

    from flaxformer_mt.training.checkpoint import load_model

    with (workdir / "metrics.jsonl").open(encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    scores = [record for record in records if record["kind"] == "validation"]
    if not scores or "bleu" not in scores[-1]:
        raise ValueError(
            "a sweep compares validation perplexity and BLEU: the config needs data.validation and "
            "training.validation_pairs"
        )
    speeds = [record["tokens_per_second"] for record in records if record["kind"] == "train"]
    params = load_model(workdir, which="last").params
    return {
        "parameters": sum(x.size for x in jax.tree.leaves(params)),
        "perplexity": scores[-1]["perplexity"],
        "bleu": scores[-1]["bleu"],
        "tokens_per_second": float(np.median(speeds)),
    }


def write_tables(rows: list[Row], workdir: Path) -> None:
    """table.md for people, table.json for programs."""
    lines = [
        "| variant | parameters | perplexity | BLEU | target tokens/s | minutes | changes |",
        "|---|---:|---:|---:|---:|---:|---|",
        *(
            f"| {row.name} | {row.parameters:,} | {row.perplexity:.3f} | {row.bleu:.1f} | "
            f"{row.tokens_per_second:,.0f} | {row.minutes:.1f} | {row.changes} |"
            for row in rows
        ),
    ]
    (workdir / "table.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    table = json.dumps([dataclasses.asdict(row) for row in rows], indent=2)
    (workdir / "table.json").write_text(table + "\n", encoding="utf-8")


def draw(rows: list[Row], path: Path) -> None:
    """Perplexity, BLEU and speed of each variant beside the first one's, as one picture."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("no plot: it needs matplotlib, pip install -e '.[plots]'", file=sys.stderr)
        return
    columns = {
        "validation perplexity (less is better)": [row.perplexity for row in rows],
        "validation BLEU": [row.bleu for row in rows],
        "target tokens/s in training": [row.tokens_per_second for row in rows],
    }
    figure = Figure(figsize=(12, 1.2 + 0.27 * len(rows)), layout="constrained")
    panels = figure.subplots(1, len(columns), sharey=True)
    for panel, (title, values) in zip(panels, columns.items(), strict=True):
        _draw_panel(panel, title, values)
    panels[0].set_yticks(range(len(rows)), [row.name for row in rows])
    panels[0].invert_yaxis()
    figure.savefig(path, dpi=120)


def _draw_panel(panel: "Axes", title: str, values: list[float]) -> None:
    places = range(len(values))
    panel.axvline(values[0], color="0.6", linewidth=1)
    panel.hlines(places, values[0], values, color="C0", linewidth=1.5)
    panel.plot(values, places, "o", color="C0", markersize=5)
    panel.set_title(title, fontsize=10)
    panel.grid(axis="x", color="0.9")
    panel.spines[["top", "right", "left"]].set_visible(False)
    panel.tick_params(axis="y", length=0)


main = command("sweep", SweepArguments, sweep)

if __name__ == "__main__":
    leave(main())
