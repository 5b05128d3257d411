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

from flaxformer_mt.checkpoints.loading import initial_params
from flaxformer_mt.checkpoints.manager import Checkpoints
from flaxformer_mt.config import Config, config_from_dict, differences
from flaxformer_mt.data.batching.batch import Batch, BatchShape
from flaxformer_mt.data.fingerprints import changed
from flaxformer_mt.data.pipeline import Data
from flaxformer_mt.data.sources.corpora import CorpusConfig
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.runtime.sharding import BatchPlacement
from flaxformer_mt.training.adapting import Adaptation
from flaxformer_mt.training.compiling import CompilationsAhead, PlacedShape, placed_shape
from flaxformer_mt.training.optimizer import make_schedule
from flaxformer_mt.training.reporting import Reporter
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
from flaxformer_mt.training.validation import Validation, average_metrics

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


def start_or_resume(run: Run, *, accept_changed_data: bool) -> tuple[TrainState, Progress]:
    """Returns the state and progress of the newest checkpoint, or fresh ones.

    A fresh state depends on seed and init_from only. Raises ValueError, with the changes, if the
    data differs from that of the checkpoint.
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
    if _validation_of(saved) != _validation_of(config):  # `patience` cannot compare the scores
        progress = progress._replace(best=None, waited=0)
    lines = changed(progress.fingerprints, fingerprints)
    if not lines:
        return restored.state, progress._replace(fingerprints=fingerprints)
    lines += differences(saved.data, config.data, where="data")
    if config.data.exclude:
        lines.append(
            f"(data.exclude drops lines of {' and '.join(config.data.exclude)} from this data)"
        )
    if not accept_changed_data:
        raise ValueError(
            "the training data is not what it was when this run stopped:\n  "
            + "\n  ".join(lines)
            + "\nPut it back, or continue with the new data: --accept-changed-data. Choose another "
            "--workdir for a new run."
        )
    next_epoch = {"epoch": progress.data["epoch"] + 1, "index": 0}
    return restored.state, progress._replace(data=next_epoch, fingerprints=fingerprints)


def _validation_of(config: Config) -> tuple[CorpusConfig, int]:
    """Returns the settings that choose the sentences of a validation."""
    return config.data.validation, config.training.validation_pairs


class Loop:
    """The updates, validations and checkpoints of a run, from its start or resume to its end.

    `start` is the result of `start_or_resume`. The attributes `state` and `progress` are current.
    """

    def __init__(
        self, run: Run, start: tuple[TrainState, Progress], reporter: Reporter, stop: StopRequest
    ):
        self.run, self._reporter, self._stopped = run, reporter, stop
        self.state, self.progress = start
        self._config = run.config.training
        self._schedule = make_schedule(self._config, run.config.model.d_model)
        placement, eval_step = run.validation_placement, make_eval_step(run.model)
        self._validation = Validation(run.config, placement, run.data, run.model, eval_step)
        self._ahead = CompilationsAhead(run.train_step, self.state, run.placement)
        self._compiled: set[PlacedShape] = set()
        # Metrics of the updates since the last log line, on the device until the next one.
        self._window: list[Metrics] = []
        self._positions: list[dict[str, int]] = []  # data positions of the batches of these updates
        self._window_start = 0.0
        self._skipped = 0  # consecutive skipped updates, up to the last log line

    def __call__(self) -> Ending:
        """Updates the state until the last step, early stopping, or a signal. Saves the last state.

        It returns and reports the reason for the end.
        """
        if self.progress.validation_due:
            self._make_up_validation()
        try:
            ended_by_signal = self.progress.validation_due or self._update()
        finally:
            self._ahead.close()
        self.run.checkpoints.close()  # completes the last save
        step = int(self.state.step)
        # With several processes, a late signal is ignored: it may have reached only one of them.
        is_late = self._stopped.number and jax.process_count() == 1
        if not (ended_by_signal or is_late):
            self._reporter.end(step, self._why_complete(step))
            return "complete"
        number = self._stopped.number
        name = signal.Signals(number).name if number else "a request"
        self._reporter.end(
            step, f"{name} stopped the run at step {step} of {self._config.num_steps}"
        )
        return "interrupted" if number in (0, signal.SIGINT) else "preempted"

    def _update(self) -> bool:
        """Runs updates to the end of the run; returns whether a signal stopped it."""
        config = self._config
        batches = self.run.data.train_iterator()
        batches.set_state(self.progress.data)
        self._window_start = time.monotonic()
        step = int(self.state.step)
        while step < config.num_steps and not 0 < config.patience <= self.progress.waited:
            self._positions.append(batches.get_state())
            self._step(self.run.placement(next(batches)))
            step += 1
            if len(self._window) >= MAX_PENDING:
                jax.block_until_ready(self._window[-MAX_PENDING])
            last = step == config.num_steps
            log = step % config.log_every == 0 or last
            stop = should_stop(self._stopped, step, synchronize=log)
            due = bool(config.validate_every) and step % config.validate_every == 0
            scheduled = due or step % config.checkpoint_every == 0
            if log or scheduled or stop:  # checks the updates before a save
                self._report(step, log=log)
            if last or scheduled or stop:
                pause = time.monotonic()
                self.progress = self.progress._replace(data=batches.get_state())
                self._validate_and_save(
                    validate=(last or due) and bool(self.run.data.validation),
                    scheduled=scheduled,
                    stop=stop,
                )
                self._window_start += time.monotonic() - pause
            if self.progress.validation_due or (stop and not last):
                return True
        return False

    def _step(self, batch: Batch) -> None:
        """Updates the state.

        The first update with a batch shape compiles the step, or waits for its compilation. This
        can take a minute, which does not count in tokens/s.
        """
        run, shape = self.run, placed_shape(batch)
        if shape in self._compiled:
            self.state, metrics = run.train_step(self.state, batch)
            self._window.append(metrics)
            return
        if not self._compiled:
            self._ahead.start(run.data.shapes, but=shape)
        self._compiled.add(shape)
        count, rows, source, target = shape
        what = f"shape {len(self._compiled)} of {len(run.data.shapes)}"
        start = time.monotonic()
        self._reporter.message(f"compiling {what} ({BatchShape(count * rows, source, target)})")
        self._ahead.wait_for(shape)
        self.state, metrics = run.train_step(self.state, batch)
        self._window.append(metrics)
        seconds = time.monotonic() - start
        self._reporter.compiled(what, seconds)
        if len(self._compiled) == 1:
            jax.block_until_ready(metrics)
            self._reporter.message(f"step {int(self.state.step)}: the first update is done")
        self._window_start += seconds

    def _report(self, step: int, *, log: bool) -> None:
        """Checks the updates since the last log line, and reports them if `log`."""
        done = jax.device_get(self._window)
        self._check_finite(done, step)
        if not log:
            return
        self._skipped = skipped_in_a_row(done, self._skipped)
        metrics = average_metrics(done)
        seconds = time.monotonic() - self._window_start
        metrics["tokens_per_second"] = metrics.pop("target_tokens") / seconds
        metrics["learning_rate"] = float(np.asarray(self._schedule(step - 1)))
        self._reporter.train(step, metrics)
        self._window, self._positions, self._window_start = [], [], time.monotonic()

    def _why_complete(self, step: int) -> str:
        if step >= self._config.num_steps:
            return f"all {self._config.num_steps} steps are done"
        best = self.progress.best or 0.0
        measure = f"BLEU {best:.2f}" if best > 0 else f"loss {-best:.4g}, as BLEU is 0"
        return (
            f"early stopping at step {step} of {self._config.num_steps}: the last "
            f"{self.progress.waited} validations were not better than the best before "
            f"({measure}); training.patience is {self._config.patience}"
        )

    def _check_finite(self, window: list[Metrics], step: int) -> None:
        """Raises ValueError for a skipped update, or with `on_nonfinite` "skip" for many in a row.

        Values that are not finite never enter the parameters, so all checkpoints are usable.
        """
        bad = [index for index, metrics in enumerate(window) if metrics.skipped]
        stop = self._config.on_nonfinite == "stop"
        if not bad or (not stop and skipped_in_a_row(window, self._skipped) < MAX_SKIPPED):
            return
        metrics, position = window[bad[0]], self._positions[bad[0]]
        number = step - len(window) + bad[0] + 1
        newest = self.run.checkpoints.latest_step()
        kept = "no checkpoint exists"
        if newest is not None:
            kept = f"the newest checkpoint is step {newest}"
        raise ValueError(
            f"{'' if stop else f'{MAX_SKIPPED} updates in a row were skipped: '}the update of step "
            f"{number} was not finite: loss {metrics.loss}, gradient norm {metrics.grad_norm}, "
            f"with batch {position['index']} of epoch {position['epoch']}. The parameters did not "
            f"change; {kept}. Lower training.learning_rate or lengthen training.warmup_steps (or, "
            "in bfloat16, try float32)"
            + ("; --training.on-nonfinite skip skips such batches." if stop else ".")
        )

    def _validate(self) -> dict[str, float] | None:
        """Validates, and returns the scores; returns None if a signal ended the validation.

        A signal abandons a validation, so that there is time to save the state.
        """
        step, found = int(self.state.step), None
        self._reporter.message(f"step {step}: validating")
        with contextlib.suppress(Interrupted), self._stopped.may_interrupt():
            found = self._validation(eval_params(self.state, self.run.adaptation))
        if found is None:
            return None
        scores, samples = found
        self._reporter.validation(step, scores, samples)
        self.progress = self.progress.after_validation(scores)
        return scores

    def _make_up_validation(self) -> None:
        """Runs the validation that a stop prevented. After another stop, it is still due."""
        checkpoints = self.run.checkpoints
        if not self.run.data.validation:
            self.progress = self.progress._replace(validation_due=False)
        elif scores := checkpoints.extras()["metrics"]:
            # An earlier resumed run did it, but was killed before its next checkpoint.
            self.progress = self.progress.after_validation(scores)
        elif scores := self._validate():
            checkpoints.add_metrics(int(self.state.step), scores)

    def _validate_and_save(self, *, validate: bool, scheduled: bool, stop: bool) -> None:
        """Saves the state, after a validation if `validate` is true and the run does not stop."""
        scores: Mapping[str, float] | None = None
        if validate:
            self.progress = self.progress._replace(validation_due=True)
            scores = None if stop else self._validate()
        run, state = self.run, self.state
        separate = has_separate_eval_params(state, run.adaptation)
        self._reporter.flush()
        run.checkpoints.save(
            int(state.step),
            state,
            eval_params=eval_params(state, run.adaptation) if separate else None,
            data_state=self.progress._asdict(),
            metrics=scores,
            config=run.config,
            tokenizer_fingerprint=run.data.tokenizer.fingerprint,
            scheduled=scheduled,
        )


def skipped_in_a_row(window: list[Metrics], before: int) -> int:
    """Returns how many of the last updates were skipped; `before` counts those before `window`."""
    for metrics in window:
        before = before + 1 if metrics.skipped else 0
    return before
