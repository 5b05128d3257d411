"""Trains the variants of a config and compares them: `python -m flaxformer_mt.sweep`.

A config file can define, beside `config`, a dict of variants by name (see configs/table_3.py). Each
variant has its own workdir in the sweep's. The same command resumes a sweep and skips finished
variants.
"""

import contextlib
import dataclasses
import signal
import statistics
import sys
from collections.abc import Iterator, Mapping

from flaxformer_mt.checkpoints.integrity import saved_steps
from flaxformer_mt.cli import command
from flaxformer_mt.config import Config, differences, load_variants, shipped_name, workdir_config
from flaxformer_mt.data.sources.corpora import CorpusConfig
from flaxformer_mt.runtime.command import exit_process
from flaxformer_mt.runtime.host import share_freed_memory
from flaxformer_mt.storage.paths import AnyPath, as_path, write_file

HEADER = """\
| variant | parameters | perplexity | BLEU | target tokens/s | changes |
|---|---:|---:|---:|---:|---|
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SweepArguments:
    """Train variants of a config one after another, and write table.md."""

    config: str = "configs/table_3.py"
    """Python file that defines the variants: a dict of name to Config, the base model first."""
    variants: str = "variants"
    """The name of that dict in the file."""
    workdir: str = ""
    """Directory of the sweep: the table, and a workdir for each variant. If not given: runs/NAME
    for a config NAME that comes with the package."""
    only: tuple[str, ...] = ()
    """Names of the variants to train; all if not given. The table has all finished variants."""


def sweep(arguments: SweepArguments) -> None:
    """Trains unfinished variants, and writes the table after each."""
    variants = load_variants(arguments.config, arguments.variants)
    shipped = shipped_name(arguments.config)
    if not (arguments.workdir or shipped):
        raise ValueError(
            f"--config {arguments.config} needs --workdir: the directory of a new sweep, or of the "
            "one to continue"
        )
    unknown = sorted(set(arguments.only) - set(variants))
    if unknown:
        raise ValueError(f"no variant {unknown[0]!r} in {arguments.config}: {', '.join(variants)}")
    chosen = [name for name in variants if name in (arguments.only or variants)]
    for name in chosen:
        if variants[name].data.validation == CorpusConfig():
            raise ValueError(
                f"variant {name!r}: a sweep compares validation perplexity and BLEU: the config "
                "needs data.validation"
            )
    folder, table = as_path(arguments.workdir or f"runs/{shipped}"), HEADER
    workdirs = [_workdir(folder, name) for name in variants]
    if duplicates := [str(one) for one in workdirs if workdirs.count(one) > 1]:
        raise ValueError(f"two variants have the workdir {duplicates[0]}: change the name of one")
    share_freed_memory()
    for number, name in enumerate(chosen, start=1):
        print(f"{name} ({number} of {len(chosen)})", file=sys.stderr)
        finish(name, variants[name], _workdir(folder, name))
        results(_workdir(folder, name))  # raises an error if it has no scores
        table = HEADER + "".join(_rows(variants, folder))
        write_file(folder / "table.md", table.encode())
    print(table)


def _workdir(folder: AnyPath, name: str) -> AnyPath:
    return folder / "".join(c if c.isalnum() or c in "._-" else "_" for c in name)


def _rows(variants: Mapping[str, Config], folder: AnyPath) -> Iterator[str]:
    """Yields the rows of the finished variants."""
    base = next(iter(variants.values()))
    for name, config in variants.items():
        workdir = _workdir(folder, name)
        if (workdir / "finished").exists() and not _changes(workdir, config):
            with contextlib.suppress(ValueError, OSError):  # its files may be deleted
                yield f"| {name} | {results(workdir)} | {'; '.join(differences(base, config))} |\n"


def finish(name: str, config: Config, workdir: AnyPath) -> None:
    """Trains a variant, or continues it, unless its workdir has the mark of a finished run.

    Raises ValueError if the workdir has another config, or if training refuses this one.
    """
    mark = workdir / "finished"
    if changes := _changes(workdir, config):
        raise ValueError(
            f"{workdir} was started with another config ({'; '.join(changes)}): choose another "
            "--workdir, or delete it to train it again"
        )
    if mark.exists():
        return
    import jax

    from flaxformer_mt.train import train

    try:
        ending = train(config, str(workdir), quiet=True, handle_signals=True)
    except ValueError as error:
        raise ValueError(f"variant {name!r}: {error}") from error
    if ending != "complete":
        raise KeyboardInterrupt(signal.SIGTERM if ending == "preempted" else signal.SIGINT)
    jax.clear_caches()  # the next variant has other programs
    write_file(mark, b"")


def _changes(workdir: AnyPath, config: Config) -> list[str]:
    """Returns how `config` differs from that of a trained workdir. Another mesh is no change."""
    if not saved_steps(workdir / "checkpoints") and not (workdir / "finished").exists():
        return []
    return differences(workdir_config(str(workdir)), config, without=("mesh",))


def results(workdir: AnyPath) -> str:
    """Returns the cells parameters, perplexity, BLEU and speed of a finished run.

    Perplexity and BLEU are those of the last validation. The speed is the median of real target
    tokens per second over the log lines.
    """
    import jax

    from flaxformer_mt.checkpoints.loading import make_model
    from flaxformer_mt.data.tokenization.tokenizer import Tokenizer
    from flaxformer_mt.model.initialization import param_shapes
    from flaxformer_mt.training.reporting import read_metrics

    records = read_metrics(workdir)
    scores = [record for record in records if record["kind"] == "validation"]
    if not scores or None in map(scores[-1].get, ("perplexity", "bleu")):
        raise ValueError(
            "a sweep compares validation perplexity and BLEU: the config needs data.validation "
            "(with sentences that the model can read) and training.validation_pairs"
        )
    speed = statistics.median(r["tokens_per_second"] for r in records if r["kind"] == "train")
    model = make_model(workdir_config(str(workdir)), Tokenizer.load(workdir / "tokenizer"))
    parameters = sum(x.size for x in jax.tree.leaves(param_shapes(model)))
    return (
        f"{parameters:,} | {scores[-1]['perplexity']:.3f} | {scores[-1]['bleu']:.1f} | {speed:,.0f}"
    )


main = command("sweep", SweepArguments, sweep)

if __name__ == "__main__":
    exit_process(main())
