"""Averages the parameters of several checkpoints (section 6.1: the last 5 or 20)."""

from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import orbax.checkpoint as ocp

from flaxformer_mt.checkpoints.buckets import FIRST_PROCESS, publish
from flaxformer_mt.checkpoints.integrity import find_damage, seal, write_failure
from flaxformer_mt.checkpoints.reading import (
    counted_steps,
    deleted_checkpoint,
    intact_steps,
    rank_steps,
    read_extras,
    read_params,
)
from flaxformer_mt.model.initialization import Params
from flaxformer_mt.runtime.processes import first_only
from flaxformer_mt.storage.paths import AnyPath, PathLike, as_path, new_folder


class Averaged(NamedTuple):
    """The directory of an average, and the averaged steps in ascending order."""

    path: AnyPath
    steps: tuple[int, ...]


def average_checkpoints(
    workdir: PathLike,
    *,
    last: int | None = None,
    best: int | None = None,
    or_fewer: bool = False,
) -> Averaged:
    """Writes the mean parameters of some checkpoints to workdir/averaged, replacing an old mean.

    Memory holds one checkpoint at a time, and the sums in float64.

    Args:
      workdir: the workdir of a training run.
      last: average this many newest checkpoints, without those that an interruption wrote (see
        `reading.counted_steps`). Give either `last` or `best`.
      best: average this many checkpoints with the best validation BLEU (or loss).
      or_fewer: accept fewer checkpoints, but at least one.

    Raises ValueError for invalid numbers or too few checkpoints, FileNotFoundError if `workdir` has
    none, and OSError if a checkpoint is damaged or the mean cannot be written.
    """
    directory = as_path(workdir).absolute() / "checkpoints"
    if bool(last) == bool(best) or (last or best or 0) < 1:
        raise ValueError(
            "give either last or best (--last N, --best N), at least 1, and not both; got "
            f"last={last}, best={best}"
        )
    if not directory.is_dir():
        raise _no_training_run(directory.parent)
    steps = intact_steps(directory)
    candidates = counted_steps(directory, steps)[::-1] if last else rank_steps(directory, steps)
    wanted = last or best or 0
    if len(candidates) < (1 if or_fewer else wanted):
        kind = "checkpoints" if last else "validated checkpoints"
        found = f" (steps {', '.join(map(str, sorted(candidates)))})" if candidates else ""
        raise ValueError(
            f"cannot average {wanted} {kind}: {directory} has {len(candidates)}{found}. Average "
            "fewer, or train longer (training.keep_last and training.keep_best set how many "
            "checkpoints a run keeps)"
        )
    chosen = sorted(candidates[:wanted])
    target = directory.parent / "averaged"

    def write_mean() -> None:
        mean = mean_params([directory / str(step) for step in chosen])
        extras = read_extras(directory / str(chosen[-1]))
        extras = {name: extras[name] for name in ("config", "tokenizer")}
        _write(target, mean, extras | {"steps": chosen, "newest": steps[-1]})

    first_only(write_mean)
    return Averaged(target, tuple(chosen))


def mean_params(checkpoints: list[AnyPath]) -> Params:
    """Returns the mean of each parameter, as NumPy arrays; it sums in float64.

    Raises OSError if a checkpoint is damaged; the message names it.
    """
    params = _read_whole(checkpoints[0])
    dtypes = jax.tree.map(lambda x: x.dtype, params)
    total = jax.tree.map(lambda x: np.asarray(x, np.float64), params)
    del params  # before the next checkpoint is read
    for path in checkpoints[1:]:
        jax.tree.map(lambda t, x: np.add(t, x, out=t), total, _read_whole(path))
    return jax.tree.map(lambda t, dtype: (t / len(checkpoints)).astype(dtype), total, dtypes)


def _no_training_run(workdir: AnyPath) -> FileNotFoundError:
    expected = "expected the --workdir of a run of `python -m flaxformer_mt.train`"
    if not workdir.is_dir():
        return FileNotFoundError(f"the directory {workdir} does not exist: {expected}")
    found = ", ".join(sorted(path.name for path in workdir.iterdir())[:20])
    return FileNotFoundError(
        f"{workdir} has no checkpoints; it contains {found or 'nothing'}: {expected}"
    )


def _read_whole(path: AnyPath) -> Params:
    if not path.exists():
        raise deleted_checkpoint(path)
    if damage := find_damage(path):
        raise OSError(f"checkpoint {path} is damaged: {damage}")
    return read_params(path)


def _write(target: AnyPath, params: Params, extras: dict[str, Any]) -> None:
    """Writes the average to a temporary folder first, so that a failure keeps the old average."""
    try:
        with new_folder(target, publish) as fresh:
            _save(fresh, params, extras)
    except Exception as error:
        raise write_failure("the average", target, error) from error


def _save(fresh: Path, params: Params, extras: dict[str, Any]) -> None:
    """Writes a checkpoint to a local folder."""
    items = ocp.args.Composite(
        params=ocp.args.StandardSave(params), extras=ocp.args.JsonSave(extras)
    )
    options = ocp.CompositeOptions(multiprocessing_options=FIRST_PROCESS)
    handler = ocp.CompositeCheckpointHandler(composite_options=options)
    with ocp.Checkpointer(handler, multiprocessing_options=FIRST_PROCESS) as checkpointer:
        checkpointer.save(fresh, args=items, force=True)
    seal(fresh)
