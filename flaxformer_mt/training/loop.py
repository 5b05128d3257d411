"""A training run: its start or resume, and the loop of updates, validations and checkpoints."""

import contextlib
import dataclasses
import functools
import signal
import time
from typing import Any, Literal, NamedTuple, TypeAlias

import jax
import numpy as np
import optax

from flaxformer_mt.checkpoints.initial import initial_params
from flaxformer_mt.checkpoints.manager import Checkpoints
from flaxformer_mt.config import Config, config_from_dict, differences
from flaxformer_mt.data.fingerprints import changed
from flaxformer_mt.data.pipeline import Data
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.runtime.sharding import BatchPlacement
from flaxformer_mt.training.adapting import Adaptation
from flaxformer_mt.training.config import TrainingConfig
from flaxformer_mt.training.optimizer import make_schedule
from flaxformer_mt.training.reporting import NoReporter
from flaxformer_mt.training.state import (
    TrainState,
    abstract_state,
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


class Progress(NamedTuple):
    """The part of a run's progress that is not in its `TrainState`; JSON in each checkpoint.

    Attributes:
      data: state of the data iterator.
      best_bleu: highest validation BLEU so far, -1 before the first.
      waited: validations since then.
      fingerprints: of the training data (see data.fingerprints); a resume compares them.
    """

    data: dict[str, int]
    best_bleu: float = -1.0
    waited: int = 0
    fingerprints: dict[str, str] = {}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Progress":
        """Returns the progress in a checkpoint; raises ValueError for one of a later version."""
        if unknown := sorted(set(values) - set(cls._fields)):
            raise ValueError(
                f"the checkpoint has the keys {', '.join(unknown)}, which this version does not "
                "know: resume it with the version that wrote it"
            )
        return cls(**values)

    def after_validation(self, bleu: float | None) -> "Progress":
        """Returns the progress after a validation with this BLEU."""
        if bleu is None or bleu > self.best_bleu:
            return self._replace(best_bleu=self.best_bleu if bleu is None else bleu, waited=0)
        return self._replace(waited=self.waited + 1)


@dataclasses.dataclass(frozen=True)
class Run:
    """The constant parts of one training run."""

    config: Config
    data: Data
    model: Transformer
    optimizer: optax.GradientTransformation
    adaptation: Adaptation
    placement: BatchPlacement
    checkpoints: Checkpoints
    train_step: TrainStep

    def loop(
        self, state: TrainState, progress: Progress, reporter: NoReporter, stopped: StopRequest
    ) -> tuple[TrainState, Ending]:
        """Updates the state until the last step, early stopping, or a signal.

        Metrics stay on the device until a log line or a checkpoint.

        Returns:
          The last state, which is saved, and the reason for the end.
        """
        config = self.config.training
        schedule = make_schedule(config, self.config.model.d_model)
        validation = Validation(
            self.config, self.placement, self.data, self.model, make_eval_step(self.model)
        )
        batches = self.data.train_iterator()
        batches.set_state(progress.data)
        window: list[Metrics] = []  # of the updates since the last log line
        positions: list[dict[str, int]] = []  # of their batches in the data
        skipped = 0  # updates in a row, up to the last log line
        window_start = time.monotonic()
        step = int(state.step)
        while step < config.num_steps and not self._out_of_patience(progress):
            positions.append(batches.get_state())
            state, step_metrics = self.train_step(state, self.placement(next(batches)))
            step += 1
            window.append(step_metrics)
            if len(window) >= MAX_PENDING:
                jax.block_until_ready(window[-MAX_PENDING])
            last = step == config.num_steps
            log = step % config.log_every == 0 or last
            stop = should_stop(stopped, step, synchronize=log)
            validate = last or (config.validate_every and step % config.validate_every == 0)
            save = validate or step % config.checkpoint_every == 0 or stop

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
                wanted = validate and (last or not stop)  # a stop skips the validation
                progress = self._save(
                    step, state, progress, reporter, validation if wanted else None, stopped
                )
                window_start += time.monotonic() - pause  # tokens/s count training only

            if stop and not last:
                preempted = stopped.number == signal.SIGTERM
                return state, "preempted" if preempted else "interrupted"
        return state, "complete"

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

    def _save(
        self,
        step: int,
        state: TrainState,
        progress: Progress,
        reporter: NoReporter,
        validation: Validation | None,
        stopped: StopRequest,
    ) -> Progress:
        """Validates, if there is a validation set, and saves.

        A signal ends the validation, so that there is time to save.

        Returns:
          The progress after the validation.
        """
        params = eval_params(state, self.adaptation)
        scores = None
        if validation and self.data.validation:
            with contextlib.suppress(Interrupted), stopped.may_interrupt():
                scores, samples = validation(params)
                reporter.validation(step, scores, samples)
                progress = progress.after_validation(scores.get("bleu"))
        self.checkpoints.save(
            step,
            state,
            eval_params=params if has_separate_eval_params(state, self.adaptation) else None,
            data_state=progress._asdict(),
            metrics=scores,
            config=self.config,
            tokenizer_fingerprint=self.data.tokenizer.fingerprint,
        )
        return progress


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
    if not accept_changed_data:
        raise ValueError(
            "the training data is not what it was when this run stopped:\n  "
            + "\n  ".join(lines)
            + "\nPut it back, or go on with the new data: --accept-changed-data"
        )
    next_epoch = {"epoch": progress.data["epoch"] + 1, "index": 0}
    return restored.state, progress._replace(data=next_epoch, fingerprints=fingerprints)


def check_same_state(saved: TrainingConfig, config: TrainingConfig) -> None:
    """Raises ValueError for settings whose training state has other arrays than the checkpoint."""
    fields = {"optimizer", "trainable", "lora_rank", "lora_alpha", "lora_target"}
    lines = [
        line
        for line in differences(saved, config, where="training")
        if line.split(":")[0].removeprefix("training.") in fields
    ]
    if bool(saved.ema_decay) != bool(config.ema_decay):
        lines.append(f"training.ema_decay: {saved.ema_decay} -> {config.ema_decay}")
    if lines:
        raise ValueError(
            "the checkpoints of this run hold another training state (there -> here):\n  "
            + "\n  ".join(lines)
            + "\nSet these back, or start from its parameters in a new --workdir, with "
            "--training.init-from."
        )
