"""Averaging the parameters of several checkpoints (section 6.1: the last 5 or 20)."""

import os
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import orbax.checkpoint as ocp

from flaxformer_mt.runtime.processes import barrier
from flaxformer_mt.training.integrity import find_damage, seal, write_failure
from flaxformer_mt.training.reading import rank_steps, read_extras, read_params, whole_steps
from flaxformer_mt.training.state import Params


class Averaged(NamedTuple):
    """Where an average was written and which steps, rising, it is of."""

    path: Path
    steps: tuple[int, ...]


def average_checkpoints(
    workdir: str | os.PathLike[str],
    *,
    last: int | None = None,
    best: int | None = None,
    or_fewer: bool = False,
) -> Averaged:
    """Writes the mean of some checkpoints' parameters to workdir/averaged, replacing what is there.

    One checkpoint is in memory at a time, beside the float64 sums.

    Args:
      workdir: of a training run.
      last: average so many of the newest checkpoints; give either this or `best`.
      best: average so many of those with the best validation BLEU (or loss).
      or_fewer: average what there is, at least one, where it is less than asked for.

    Raises:
      ValueError: neither or both given, or fewer checkpoints than asked for: says how many.
      FileNotFoundError: `workdir` is not that of a training run: says what it holds instead.
      OSError: one of them is damaged, or the mean cannot be written.
    """
    directory = Path(workdir).absolute() / "checkpoints"
    if bool(last) == bool(best) or (last or best or 0) < 1:
        raise ValueError(f"give either last or best, at least 1; got last={last}, best={best}")
    if not directory.is_dir():
        raise _no_training_run(directory.parent)
    steps = whole_steps(directory)
    candidates = steps[::-1] if last else rank_steps(directory, steps)
    wanted = last or best or 0
    if len(candidates) < (1 if or_fewer else wanted):
        kind = "checkpoints" if last else "validated checkpoints"
        there = f" (steps {', '.join(map(str, sorted(candidates)))})" if candidates else ""
        raise ValueError(
            f"asked to average {wanted} {kind}, but {directory} holds {len(candidates)}{there}: "
            "average fewer, or train longer (training.keep_last and training.keep_best say how "
            "many are kept)"
        )
    chosen = sorted(candidates[:wanted])
    mean = mean_params([directory / str(step) for step in chosen])
    extras = read_extras(directory / str(chosen[-1]))
    extras = {name: extras[name] for name in ("config", "tokenizer")} | {"steps": chosen}
    extras |= {"newest": steps[-1]}
    return Averaged(_write(directory.parent / "averaged", mean, extras), tuple(chosen))


def mean_params(checkpoints: list[Path]) -> Params:
    """Arithmetic mean, array by array, as NumPy arrays; summed in float64.

    Raises:
      OSError: a checkpoint is damaged: says which.
    """
    params = _read_whole(checkpoints[0])
    dtypes = jax.tree.map(lambda x: x.dtype, params)
    total = jax.tree.map(lambda x: np.asarray(x, np.float64), params)
    del params  # before the next one comes
    for path in checkpoints[1:]:
        jax.tree.map(lambda t, x: np.add(t, x, out=t), total, _read_whole(path))
    return jax.tree.map(lambda t, dtype: (t / len(checkpoints)).astype(dtype), total, dtypes)


def _no_training_run(workdir: Path) -> FileNotFoundError:
    expected = "expected the --workdir of a run of `python -m flaxformer_mt.train`"
    if not workdir.is_dir():
        return FileNotFoundError(f"the directory {workdir} does not exist: {expected}")
    found = ", ".join(sorted(path.name for path in workdir.iterdir())[:20])
    return FileNotFoundError(f"{workdir} has no checkpoints, but {found or 'nothing'}: {expected}")


def _read_whole(path: Path) -> Params:
    if damage := find_damage(path):
        raise OSError(f"checkpoint {path} is damaged: {damage}")
    return read_params(path)


def _write(target: Path, params: Params, extras: dict[str, Any]) -> Path:
    """Writes beside `target`, then renames: a killed or failed write leaves the old one alone.

    Of several processes the first writes; all return when it is done.
    """
    fresh = target.with_name("averaged.new")
    items = ocp.args.Composite(
        params=ocp.args.StandardSave(params), extras=ocp.args.JsonSave(extras)
    )
    try:
        with ocp.Checkpointer(ocp.CompositeCheckpointHandler()) as checkpointer:
            checkpointer.save(fresh, args=items, force=True)
        if jax.process_index() == 0:
            seal(fresh)
            _replace(target, fresh)
        barrier()
    except Exception as error:
        shutil.rmtree(fresh, ignore_errors=True)
        raise write_failure("the average", target, error) from error
    return target


def _replace(target: Path, fresh: Path) -> None:
    """Puts `fresh` in the place of `target`; at any moment one of the two is whole."""
    old = target.with_name("averaged.old")
    shutil.rmtree(old, ignore_errors=True)
    if target.exists():
        target.rename(old)
    fresh.rename(target)
    shutil.rmtree(old, ignore_errors=True)
