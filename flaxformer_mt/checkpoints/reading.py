"""Chooses a checkpoint of a workdir, checks it and reads its parameters.

`checkpoints.manager` describes the files of a workdir.
"""

import json
import logging
import math
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp

from flaxformer_mt.checkpoints.buckets import is_complete, readable
from flaxformer_mt.checkpoints.integrity import find_damage, saved_steps
from flaxformer_mt.model.initialization import Params
from flaxformer_mt.storage.paths import AnyPath

LATE_METRICS = "late_metrics.json"
"""File in a checkpoint: metrics of a validation that ended later, after an interruption."""

_SMALLEST_BLEU = 0.005  # a smaller BLEU is displayed as 0.00

_EXTRAS = "extras/metadata"  # the name is Orbax's

_log = logging.getLogger(__name__)


def quality(metrics: Mapping[str, float]) -> float:
    """Returns the sort key of a checkpoint: "bleu" above 0, else -"loss", else (or for NaN) -inf.

    A BLEU of 0.00 is not informative: early checkpoints have it while their loss falls. -loss is
    never above 0, so any checkpoint with BLEU is better than one without.
    """
    bleu = metrics.get("bleu", 0.0)
    score = -metrics.get("loss", math.inf) if abs(bleu) < _SMALLEST_BLEU else bleu
    return -math.inf if math.isnan(score) else score


def intact_steps(directory: AnyPath) -> list[int]:
    """Returns the saved steps, ascending, without checkpoints with missing or truncated files.

    It warns about each of these.
    """
    steps = []
    for step in saved_steps(directory):
        if damage := find_damage(directory / str(step), contents=False):
            _log.warning("checkpoint %s is damaged and not used: %s", directory / str(step), damage)
        else:
            steps.append(step)
    return steps


def rank_steps(directory: AnyPath, steps: list[int]) -> list[int]:
    """Returns the validated steps, best first. Among equals, the later step comes first."""
    score = {step: quality(read_extras(directory / str(step))["metrics"]) for step in steps}
    validated = [step for step in steps if score[step] > -math.inf]
    return sorted(validated, key=lambda step: (score[step], step), reverse=True)


def counted_steps(directory: AnyPath, steps: list[int]) -> list[int]:
    """Returns the newest step and all scheduled steps.

    A checkpoint of an interruption does not count after the run has continued. So a resumed run
    averages the same checkpoints as an uninterrupted one.
    """
    return [
        step
        for step in steps
        if step == steps[-1] or read_extras(directory / str(step)).get("scheduled", True)
    ]


def choose_checkpoint(workdir: AnyPath, checkpoint: str) -> AnyPath:
    """Returns the directory of a checkpoint by name; see `checkpoints.loading.load_model`.

    Raises FileNotFoundError if there is none, and OSError if every candidate is damaged.
    """
    damaged = False
    for path in _candidates(workdir, checkpoint):
        damage = find_damage(path)
        if not damage:
            return path
        damaged = True
        _log.warning("checkpoint %s is damaged and not used: %s", path, damage)
    if not damaged:
        found = [str(step) for step in saved_steps(workdir / "checkpoints")]
        found += ["averaged"] if is_complete(workdir / "averaged") else []
        raise FileNotFoundError(
            f"no checkpoint {checkpoint!r} in {workdir}: found {', '.join(found) or 'none'}"
            + (" (there is a best one only after a validation)" if checkpoint == "best" else "")
            + ("" if found else "; train a model there, or choose another workdir")
        )
    raise OSError(
        f"checkpoint {checkpoint!r} of {workdir} is damaged, and there is no other; restore it "
        "from a copy"
    )


def _candidates(workdir: AnyPath, checkpoint: str) -> Iterator[AnyPath]:
    """Yields candidates in order of preference. Looks up later ones only on demand."""
    directory, averaged = workdir / "checkpoints", workdir / "averaged"
    if checkpoint.isdecimal():
        yield from (
            [directory / str(int(checkpoint))] if int(checkpoint) in saved_steps(directory) else []
        )
        return
    if checkpoint not in ("auto", "averaged", "best", "last"):
        raise ValueError(
            f"unknown checkpoint {checkpoint!r}: expected auto, averaged, best, last or a step"
        )
    if checkpoint in ("auto", "averaged") and is_complete(averaged):
        yield averaged
    if checkpoint == "averaged":
        return
    steps = intact_steps(directory)
    if checkpoint in ("auto", "best"):
        yield from (directory / str(step) for step in rank_steps(directory, steps))
    if checkpoint in ("auto", "last"):
        yield from (directory / str(step) for step in reversed(steps))


def read_items(path: AnyPath, *, together: bool = False, **items: Any) -> dict[str, Any]:
    """Reads items of a checkpoint: {name: its `orbax.checkpoint.args`}.

    `together` means that all processes of the run call this and wait for each other. Otherwise this
    process reads alone.
    """
    index = jax.process_index()
    options = ocp.options.MultiprocessingOptions(
        primary_host=index, active_processes={index}, barrier_sync_key_prefix=f"process{index}"
    )
    if together:
        options = ocp.options.MultiprocessingOptions()
    where, handler = readable(path, items), ocp.CompositeCheckpointHandler()
    with ocp.Checkpointer(handler, multiprocessing_options=options) as checkpointer:
        return dict(checkpointer.restore(where, args=ocp.args.Composite(**items)).items())


def deleted_checkpoint(path: AnyPath) -> OSError:
    """Returns the error for a checkpoint that was deleted after it had been listed."""
    return OSError(f"checkpoint {path} is gone: a run deleted it for a newer one. Try again")


def read_extras(path: AnyPath) -> dict[str, Any]:
    """Returns the JSON part of a checkpoint, including the metrics of a late validation."""
    try:
        extras = json.loads((path / _EXTRAS).read_text(encoding="utf-8"))
    except FileNotFoundError:
        if path.exists():
            raise
        raise deleted_checkpoint(path) from None
    late = path / LATE_METRICS
    return extras | {"metrics": json.loads(late.read_text())} if late.exists() else extras


def read_params(path: AnyPath) -> Params:
    """Returns the parameters of a checkpoint as NumPy arrays."""
    # By default, Orbax places arrays on the devices that wrote them.
    as_numpy = jax.tree.map(
        lambda _: ocp.RestoreArgs(restore_type=np.ndarray), _stored(path, "params")
    )
    return read_items(path, params=ocp.args.PyTreeRestore(restore_args=as_numpy))["params"]


def check_fit(path: AnyPath, item: str, expected: Any, found: Any = None) -> None:
    """Checks names and shapes of a checkpoint's arrays against those of the tree `expected`.

    `item` is "params" or "state". `found` has its arrays, if they are already read.

    Raises ValueError if they differ; the message names the arrays.
    """
    stored = _shapes(_stored(path, item) if found is None else found)
    wanted = _shapes(expected)
    lines = [
        f"{item}/{name}: expected {wanted.get(name, 'none')}, found {stored.get(name, 'none')}"
        for name in sorted(wanted.keys() | stored.keys())
        if wanted.get(name) != stored.get(name)
    ]
    if lines:
        more = [f"and {len(lines) - 8} more"] if len(lines) > 8 else []
        raise ValueError(
            f"checkpoint {path} does not fit the configuration:\n  "
            + "\n  ".join(lines[:8] + more)
            + "\nUse the configuration that it was trained with, or another --workdir."
        )


def _stored(path: AnyPath, item: str) -> Any:
    """Returns the shapes and types of an item's arrays, as a tree."""
    directory: Any = readable(path, [item]) / item
    return ocp.StandardCheckpointHandler().metadata(directory).tree


def _shapes(tree: Any) -> dict[str, tuple[int, ...]]:
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(p, simple=True, separator="/"): np.shape(x) for p, x in leaves}
