"""Checkpoints: everything a run needs to go on, written in the background, all at once or not.

    workdir/config.json                 the configuration
    workdir/tokenizer/                  see data.tokenizer
    workdir/checkpoints/<step>/params   parameters: all that translation reads
    workdir/checkpoints/<step>/state    the rest of the TrainState: step, optimiser, random key (and
                                        the parameters in training, where others translate)
    workdir/checkpoints/<step>/extras   JSON: data iterator, metrics, configuration, tokenizer
    workdir/averaged/                   params and extras, see training.averaging
    workdir/newest_checkpoint           its step, by which a missing one is noticed
    workdir/damaged/                    checkpoints found damaged when a run resumed

Orbax writes; what it lacks (noticing damage, deleting all at once) is added here.
"""

import dataclasses
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import orbax.checkpoint as ocp
from orbax.checkpoint.checkpoint_managers import AnyPreservationPolicy, BestN, LatestN

from flaxformer_mt.config import CONFIG_FILE, Config, differences, save_config, workdir_config
from flaxformer_mt.data.tokenization.tokenizer import Tokenizer
from flaxformer_mt.kernels.choose import choose_kernels
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.runtime.dataclass_json import from_dict
from flaxformer_mt.training.integrity import (
    find_damage,
    note_newest,
    saved_steps,
    seal,
    set_aside_damaged,
    was_saved,
    write_failure,
)
from flaxformer_mt.training.reading import (
    check_fit,
    choose_checkpoint,
    quality,
    rank_steps,
    read_extras,
    read_items,
    read_params,
    whole_steps,
)
from flaxformer_mt.training.state import Params, TrainState, init_params

_TRAINED = "trained_params"  # beside the optimiser's state, where others are published


class Restored(NamedTuple):
    """What `Checkpoints.restore` gives back.

    Attributes:
      state: equal, bit for bit, to the one that was saved.
      data_state: of the data iterator, as it was given to `save`.
      extras: "config" (dict), "tokenizer" (fingerprint), "metrics" (dict).
    """

    state: TrainState
    data_state: dict[str, Any]
    extras: dict[str, Any]


class Checkpoints:
    """The checkpoints of one run: the newest `keep_last` and the `keep_best` best of all.

    Best means highest validation BLEU ("bleu" of the metrics) or, where there is none, lowest
    validation loss ("loss"). Opening removes what killed saves left behind, and moves damaged
    checkpoints away with a warning, so that the newest one left is whole.

    Args:
      workdir: its `checkpoints` directory is created where it does not exist.
      keep_last: at least 1.
      keep_best: 0 = none beyond the last.

    Raises:
      OSError: not writable, or every checkpoint in it is damaged.
    """

    def __init__(self, workdir: str | os.PathLike[str], *, keep_last: int, keep_best: int):
        if keep_last < 1 or keep_best < 0:
            raise ValueError(
                f"expected keep_last >= 1 and keep_best >= 0, got {keep_last} and {keep_best}"
            )
        workdir = Path(workdir).absolute()
        self.directory = workdir / "checkpoints"
        self._outdated = self.directory / "outdated"
        self._saving = 0
        self._remove(self.directory.glob(f"*{ocp.utils.TMP_DIR_SUFFIX}*"))
        self._remove([self._outdated])
        if jax.process_index() == 0:  # the others wait in CheckpointManager until this is done
            set_aside_damaged(self.directory, workdir / "damaged")
        kept = [LatestN(keep_last), BestN(get_metric_fn=quality, n=keep_best)]
        self._manager = ocp.CheckpointManager(
            self.directory,
            options=ocp.CheckpointManagerOptions(
                best_fn=quality,
                preservation_policy=AnyPreservationPolicy(kept),
                # A kill in the middle of a deletion would leave half a checkpoint: rename first.
                todelete_subdir=self._outdated.name,
                async_options=ocp.AsyncOptions(post_finalization_callback=self._seal),
            ),
        )

    def save(
        self,
        step: int,
        state: TrainState,
        *,
        data_state: dict[str, Any],
        metrics: Mapping[str, float] | None,
        config_json: str,
        tokenizer_fingerprint: str,
        published: Params | None = None,
    ) -> None:
        """Copies `state` off the devices, then writes it while training goes on.

        A step that is already saved, or older than the newest, is left as it is.

        Args:
          step: updates done.
          state: free to be donated to the next step as soon as this returns.
          data_state: state of the data iterator; anything that JSON can hold.
          metrics: of the validation at this step, "bleu" and "loss" among them; None = there was
            none.
          config_json: the whole configuration.
          tokenizer_fingerprint: `Tokenizer.fingerprint`.
          published: the parameters that translate, where they are not those that are trained (an
            average of them, or adapters merged into what they adapt).

        Raises:
          OSError: this save, or the one before it in the background, could not be written.
        """
        self.wait()
        self._saving = step
        metrics = {name: float(value) for name, value in (metrics or {}).items()}
        extras = {
            "data_state": data_state,
            "metrics": metrics,
            "config": json.loads(config_json),
            "tokenizer": tokenizer_fingerprint,
        }
        json.dumps(extras)  # a TypeError here is the caller's; those of the background are not
        rest = _without_params(state)
        if published is not None:
            rest[_TRAINED] = state.params
        items = ocp.args.Composite(
            params=ocp.args.StandardSave(state.params if published is None else published),
            state=ocp.args.StandardSave(rest),
            extras=ocp.args.JsonSave(extras),
        )
        try:
            self._manager.save(step, args=items, metrics=metrics)
        except Exception as error:
            raise self._failure(error) from error

    def latest_step(self) -> int | None:
        """The newest checkpoint's step; None where there is none."""
        return self._manager.latest_step()

    def extras(self) -> dict[str, Any]:
        """Of the newest checkpoint: see `Restored`."""
        return read_extras(self._path(self.latest_step()))

    def restore(
        self,
        state_like: TrainState,
        step: int | None = None,
        *,
        has_separate_eval_params: bool = False,
    ) -> Restored:
        """Reads a checkpoint onto the devices of `state_like`, whatever devices wrote it.

        Args:
          state_like: arrays, or `jax.ShapeDtypeStruct`s with shardings: shape, type and place of
            every array.
          step: which; None = the newest.
          has_separate_eval_params: whether `save` was given `published`.

        Raises:
          FileNotFoundError: there is no such checkpoint.
          ValueError: it does not fit `state_like`: says which arrays differ.
          OSError: it is damaged.
        """
        self.wait()
        step = self.latest_step() if step is None else step
        path = self._path(step)
        wanted = {"state": _without_params(state_like)}
        if has_separate_eval_params:
            wanted["state"][_TRAINED] = state_like.params
        else:
            wanted["params"] = state_like.params
        for item, like in wanted.items():
            check_fit(path, item, like)
        items = read_items(
            path,
            **{item: ocp.args.StandardRestore(like) for item, like in wanted.items()},
            extras=ocp.args.JsonRestore(),
        )
        rest = dict(items["state"])
        params = rest.pop(_TRAINED) if has_separate_eval_params else items["params"]
        state = dataclasses.replace(state_like, params=params, **rest)
        extras = dict(items["extras"])
        return Restored(state, extras.pop("data_state"), extras)

    def wait(self) -> None:
        """Waits until the last save is on disk.

        Raises:
          OSError: it could not be written.
        """
        try:
            self._manager.wait_until_finished()
        except Exception as error:
            raise self._failure(error) from error
        self._remove([self._outdated])
        if jax.process_index() == 0:
            note_newest(self.directory)

    def close(self) -> None:
        """Waits for the last save and stops the background threads.

        Raises:
          OSError: it could not be written.
        """
        try:
            self.wait()
        finally:
            self._manager.close()

    def _path(self, step: int | None) -> Path:
        """Of a step, known to be whole."""
        steps = saved_steps(self.directory)
        if step not in steps:
            there = f"steps {', '.join(map(str, steps))}" if steps else "none at all"
            raise FileNotFoundError(f"no checkpoint {step} in {self.directory}: found {there}")
        path = self.directory / str(step)
        if damage := find_damage(path):
            raise OSError(f"checkpoint {path} is damaged: {damage}")
        return path

    def _seal(self) -> None:
        """Called by Orbax when all is written and nothing renamed yet, so as part of the save."""
        (unfinished,) = self.directory.glob(f"{self._saving}{ocp.utils.TMP_DIR_SUFFIX}*")
        seal(unfinished)

    def _remove(self, directories: Iterable[Path]) -> None:
        if jax.process_index() == 0:
            for directory in directories:
                shutil.rmtree(directory, ignore_errors=True)

    def _failure(self, error: Exception) -> OSError:
        steps = saved_steps(self.directory)
        newest = f"the newest checkpoint there is step {steps[-1]}" if steps else "there is none"
        return write_failure(f"checkpoint {self._saving}", self.directory, error, newest)


def check_workdir(
    workdir: str | os.PathLike[str], config: Config, tokenizer_fingerprint: str | None = None
) -> None:
    """Checks that `workdir` can be this run's, and changes nothing in it.

    What makes another model is the `model` section and the tokenizer. All else (steps, data,
    learning rate, ...) may change between a stop and a resume.

    Args:
      workdir: created where it does not exist.
      config: of the run that is about to start.
      tokenizer_fingerprint: None = not known yet, not compared.

    Raises:
      OSError: it cannot be written to.
      ValueError: it holds checkpoints of another model: says what differs.
    """
    workdir = Path(workdir).absolute()
    if workdir.exists() and not workdir.is_dir():
        raise NotADirectoryError(f"{workdir} is a file; --workdir must name a directory")
    try:
        workdir.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=workdir).close()
    except OSError as error:
        raise write_failure("a file", workdir, error) from error
    lines = _other_model(workdir, config, tokenizer_fingerprint)
    if lines:
        raise ValueError(
            f"{workdir} holds checkpoints of another model (there -> here):\n  "
            + "\n  ".join(lines)
            + "\nChoose another --workdir, or set these back to go on with this one."
        )


def claim_workdir(
    workdir: str | os.PathLike[str], config: Config, tokenizer_fingerprint: str | None = None
) -> None:
    """Makes `workdir` this run's: `check_workdir`, then writes config.json."""
    check_workdir(workdir, config, tokenizer_fingerprint)
    try:
        save_config(config, str(workdir))
    except OSError as error:
        raise write_failure("config.json", Path(workdir), error) from error


def forget_unused_tokenizer(workdir: str | os.PathLike[str]) -> None:
    """Removes a tokenizer with which nothing was trained, so that it is learnt from today's text.

    Only in the workdir of a run that had begun and left no parameters: anything else in a
    directory of that name is somebody's work.
    """
    workdir = Path(workdir).absolute()
    trained = was_saved(workdir) or (workdir / "averaged").exists()
    if (workdir / CONFIG_FILE).exists() and not trained:
        shutil.rmtree(workdir / "tokenizer", ignore_errors=True)


def was_validated(workdir: str | os.PathLike[str]) -> bool:
    """Whether one of the run's checkpoints is known to be the best."""
    directory = Path(workdir).absolute() / "checkpoints"
    return bool(rank_steps(directory, whole_steps(directory)))


def _other_model(workdir: Path, config: Config, fingerprint: str | None) -> list[str]:
    """One line for each field in which the newest checkpoint is of another model."""
    directory = workdir / "checkpoints"
    newest_first = (directory / str(step) for step in reversed(saved_steps(directory)))
    newest_whole = next((path for path in newest_first if not find_damage(path)), None)
    if newest_whole is None:
        return []
    saved = read_extras(newest_whole)
    model = from_dict(TransformerConfig, saved["config"]["model"], where="model")
    lines = differences(model, config.model, where="model")
    if fingerprint is not None and saved["tokenizer"] != fingerprint:
        lines.append(f"tokenizer: {saved['tokenizer']} -> {fingerprint}")
    return lines


class LoadedModel(NamedTuple):
    """A model ready to translate.

    Attributes:
      config: of workdir/config.json.
      tokenizer: of workdir/tokenizer.
      model: the Linen module.
      params: for `model.apply({"params": params}, ...)`; on the default device.
      checkpoint: where they come from: "averaged" or the number of a step.
    """

    config: Config
    tokenizer: Tokenizer
    model: Transformer
    params: Params
    checkpoint: str


def load_model(workdir: str | os.PathLike[str], which: str = "auto") -> LoadedModel:
    """Loads what translating needs from a workdir: parameters, but no optimiser state.

    Args:
      workdir: of `flaxformer_mt.train`.
      which: "averaged", "best" (by validation), "last", or a step; "auto" = the first of these
        three that exists. Instead of a damaged checkpoint the next in line is used, with a
        warning, except for a step.

    Raises:
      FileNotFoundError: no such checkpoint, or not a workdir: says what is there.
      ValueError: the parameters fit neither the model nor the vocabulary of the workdir.
      OSError: the chosen checkpoint is damaged and there is none to stand in for it.
    """
    workdir = Path(workdir).absolute()
    config = workdir_config(str(workdir))
    path = choose_checkpoint(workdir, which)
    tokenizer = Tokenizer.load(workdir / "tokenizer")
    extras = read_extras(path)
    _check_tokenizer(path, extras["tokenizer"], workdir / "tokenizer", tokenizer.fingerprint)
    _warn_if_outdated(extras, saved_steps(workdir / "checkpoints"))
    model = Transformer(
        config.model,
        source_vocab_size=tokenizer.source.size,
        target_vocab_size=tokenizer.target.size,
        bos_id=tokenizer.target.bos_id,
        kernels=choose_kernels(config.model.kernels, jax.default_backend()),
    )
    params = read_params(path)
    expected = jax.eval_shape(lambda: init_params(model, jax.random.key(0)))
    check_fit(path, "params", expected, params)
    return LoadedModel(config, tokenizer, model, jax.device_put(params), path.name)


def _check_tokenizer(path: Path, expected: str, directory: Path, found: str) -> None:
    if found != expected:
        raise ValueError(
            f"{path} was trained with the tokenizer of fingerprint {expected}, but {directory} "
            f"holds {found}: put back the tokenizer directory of that run"
        )


def _warn_if_outdated(extras: dict[str, Any], steps: list[int]) -> None:
    """An average (it alone knows "newest") does not follow a training that goes on."""
    if "newest" in extras and steps and steps[-1] > extras["newest"]:
        logging.getLogger(__name__).warning(
            "using the average made at step %d, although training has gone on to step %d: make "
            "a new one with `python -m flaxformer_mt.average`, or choose best or last",
            *(extras["newest"], steps[-1]),
        )


def _without_params(state: TrainState) -> dict[str, Any]:
    fields = {field.name: getattr(state, field.name) for field in dataclasses.fields(state)}
    return {name: x for name, x in fields.items() if name != "params" and x is not None}
