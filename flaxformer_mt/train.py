"""Train a model: `python -m flaxformer_mt.train --config FILE --workdir DIR [--FIELD VALUE]`.

Told in the order in which it happens: `train` is the table of contents. The same command on the
same workdir goes on where the run stopped, whatever stopped it.
"""

import dataclasses
import sys
import time
from typing import NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

from flaxformer_mt import metrics
from flaxformer_mt.cli import guard
from flaxformer_mt.config import Config, parse, to_json
from flaxformer_mt.data.pair import Pair
from flaxformer_mt.data.pipeline import Data, build_data
from flaxformer_mt.data.sources import CorpusConfig
from flaxformer_mt.data.tokenizer import Tokenizer
from flaxformer_mt.decoding.requests import suppressed_tokens
from flaxformer_mt.decoding.translator import Translator
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.sharding import configure_cpu_devices, make_mesh, replicated, shard_batch
from flaxformer_mt.training.averaging import average_checkpoints
from flaxformer_mt.training.checkpoint import (
    Checkpoints,
    check_workdir,
    claim_workdir,
    forget_unused_tokenizer,
)
from flaxformer_mt.training.optimizer import make_optimizer, make_schedule
from flaxformer_mt.training.reporting import Reporter, Sample
from flaxformer_mt.training.state import Params, TrainState, init_state
from flaxformer_mt.training.step import EvalStep, Metrics, make_eval_step, make_train_step
from flaxformer_mt.training.stopping import should_stop, stop_signal

NUM_SAMPLES = 5


def main(args: list[str] | None = None) -> int:
    """The verb: exit status 0, or 2 after a message that says what to mend."""

    def work() -> None:
        config, workdir = parse(args, verb="train", description="Train a translation model.")
        train(config, workdir)

    return guard(work)


def train(config: Config, workdir: str, *, quiet: bool = False) -> bool:
    """Trains, or goes on training, the model of `config` in `workdir`.

    Args:
      config: what to train on, and how.
      workdir: holds all that the run makes; one that holds checkpoints is resumed.
      quiet: report to files alone, and leave out the held-out score at the end.

    Returns:
      Whether it came to its end; False if a signal stopped it, saved.

    Raises:
      ValueError, OSError: text, settings or a workdir that cannot be used; says which and why.
    """
    # ------------------------------------------------------------------ devices, workdir, data
    check_validation_set(config)
    configure_cpu_devices(config.mesh)
    mesh = make_mesh()
    check_workdir(workdir, config)
    forget_unused_tokenizer(workdir)
    data = build_data(
        config.data,
        tokenizer_directory=f"{workdir}/tokenizer",
        seed=config.seed,
        process_index=jax.process_index(),
        process_count=jax.process_count(),
        rows_multiple_of=mesh.size,
    )
    check_workdir(workdir, config, data.tokenizer.fingerprint)
    check_beams(config, data.tokenizer)

    # ------------------------------------------------------------------ model, state, checkpoints
    model = Transformer(
        config.model,
        source_vocab_size=data.tokenizer.source.size,
        target_vocab_size=data.tokenizer.target.size,
        bos_id=data.tokenizer.target.bos_id,
    )
    checkpoints = Checkpoints(
        workdir, keep_last=config.training.keep_last, keep_best=config.training.keep_best
    )
    run = Run(config, workdir, mesh, data, model, checkpoints)
    state, progress = run.start_or_resume()
    claim_workdir(workdir, config, data.tokenizer.fingerprint)  # all fits: now config.json is ours
    reporter = Reporter(
        workdir,
        resume_step=int(state.step),
        total_steps=config.training.num_steps,
        quiet=quiet or jax.process_index() > 0,
    )
    reporter.message(run.describe(state))

    # ------------------------------------------------------------------ train, average, evaluate
    try:
        state, finished = run.loop(state, progress, reporter)
        checkpoints.close()
    finally:
        reporter.close()
    if not finished:
        print(f"stopped at step {int(state.step)}, saved; the same command goes on from there")
        return False
    average(config, workdir)
    if not quiet:
        show_result(config, workdir, data)
    return True


def check_validation_set(config: Config) -> None:
    """Raises ValueError, before any time is spent, for what only a validation set can give."""
    if config.data.validation != CorpusConfig():
        return
    for name, meaning in (
        ("average_best", "averages the checkpoints with the best validation BLEU"),
        ("patience", "waits for a better validation BLEU"),
    ):
        if getattr(config.training, name):
            raise ValueError(
                f"training.{name} {meaning}, but data.validation lists no text: give "
                f"data.validation.source and data.validation.target, or set training.{name} to 0"
            )


def check_beams(config: Config, tokenizer: Tokenizer) -> None:
    """Raises ValueError for a search that the vocabulary does not allow: now, not at the end."""
    widest = max(config.decoding.beam_size, config.training.validation_beam_size)
    suppressed_tokens(tokenizer, dataclasses.replace(config.decoding, beam_size=widest))


class Progress(NamedTuple):
    """What a run has to remember beside its `TrainState`; JSON in each checkpoint.

    Attributes:
      data: state of the data iterator.
      best_bleu: highest validation BLEU so far, -1 before the first.
      waited: validations since then.
    """

    data: dict[str, int]
    best_bleu: float = -1.0
    waited: int = 0

    def after_validation(self, bleu: float | None) -> "Progress":
        """Counts the validations since the best one."""
        if bleu is None or bleu > self.best_bleu:
            return self._replace(best_bleu=self.best_bleu if bleu is None else bleu, waited=0)
        return self._replace(waited=self.waited + 1)


@dataclasses.dataclass(frozen=True)
class Run:
    """The fixed parts of one training run."""

    config: Config
    workdir: str
    mesh: Mesh
    data: Data
    model: Transformer
    checkpoints: Checkpoints

    def start_or_resume(self) -> tuple[TrainState, Progress]:
        """The newest checkpoint, or a fresh state that depends on the seed alone."""
        optimizer = make_optimizer(self.config.training, self.config.model.d_model)

        def fresh() -> TrainState:
            return init_state(self.model, optimizer, self.config.seed)

        state = jax.jit(fresh, out_shardings=replicated(self.mesh))()
        if self.checkpoints.latest_step() is None:
            return state, Progress(dict(self.data.train_iterator().get_state()))
        restored = self.checkpoints.restore(state)
        return restored.state, Progress(**restored.data_state)

    def describe(self, state: TrainState) -> str:
        """What is about to happen, for the person at the terminal."""
        count = sum(x.size for x in jax.tree.leaves(state.params))
        kind = jax.devices()[0].device_kind
        saved = self.checkpoints.latest_step()
        start = "from scratch" if saved is None else f"resumed at step {saved}"
        return (
            f"{self.data.report}\n"
            f"model       {count:,} parameters on {self.mesh.size} x {kind}\n"
            f"workdir     {self.workdir}, {start}"
        )

    def loop(
        self, state: TrainState, progress: Progress, reporter: Reporter
    ) -> tuple[TrainState, bool]:
        """Updates until the last step, early stopping, or a signal to stop.

        The device is never waited for between two log lines: metrics stay on it until then.

        Returns:
          The last state, and whether the run is complete (not stopped by a signal).
        """
        config = self.config.training
        optimizer = make_optimizer(config, self.config.model.d_model)
        train_step = make_train_step(self.model, optimizer, label_smoothing=config.label_smoothing)
        eval_step = make_eval_step(self.model)
        schedule = make_schedule(config, self.config.model.d_model)
        batches = self.data.train_iterator()
        batches.set_state(progress.data)
        window: list[Metrics] = []
        window_start = time.monotonic()
        step = int(state.step)
        with stop_signal() as stopped:
            while step < config.num_steps and not self._out_of_patience(progress):
                state, step_metrics = train_step(state, shard_batch(next(batches), self.mesh))
                step += 1
                window.append(step_metrics)
                last = step == config.num_steps
                log = step % config.log_every == 0 or last

                if log:
                    averages = average_metrics(jax.device_get(window))
                    seconds = time.monotonic() - window_start
                    rates = {
                        "tokens_per_second": averages.pop("target_tokens") / seconds,
                        "learning_rate": float(np.asarray(schedule(step - 1))),
                    }
                    reporter.train(step, averages | rates)
                    window, window_start = [], time.monotonic()

                stop = should_stop(stopped, rendezvous=log)
                validate = last or (config.validate_every and step % config.validate_every == 0)
                if validate or step % config.checkpoint_every == 0 or stop:
                    pause = time.monotonic()
                    progress = progress._replace(data=dict(batches.get_state()))
                    scores = self._validate(eval_step, state, reporter) if validate else None
                    if scores is not None:
                        progress = progress.after_validation(scores.get("bleu"))
                    self._save(step, state, progress, scores)
                    window_start += time.monotonic() - pause  # tokens/s are those of training

                if stop:
                    return state, last
        return state, True

    def _out_of_patience(self, progress: Progress) -> bool:
        patience = self.config.training.patience
        return bool(patience) and progress.waited >= patience

    def _save(
        self, step: int, state: TrainState, progress: Progress, scores: dict[str, float] | None
    ) -> None:
        self.checkpoints.save(
            step,
            state,
            data_state=progress._asdict(),
            metrics=scores,
            config_json=to_json(self.config),
            tokenizer_fingerprint=self.data.tokenizer.fingerprint,
        )

    def _validate(
        self, eval_step: EvalStep, state: TrainState, reporter: Reporter
    ) -> dict[str, float] | None:
        """Loss and perplexity of the validation set, BLEU of its first pairs, some translations."""
        if not self.data.validation:
            return None
        batches = (shard_batch(batch, self.mesh) for batch in self.data.validation_batches())
        losses = jax.device_get([eval_step(state.params, batch) for batch in batches])
        scores: dict[str, float] = {}
        if losses:  # none where every pair is too long to train on
            nll = average_metrics(losses)["nll"]
            scores = {"loss": nll, "perplexity": float(np.exp(nll))}
        samples: list[Sample] = []
        pairs = self.data.validation[: self.config.training.validation_pairs]
        if pairs:
            beam_size = self.config.training.validation_beam_size
            translator = make_translator(self.config, self.model, state.params, self.data)
            bleu, samples = translate_and_score(self.config, translator, pairs, beam_size=beam_size)
            scores["bleu"] = bleu.value
        reporter.validation(int(state.step), scores, samples)
        return scores


def average_metrics(window: list[Metrics]) -> dict[str, float]:
    """Means per target token over several batches, the total of target tokens, mean grad norm."""
    tokens = np.array([m.target_tokens for m in window])
    total = max(float(tokens.sum()), 1.0)
    return {
        "loss": float(np.dot([m.loss for m in window], tokens)) / total,
        "nll": float(np.dot([m.nll for m in window], tokens)) / total,
        "grad_norm": float(np.mean([m.grad_norm for m in window])),
        "target_tokens": total,
    }


def make_translator(config: Config, model: Transformer, params: Params, data: Data) -> Translator:
    """A translator of parameters that are in training: of the copy that one device here has."""
    local = jax.tree.map(lambda x: x.addressable_data(0), params)
    return Translator(
        model,
        local,
        data.tokenizer,
        config.decoding,
        max_source_length=config.data.max_source_length,
    )


def translate_and_score(
    config: Config, translator: Translator, pairs: tuple[Pair, ...], *, beam_size: int | None = None
) -> tuple[metrics.MetricScore, list[Sample]]:
    """BLEU of the translations of `pairs`, and the first few of them to read."""
    sources = [pair.source for pair in pairs]
    references = [pair.target for pair in pairs]
    num_hypotheses = 1 if beam_size is not None else None
    found = translator.translate(sources, beam_size=beam_size, num_hypotheses=num_hypotheses)
    translations = [hypotheses[0].text for hypotheses in found]
    tokenize = metrics.default_tokenize(config.data.target_language)
    score = metrics.bleu(translations, references, tokenize=tokenize)
    texts = zip(sources, references, translations, strict=True)
    return score, [Sample(*text) for text in texts][:NUM_SAMPLES]


def average(config: Config, workdir: str) -> None:
    """Averages checkpoints, if the config asks for it."""
    last, best = config.training.average_last, config.training.average_best
    if last or best:
        averaged = average_checkpoints(workdir, last=last or None, best=best or None, or_fewer=True)
        print(f"averaged the checkpoints of steps {', '.join(map(str, averaged.steps))}")


def show_result(config: Config, workdir: str, data: Data) -> None:
    """The held-out score, some translations, and what to do next."""
    pairs = data.test or data.validation
    if pairs:
        # Not "auto": an average in the workdir may be of an earlier training.
        has_average = config.training.average_last or config.training.average_best
        which = "averaged" if has_average else "best" if data.validation else "last"
        translator = Translator.load(workdir, which=which)
        score, samples = translate_and_score(config, translator, pairs)
        for sample in samples:
            print(f"\nsource       {sample.source}")
            print(f"reference    {sample.reference}")
            print(f"translation  {sample.translation}")
        held_out = "test" if data.test else "validation"
        print(f"\nheld-out ({held_out}, {len(pairs):,} pairs): {score}")
    print(
        f"\nThe model is in {workdir}. Try:\n"
        f'  echo "{example_sentence(pairs)}" | '
        f"{sys.executable} -m flaxformer_mt.translate --workdir {workdir}"
    )


def example_sentence(pairs: tuple[Pair, ...]) -> str:
    """A sentence that can stand between double quotes on a command line."""
    plain = (pair.source for pair in pairs if not set(pair.source) & set('"$`\\!'))
    return next(plain, "Hello.")


if __name__ == "__main__":
    sys.exit(main())
