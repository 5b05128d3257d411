"""The checkpoints of one training run. They are written in the background and atomically.

    workdir/config.json                 the configuration
    workdir/tokenizer/                  see data.tokenization
    workdir/checkpoints/<step>/params   the parameters for translation
    workdir/checkpoints/<step>/state    the rest of the training state: step, optimiser, random key,
                                        and the trained parameters if they differ from `params`
    workdir/checkpoints/<step>/extras   JSON: data iterator, metrics, configuration, tokenizer
    workdir/averaged/                   params and extras, see checkpoints.averaging
    workdir/owner.lock                  locked by the training run, see runtime.workdir_lock
    workdir/newest_checkpoint           the newest step, to detect its loss
    workdir/damaged/                    damaged checkpoints, moved here when a run resumes

Orbax reads and writes. This package adds checksums, and deletes checkpoints atomically.
"""

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import orbax.checkpoint as ocp
from jax.experimental.multihost_utils import process_allgather
from orbax.checkpoint.checkpoint_managers import PreservationContext, PreservationPolicy
from upath import UPath

from flaxformer_mt.checkpoints.buckets import UploadingManager, remove_checkpoint
from flaxformer_mt.checkpoints.integrity import (
    find_damage,
    move_damaged,
    note_newest,
    saved_steps,
    seal,
    unfinished_checkpoints,
    write_failure,
)
from flaxformer_mt.checkpoints.reading import (
    LATE_METRICS,
    check_fit,
    quality,
    read_extras,
    read_items,
)
from flaxformer_mt.config import Config
from flaxformer_mt.runtime.processes import first_only, is_first
from flaxformer_mt.storage.paths import (
    AnyPath,
    PathLike,
    as_path,
    is_remote,
    remove_tree,
    write_file,
)

State = Any  # a dataclass with a field `params`: training.state.TrainState

_TRAINED = "trained_params"  # the key of the trained parameters in the item `state`


class Restored(NamedTuple):
    """The `state` and `data_state` that `Checkpoints.save` wrote, bit for bit."""

    state: State
    data_state: dict[str, Any]


class Checkpoints:
    """Keeps the newest `keep_last` (at least 1) checkpoints and the `keep_best` best ones.

    `reading.quality` defines the best. Checkpoints of an interruption (`save(scheduled=False)`) do
    not count. Each is kept only while it is the newest. The constructor removes the remains of
    killed saves. It moves damaged checkpoints away, with a warning, so that the newest remaining
    one is undamaged. It raises OSError if the directory is not writable, or if every checkpoint in
    it is damaged.
    """

    def __init__(self, workdir: PathLike, *, keep_last: int, keep_best: int):
        workdir = as_path(workdir).absolute()
        self.directory = workdir / "checkpoints"
        self._outdated = self.directory / "outdated"
        self._saving = 0
        self._remove_remains()
        first_only(lambda: move_damaged(self.directory, workdir / "damaged"))
        self._kept = _Kept(keep_last, keep_best)
        self._manager = self._make_manager()
        for step in saved_steps(self.directory):
            self._kept.note(step, read_extras(self.directory / str(step)))

    def _make_manager(self) -> ocp.CheckpointManager | UploadingManager:
        if isinstance(self.directory, UPath):
            return UploadingManager(
                self.directory, saved_steps(self.directory), kept=self._kept.of, seal=seal
            )
        return ocp.CheckpointManager(
            self.directory,
            options=ocp.CheckpointManagerOptions(
                best_fn=quality,
                preservation_policy=self._kept,
                # Orbax renames a checkpoint before deletion, so that a kill leaves no part of it.
                todelete_subdir=self._outdated.name,
                async_options=ocp.AsyncOptions(post_finalization_callback=self._seal),
            ),
        )

    def save(
        self,
        step: int,
        state: State,
        *,
        data_state: dict[str, Any],
        metrics: Mapping[str, float] | None,
        config: Config,
        tokenizer_fingerprint: str,
        eval_params: Any = None,
        scheduled: bool = True,
    ) -> None:
        """Copies `state` from the devices, then writes it in the background.

        It writes nothing if `step` is already saved or older than the newest checkpoint.

        Args:
          step: number of updates done.
          state: the training state; may be donated as soon as this method returns.
          data_state: state of the data iterator; any JSON value.
          metrics: metrics of the validation at this step, such as "bleu" and "loss"; None = no
            validation.
          eval_params: the parameters for translation, if they differ from the trained ones.
          scheduled: False for a checkpoint of an interruption.

        Raises OSError if this save, or the previous one in the background, failed.
        """
        self.wait()
        self._saving = step
        metrics = {name: float(value) for name, value in (metrics or {}).items()}
        extras = {
            "data_state": data_state,
            "metrics": metrics,
            "config": dataclasses.asdict(config),
            "tokenizer": tokenizer_fingerprint,
            "scheduled": scheduled,
        }
        json.dumps(extras)  # raises a TypeError now instead of in the background
        if is_remote(self.directory) and jax.process_count() > 1:  # the first process writes all
            state, eval_params = process_allgather((state, eval_params), tiled=True)
        rest = _without_params(state)
        if eval_params is not None:
            rest[_TRAINED] = state.params
        items = ocp.args.Composite(
            params=ocp.args.StandardSave(state.params if eval_params is None else eval_params),
            state=ocp.args.StandardSave(rest),
            extras=ocp.args.JsonSave(extras),
        )
        if step not in self._manager.all_steps():
            self._kept.note(step, extras)
        try:
            self._manager.save(step, args=items, metrics=metrics)
        except Exception as error:
            raise self._failure(error) from error

    def add_metrics(self, step: int, metrics: Mapping[str, float]) -> None:
        """Adds the metrics of a validation that ended after the checkpoint was written."""
        self.wait()
        path = self.directory / str(step)
        if is_first():
            try:
                write_file(path / LATE_METRICS, json.dumps(metrics).encode())
            except OSError as error:
                raise write_failure("the validation metrics", path, error) from error
        self._kept.metrics[step] = dict(metrics)
        steps = self._manager.all_steps()
        for outdated in set(steps) - self._kept.of(sorted(steps)):
            self._manager.delete(outdated)

    def latest_step(self) -> int | None:
        """Returns the step of the newest checkpoint; None without checkpoints."""
        return self._manager.latest_step()

    def extras(self) -> dict[str, Any]:
        """Returns the JSON part of the newest checkpoint."""
        return read_extras(self._newest())

    def restore(self, state_like: State, *, has_separate_eval_params: bool = False) -> Restored:
        """Reads the newest checkpoint onto the devices of `state_like`, whatever devices wrote it.

        Args:
          state_like: arrays, or `jax.ShapeDtypeStruct`s with shardings, that define shape, type
            and sharding of every array.
          has_separate_eval_params: whether `save` got `eval_params`.

        Raises FileNotFoundError if there is none, ValueError if it does not fit `state_like` (the
        message names the arrays), and OSError if it is damaged.
        """
        self.wait()
        path = self._newest()
        wanted = {"state": _without_params(state_like)}
        if has_separate_eval_params:
            wanted["state"][_TRAINED] = state_like.params
        else:
            wanted["params"] = state_like.params
        for item, like in wanted.items():
            check_fit(path, item, like)
        arguments = {k: ocp.args.StandardRestore(v) for k, v in wanted.items()}
        items = read_items(path, together=True, **arguments)
        rest = dict(items["state"])
        params = rest.pop(_TRAINED) if has_separate_eval_params else items["params"]
        state = dataclasses.replace(state_like, params=params, **rest)
        return Restored(state, read_extras(path)["data_state"])

    def wait(self) -> None:
        """Waits until the last save is on disk; raises OSError if it could not be written."""
        try:
            self._manager.wait_until_finished()
        except Exception as error:
            raise self._failure(error) from error
        if is_first():
            self._remove_outdated()
            note_newest(self.directory)

    def close(self) -> None:
        """Waits for the last save, and stops the background threads."""
        try:
            self.wait()
        finally:
            self._manager.close()

    def _newest(self) -> AnyPath:
        """Returns the directory of the newest checkpoint. Raises OSError if it is damaged."""
        step = self.latest_step()
        if step is None:
            raise FileNotFoundError(f"there is no checkpoint in {self.directory}")
        path = self.directory / str(step)
        if damage := find_damage(path):
            raise OSError(f"checkpoint {path} is damaged: {damage}")
        return path

    def _seal(self) -> None:
        """Adds the checksums. Orbax calls this method after the last write, before the renaming."""
        assert isinstance(self.directory, Path)
        (unfinished,) = self.directory.glob(f"{self._saving}{ocp.utils.TMP_DIR_SUFFIX}*")
        seal(unfinished)

    def _remove_remains(self) -> None:
        """Removes the remains of killed saves and deletions."""
        if is_first():
            for path in unfinished_checkpoints(self.directory):
                remove_checkpoint(path)
            if isinstance(self.directory, Path):
                for path in self.directory.glob(f"*{ocp.utils.TMP_DIR_SUFFIX}*"):
                    remove_tree(path)
            self._remove_outdated()

    def _remove_outdated(self) -> None:
        if isinstance(self._outdated, Path):
            remove_tree(self._outdated)

    def _failure(self, error: Exception) -> OSError:
        try:
            steps = saved_steps(self.directory)
            newest = (
                f"the newest checkpoint there is step {steps[-1]}" if steps else "there is none"
            )
        except Exception:  # a bucket that does not answer
            newest = "its checkpoints cannot be listed either"
        return write_failure(f"checkpoint {self._saving}", self.directory, error, newest)


@dataclasses.dataclass
class _Kept(PreservationPolicy):
    """Keeps the newest checkpoint, the last scheduled ones, and the best validated ones."""

    keep_last: int
    keep_best: int
    unscheduled: set[int] = dataclasses.field(default_factory=set)
    metrics: dict[int, Mapping[str, float]] = dataclasses.field(default_factory=dict)

    def note(self, step: int, extras: Mapping[str, Any]) -> None:
        """Records the metrics of a checkpoint, and whether it is scheduled."""
        self.metrics[step] = extras["metrics"]
        if not extras.get("scheduled", True):
            self.unscheduled.add(step)

    def should_preserve(
        self, checkpoints: Sequence[Any], *, context: PreservationContext
    ) -> Sequence[bool]:
        """Returns the decision for each checkpoint, oldest first."""
        kept = self.of([checkpoint.step for checkpoint in checkpoints])
        return [checkpoint.step in kept for checkpoint in checkpoints]

    def of(self, steps: Sequence[int]) -> set[int]:
        """Returns the steps to keep, of `steps` in ascending order."""
        scores = {step: quality(self.metrics[step]) for step in steps}
        validated = [step for step in steps if scores[step] > -math.inf]
        best = sorted(validated, key=lambda step: (scores[step], step))
        scheduled = [step for step in steps if step not in self.unscheduled]
        kept = {*steps[-1:], *scheduled[-self.keep_last :]}
        return kept | ({*best[-self.keep_best :]} if self.keep_best else set())


def _without_params(state: State) -> dict[str, Any]:
    fields = {field.name: getattr(state, field.name) for field in dataclasses.fields(state)}
    return {name: x for name, x in fields.items() if name != "params" and x is not None}
