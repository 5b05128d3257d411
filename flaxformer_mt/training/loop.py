"""A training run: its start or resume, and the loop of updates, validations and checkpoints."""

import contextlib
import dataclasses
import functools
import signal
import time
from collections.abc import Mapping
from typing import Literal, TypeAlias

import jax
import numpy as np
import optax

from flaxformer_mt.checkpoints.initial import initial_params
from flaxformer_mt.checkpoints.manager import Checkpoints
from flaxformer_mt.config import Config, config_from_dict, differences
from flaxformer_mt.data.batching.batch import Batch, BatchShape
from flaxformer_mt.data.fingerprints import changed
from flaxformer_mt.data.pipeline import Data
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.runtime.sharding import BatchPlacement
from flaxformer_mt.training.adapting import Adaptation
from flaxformer_mt.training.optimizer import make_schedule
from flaxformer_mt.training.reporting import NoReporter
from flaxformer_mt.training.state import (
    Progress,
    TrainState,
    abstract_state,
    check_same_state,
    eval_params,
    has_separate_eval_params,
    init_state,
)
from flaxformer_mt.training.step import Metrics, TrainStep, make_eval_step
from flaxformer_mt.training.stopping import Interrupted, StopRequest, should_stop
from flaxformer_mt.training.validation import Validation, window_metrics

Ending: TypeAlias = Literal["complete", "preempted", "interrupted"]

MAX_SKIPPED = 10
"""Number of skipped updates in a row that ends a run."""
MAX_PENDING = 2
"""Number of updates dispatched to the device at a time: enough to keep it busy, and few enough for
a quick stop after a signal."""


@dataclasses.dataclass(frozen=True)
class Run:
    """The constant parts of one training run."""

    config: Config
    data: Data
    model: Transformer
    optimizer: optax.GradientTransformation
    adaptation: Adaptation
    placement: BatchPlacement
    validation_placement: BatchPlacement
    checkpoints: Checkpoints
    train_step: TrainStep

    def loop(
        self, state: TrainState, progress: Progress, reporter: NoReporter, stopped: StopRequest
    ) -> tuple[TrainState, Ending]:
        """Updates the state until the last step, early stopping, or a signal.

        Returns:
          The last state, which is saved, and the reason for the end, which is reported.
        """
        validation = Validation(
            self.config,
            self.validation_placement,
            self.data,
            self.model,
            make_eval_step(self.model),
        )
        if progress.validation_due:
            progress = self._make_up_validation(state, progress, reporter, validation, stopped)
        ended_by_signal = progress.validation_due
        if not ended_by_signal:
            state, progress, ended_by_signal = self._update(
                state, progress, reporter, validation, stopped
            )
        step = int(state.step)
        if not ended_by_signal:
            reporter.end(step, self._why_complete(step, progress))
            return state, "complete"
        name = signal.Signals(stopped.number).name if stopped.number else "a request"
        reporter.end(step, f"{name} stopped the run at step {step} of {self._num_steps}")
        return state, "preempted" if stopped.number == signal.SIGTERM else "interrupted"

    def _update(
        self,
        state: TrainState,
        progress: Progress,
        reporter: NoReporter,
        validation: Validation,
        stopped: StopRequest,
    ) -> tuple[TrainState, Progress, bool]:
        """Returns state and progress at the end, and whether a signal stopped the run.

        Metrics stay on the device until a log line or a checkpoint.
        """
        config = self.config.training
        schedule = make_schedule(config, self.config.model.d_model)
        batches = self.data.train_iterator()
        batches.set_state(progress.data)
        window: list[Metrics] = []  # of the updates since the last log line
        positions: list[dict[str, int]] = []  # of their batches in the data
        skipped = 0  # updates in a row, up to the last log line
        compiled: set[tuple[int, ...]] = set()  # shapes
        window_start = time.monotonic()
        step = int(state.step)
        while step < config.num_steps and not self._out_of_patience(progress):
            positions.append(batches.get_state())
            batch = self.placement(next(batches))
            state, step_metrics, seconds = self._compile_and_step(state, batch, compiled, reporter)
            window_start += seconds  # tokens/s count training only
            step += 1
            window.append(step_metrics)
            if len(window) >= MAX_PENDING:
                jax.block_until_ready(window[-MAX_PENDING])
            last = step == config.num_steps
            log = step % config.log_every == 0 or last
            stop = should_stop(stopped, step, synchronize=log)
            due = bool(config.validate_every) and step % config.validate_every == 0
            validate = last or due
            scheduled = due or step % config.checkpoint_every == 0
            save = last or scheduled or stop

            if log or save:  # check the updates before anything is kept
                done = jax.device_get(window)
                self._check_finite(done, positions, step, skipped)
            if log:
                skipped = skipped_in_a_row(done, skipped)
                rate = float(np.asarray(schedule(step - 1)))
                metrics = window_metrics(done, time.monotonic() - window_start)
                reporter.train(step, metrics | {"learning_rate": rate})
                window, positions, window_start = [], [], time.monotonic()
            if save:
                pause = time.monotonic()
                progress = progress._replace(data=batches.get_state())
                scores = None
                if validate and self.data.validation:
                    progress = progress._replace(validation_due=True)
                    if not stop:
                        progress, scores = self._validate(
                            state, progress, reporter, validation, stopped
                        )
                self._save(step, state, progress, scores, scheduled=scheduled)
                window_start += time.monotonic() - pause

            if progress.validation_due or (stop and not last):
                return state, progress, True
        return state, progress, False

    def _compile_and_step(
        self,
        state: TrainState,
        batch: Batch,
        compiled: set[tuple[int, ...]],
        reporter: NoReporter,
    ) -> tuple[TrainState, Metrics, float]:
        """Returns state and metrics after an update, and the seconds of a compilation.

        The first update with a batch shape compiles it, which can take a minute.
        """
        shape = (*batch.inputs.shape, batch.targets.shape[-1])
        if shape in compiled:
            return *self.train_step(state, batch), 0.0
        first = not compiled
        compiled.add(shape)
        count, rows, source, target = shape
        what = f"shape {len(compiled)} of {len(self.data.shapes)}"
        start = time.monotonic()
        reporter.message(f"compiling {what} ({BatchShape(count * rows, source, target)})")
        state, metrics = self.train_step(state, batch)
        seconds = time.monotonic() - start
        reporter.compiled(what, seconds)
        if first:
            jax.block_until_ready(metrics)
            reporter.message(f"step {int(state.step)}: the first update is done")
        return state, metrics, seconds

    @property
    def _num_steps(self) -> int:
        return self.config.training.num_steps

    def _why_complete(self, step: int, progress: Progress) -> str:
        if step >= self._num_steps:
            return f"all {self._num_steps} steps are done"
        best = progress.best or 0.0
        measure = f"BLEU {best:.2f}" if best > 0 else f"loss {-best:.4g}, as BLEU is 0"
        return (
            f"early stopping at step {step} of {self._num_steps}: the last {progress.waited} "
            f"validations were not better than the best before ({measure}); training.patience is "
            f"{self.config.training.patience}"
        )

    def _out_of_patience(self, progress: Progress) -> bool:
        patience = self.config.training.patience
        return bool(patience) and progress.waited >= patience

    def _check_finite(
        self, window: list[Metrics], positions: list[dict[str, int]], step: int, skipped: int
    ) -> None:
        """Raises ValueError for a skipped update, as far as `on_nonfinite` says.

        Too many in a row (`skipped` counts those before the window) always raise. Values that are
        not finite never enter the parameters, so all checkpoints are usable.
        """
        bad = [index for index, metrics in enumerate(window) if metrics.skipped]
        stop = self.config.training.on_nonfinite == "stop"
        if not bad or (not stop and skipped_in_a_row(window, skipped) < MAX_SKIPPED):
            return
        metrics, position = window[bad[0]], positions[bad[0]]
        number = step - len(window) + bad[0] + 1
        plan = self.data.epochs.plan(position["epoch"])
        newest = self.checkpoints.latest_step()
        raise ValueError(
            f"{'' if stop else f'{MAX_SKIPPED} updates in a row were skipped, such as '}"
            f"the update of step {number}: loss {metrics.loss}, gradient norm {metrics.grad_norm}, "
            f"with batch {position['index']} of epoch {position['epoch']}, "
            f"{plan.shape(position['index'])}. The parameters did not change; "
            + (f"the newest checkpoint is step {newest}" if newest else "there is no checkpoint")
            + ". Lower training.learning_rate or lengthen training.warmup_steps (or, in bfloat16, "
            "try float32); --training.on-nonfinite skip skips such batches."
        )

    def _validate(
        self,
        state: TrainState,
        progress: Progress,
        reporter: NoReporter,
        validation: Validation,
        stopped: StopRequest,
    ) -> tuple[Progress, dict[str, float] | None]:
        """Returns the progress after a validation, and its scores.

        A signal ends the validation, so that there is time to save. The progress is then the given
        one, without scores.
        """
        step, found = int(state.step), None
        reporter.message(f"step {step}: validating")
        with contextlib.suppress(Interrupted), stopped.may_interrupt():
            found = validation(eval_params(state, self.adaptation))
        if found is None:
            return progress, None
        scores, samples = found
        reporter.validation(step, scores, samples)
        return progress.after_validation(scores), scores

    def _make_up_validation(
        self,
        state: TrainState,
        progress: Progress,
        reporter: NoReporter,
        validation: Validation,
        stopped: StopRequest,
    ) -> Progress:
        """Returns the progress after the validation that a stop prevented, unless stopped again."""
        if not self.data.validation:
            return progress._replace(validation_due=False)
        step = int(state.step)
        scores = self.checkpoints.extras()["metrics"]
        if scores:  # a run after the stop has made it up, and was killed before the next checkpoint
            return progress.after_validation(scores)
        progress, found = self._validate(state, progress, reporter, validation, stopped)
        if found is not None:
            self.checkpoints.add_metrics(step, found)
        return progress

    def _save(
        self,
        step: int,
        state: TrainState,
        progress: Progress,
        scores: Mapping[str, float] | None,
        *,
        scheduled: bool,
    ) -> None:
        separate = has_separate_eval_params(state, self.adaptation)
        self.checkpoints.save(
            step,
            state,
            eval_params=eval_params(state, self.adaptation) if separate else None,
            data_state=progress._asdict(),
            metrics=scores,
            config=self.config,
            tokenizer_fingerprint=self.data.tokenizer.fingerprint,
            scheduled=scheduled,
        )


def skipped_in_a_row(window: list[Metrics], before: int) -> int:
    """Returns how many of the last updates were skipped; `before` counts those before `window`."""
    for metrics in window:
        before = before + 1 if metrics.skipped else 0
    return before


def start_or_resume(run: Run, *, accept_changed_data: bool) -> tuple[TrainState, Progress]:
    """Returns the newest checkpoint, or a fresh state, which depends on seed and init_from only.

    Raises:
      ValueError: the data differs from that of the checkpoint; the message lists the changes.
    """
    config, adaptation = run.config, run.adaptation
    new_state = functools.partial(
        init_state,
        run.model,
        run.optimizer,
        config.seed,
        adaptation=adaptation,
        with_ema=config.training.ema_decay > 0,
    )
    state_like = abstract_state(new_state, run.model, adaptation, run.placement.mesh)
    fingerprints = dict(run.data.fingerprints)
    if run.checkpoints.latest_step() is None:
        params = None
        if config.training.init_from:
            fingerprint = run.data.tokenizer.fingerprint
            params = initial_params(config.training.init_from, run.model, fingerprint)
        shardings = jax.tree.map(lambda x: x.sharding, state_like)
        state = jax.jit(lambda params: new_state(params=params), out_shardings=shardings)(params)
        first = run.data.train_iterator().get_state()
        return state, Progress(first, fingerprints=fingerprints)
    saved = config_from_dict(run.checkpoints.extras()["config"])
    check_same_state(saved.training, config.training)
    restored = run.checkpoints.restore(
        state_like, has_separate_eval_params=has_separate_eval_params(state_like, adaptation)
    )
    progress = Progress.from_dict(restored.data_state)
    lines = changed(progress.fingerprints, fingerprints)
    if not lines:
        return restored.state, progress._replace(fingerprints=fingerprints)
    lines += differences(saved.data, config.data, where="data")
    if config.data.exclude:
        lines.append(f"(data.exclude drops lines of {' and '.join(config.data.exclude)} from it)")
    if not accept_changed_data:
        raise ValueError(
            "the training data is not what it was when this run stopped:\n  "
            + "\n  ".join(lines)
            + "\nPut it back, or go on with the new data: --accept-changed-data"
        )
    next_epoch = {"epoch": progress.data["epoch"] + 1, "index": 0}
    return restored.state, progress._replace(data=next_epoch, fingerprints=fingerprints)
