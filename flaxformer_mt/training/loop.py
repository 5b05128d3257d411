"""The loop of training: updates, and what happens between them."""

import contextlib
import dataclasses
import math
import signal
import time
from typing import Any, Literal, NamedTuple, TypeAlias

import jax
import numpy as np
import optax

from flaxformer_mt.config import Config, to_json
from flaxformer_mt.data.pipeline import Data
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.runtime.processes import broadcast_from_first
from flaxformer_mt.runtime.sharding import BatchPlacement
from flaxformer_mt.training.adapting import Adaptation
from flaxformer_mt.training.checkpoint import Checkpoints
from flaxformer_mt.training.deadline import Pace
from flaxformer_mt.training.optimizer import make_schedule
from flaxformer_mt.training.reporting import NoReporter
from flaxformer_mt.training.state import TrainState, has_separate_eval_params, published
from flaxformer_mt.training.step import Metrics, TrainStep, make_eval_step
from flaxformer_mt.training.stopping import Interrupted, StopRequest, should_stop
from flaxformer_mt.training.validation import Validation, describe_window

Ending: TypeAlias = Literal["complete", "preempted", "interrupted", "deadline"]


MOST_SKIPPED = 10
"""Updates in a row that are not finite: more of them is no accident."""
AHEAD = 2
"""Updates that the device may have before it: it has no need to wait, and a signal waits for no
more."""

_ENDINGS: dict[int, Ending] = {signal.SIGTERM: "preempted", signal.SIGINT: "interrupted"}


class Progress(NamedTuple):
    """What a run has to remember beside its `TrainState`; JSON in each checkpoint.

    Attributes:
      data: state of the data iterator.
      best_bleu: highest validation BLEU so far, -1 before the first.
      waited: validations since then.
      fingerprints: of the data (see data.fingerprints), which must be the same at a resume.
    """

    data: dict[str, int]
    best_bleu: float = -1.0
    waited: int = 0
    fingerprints: dict[str, str] = {}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Progress":
        """What a checkpoint holds; raises ValueError for one of another version."""
        if unknown := sorted(set(values) - set(cls._fields)):
            raise ValueError(
                f"the checkpoint tells of {', '.join(unknown)}, which this version does not know: "
                "resume it with the version that wrote it"
            )
        return cls(**values)

    def after_validation(self, bleu: float | None) -> "Progress":
        """Counts the validations since the best one."""
        if bleu is None or bleu > self.best_bleu:
            return self._replace(best_bleu=self.best_bleu if bleu is None else bleu, waited=0)
        return self._replace(waited=self.waited + 1)


@dataclasses.dataclass(frozen=True)
class Run:
    """The fixed parts of one training run."""

    config: Config
    data: Data
    model: Transformer
    optimizer: optax.GradientTransformation
    adaptation: Adaptation
    placement: BatchPlacement
    checkpoints: Checkpoints
    train_step: TrainStep
    deadline: float
    """Seconds since 1970; infinity = none."""
    pace: Pace

    def loop(
        self, state: TrainState, progress: Progress, reporter: NoReporter, stopped: StopRequest
    ) -> tuple[TrainState, Ending]:
        """Updates until the last step, early stopping, a signal to stop, or the deadline.

        Metrics stay on the device until a log line, for which the host waits for all updates; else
        it is `AHEAD` of the device.

        Returns:
          The last state, saved, and why it is the last.
        """
        config = self.config.training
        schedule = make_schedule(config, self.config.model.d_model)
        validation = Validation(
            self.config, self.placement, self.data, self.model, make_eval_step(self.model)
        )
        batches = self.data.train_iterator()
        batches.set_state(progress.data)
        window: list[Metrics] = []
        places: list[dict[str, int]] = []
        skipped = 0  # updates in a row, up to the last log line
        window_start = last_update = time.monotonic()
        step = int(state.step)
        while step < config.num_steps and not self._out_of_patience(progress):
            places.append(batches.get_state())
            state, step_metrics = self.train_step(state, self.placement(next(batches)))
            step += 1
            window.append(step_metrics)
            if len(window) >= AHEAD:
                jax.block_until_ready(window[-AHEAD])
            last = step == config.num_steps
            log = step % config.log_every == 0 or last
            self.pace.longest_step = max(self.pace.longest_step, time.monotonic() - last_update)

            late = self._late()
            stop = should_stop(stopped, step, late=late, rendezvous=log)
            validate = last or (config.validate_every and step % config.validate_every == 0)
            save = validate or step % config.checkpoint_every == 0 or stop

            if log or save:  # nothing is kept before it is known to be finite
                done = jax.device_get(window)
                self._check_finite(done, places, step, skipped)
            if log:
                skipped = skipped_in_a_row(done, skipped)
                seconds = time.monotonic() - window_start
                rate = float(np.asarray(schedule(step - 1)))
                reporter.train(step, describe_window(done, seconds) | {"learning_rate": rate})
                self.pace.window = seconds
                window, places, window_start = [], [], time.monotonic()
            if save:
                pause = time.monotonic()
                progress = progress._replace(data=batches.get_state())
                wanted = validate and (last or not stop)  # who is stopped has no time to validate
                progress = self._save(
                    step, state, progress, reporter, validation if wanted else None, stopped
                )
                window_start += time.monotonic() - pause  # tokens/s are those of training
            last_update = time.monotonic()

            if stop and not last:
                return state, _ENDINGS.get(stopped.number, "deadline")
        return state, "complete"

    def _late(self) -> bool:
        """Whether what comes after training needs the time that is left."""
        if math.isinf(self.deadline):
            return False
        pairs = len(self.data.test or self.data.validation)
        return self.pace.too_late(
            self.deadline, pairs=pairs, beam_size=self.config.decoding.beam_size
        )

    def time_to_evaluate(self, pairs: int) -> bool:
        """Whether the deadline leaves time for the held-out score."""
        needed = self.pace.evaluation(pairs, self.config.decoding.beam_size)
        return broadcast_from_first(time.time() + needed < self.deadline)

    def _out_of_patience(self, progress: Progress) -> bool:
        patience = self.config.training.patience
        return bool(patience) and progress.waited >= patience

    def _check_finite(
        self, window: list[Metrics], places: list[dict[str, int]], step: int, skipped: int
    ) -> None:
        """Raises ValueError for the first update that was skipped, if that is the policy; and
        whatever the policy, for too many of them in a row (`skipped` are those before the window).

        What is not finite never enters the parameters, so the checkpoints are good ones.
        """
        bad = [index for index, metrics in enumerate(window) if metrics.skipped]
        stop = self.config.training.on_nonfinite == "stop"
        if not bad or (not stop and skipped_in_a_row(window, skipped) < MOST_SKIPPED):
            return
        metrics, place = window[bad[0]], places[bad[0]]
        number = step - len(window) + bad[0] + 1
        plan = self.data.epochs.plan(place["epoch"])
        newest = self.checkpoints.latest_step()
        raise ValueError(
            f"{'' if stop else f'{MOST_SKIPPED} updates in a row were skipped, such as '}"
            f"the update of step {number}: loss {metrics.loss}, gradient norm {metrics.grad_norm}, "
            f"with batch {place['index']} of epoch {place['epoch']}, {plan.shape(place['index'])}. "
            "The parameters were left as they were; "
            + (f"the newest checkpoint is step {newest}" if newest else "no checkpoint is there")
            + ". Lower training.learning_rate or lengthen training.warmup_steps (or, in bfloat16, "
            "try float32); --training.on-nonfinite skip goes past such batches."
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
        """Validates, where there is something to validate with, and saves.

        A signal ends the validation, so that there is time to save.

        Returns `progress` with the validation counted.
        """
        start = time.monotonic()
        shown = published(state, self.adaptation)
        scores = None
        if validation and self.data.validation:
            with contextlib.suppress(Interrupted), stopped.may_interrupt():
                scores, samples = validation(shown)
                reporter.validation(step, scores, samples)
                progress = progress.after_validation(scores.get("bleu"))
                pairs = min(len(self.data.validation), self.config.training.validation_pairs)
                self.pace.validated(time.monotonic() - start, pairs)
        start = time.monotonic()
        self.checkpoints.save(
            step,
            state,
            published=shown if has_separate_eval_params(state, self.adaptation) else None,
            data_state=progress._asdict(),
            metrics=scores,
            config_json=to_json(self.config),
            tokenizer_fingerprint=self.data.tokenizer.fingerprint,
        )
        self.pace.save = max(self.pace.save, time.monotonic() - start)
        return progress


def skipped_in_a_row(window: list[Metrics], before: int) -> int:
    """How many of the last updates were skipped, with `before` of them before the window."""
    for metrics in window:
        before = before + 1 if metrics.skipped else 0
    return before
