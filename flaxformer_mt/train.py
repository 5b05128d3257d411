"""Train a model: `python -m flaxformer_mt.train --config FILE --workdir DIR [--FIELD VALUE]`.

Told in the order in which it happens: `train` is the table of contents. The same command on the
same workdir goes on where the run stopped, whatever stopped it, on whatever devices there are.
"""

import dataclasses
import math
import sys
import time
from pathlib import Path

import jax

from flaxformer_mt.cli import command
from flaxformer_mt.config import Config, ConfigArguments, differences
from flaxformer_mt.data.fingerprints import changed
from flaxformer_mt.data.pipeline import Data, build_data
from flaxformer_mt.data.sources.corpora import CorpusConfig
from flaxformer_mt.data.sources.pair import Pair
from flaxformer_mt.data.tokenization.tokenizer import Tokenizer
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.planning.memory import memory_table, plan_micro_batches
from flaxformer_mt.runtime.compilation_cache import keep_programs
from flaxformer_mt.runtime.dataclass_json import from_dict
from flaxformer_mt.runtime.exit import leave
from flaxformer_mt.runtime.host_memory import share_freed_memory
from flaxformer_mt.runtime.processes import (
    connect,
    exit_if_peer_lost,
    first_then_others,
    is_first,
    print_from_first,
)
from flaxformer_mt.runtime.sharding import (
    BatchPlacement,
    configure_cpu_devices,
    make_mesh,
    make_share,
    parse_memory,
)
from flaxformer_mt.training.adapting import make_adaptation
from flaxformer_mt.training.averaging import average_checkpoints
from flaxformer_mt.training.checkpoint import (
    Checkpoints,
    check_workdir,
    claim_workdir,
    forget_unused_tokenizer,
    was_validated,
)
from flaxformer_mt.training.config import TrainingConfig
from flaxformer_mt.training.deadline import Pace, parse_deadline
from flaxformer_mt.training.integrity import saved_steps
from flaxformer_mt.training.loop import Ending, Progress, Run
from flaxformer_mt.training.optimizer import make_optimizer
from flaxformer_mt.training.reporting import NoReporter, Reporter
from flaxformer_mt.training.starting import adopt_tokenizer, start_params
from flaxformer_mt.training.state import (
    TrainState,
    boxed_params,
    has_separate_eval_params,
    place,
    state_maker,
)
from flaxformer_mt.training.step import train_step_of
from flaxformer_mt.training.stopping import stop_signal
from flaxformer_mt.training.validation import translate_and_score
from flaxformer_mt.translation.requests import suppressed_tokens
from flaxformer_mt.translation.translator import Translator


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainArguments(ConfigArguments):
    """Train a translation model."""

    workdir: str = "runs/demo"
    """Directory of this run: checkpoints, tokenizer, config, metrics. If it holds a run, this run
    continues."""
    deadline: str = ""
    """Leave a saved, averaged, evaluated model by then: a time span from now on (5h, 1h30m), or a
    moment (2026-11-21T18:00). Training stops early enough; the same command continues it. Empty =
    none."""
    accept_changed_data: bool = False
    """Continue although the training data has changed since the run stopped: with the next epoch of
    the new data."""


EXIT_STATUS: dict[Ending, int] = {
    "complete": 0,
    "deadline": 0,
    "preempted": 143,
    "interrupted": 130,
}


def run(arguments: TrainArguments) -> int:
    """The command: trains; the exit code says how it ended.

    0: complete, or stopped for the deadline. 143: stopped and saved by SIGTERM or a preemption.
    130: stopped and saved by ctrl-C.
    """
    ending = train(
        arguments.as_config(),
        arguments.workdir,
        deadline=parse_deadline(arguments.deadline, time.time()),
        accept_changed_data=arguments.accept_changed_data,
    )
    return EXIT_STATUS[ending]


def train(
    config: Config,
    workdir: str,
    *,
    quiet: bool = False,
    deadline: float = math.inf,
    accept_changed_data: bool = False,
) -> Ending:
    """Trains, or goes on training, the model of `config` in `workdir`.

    Args:
      config: what to train on, and how.
      workdir: holds all that the run makes; one that holds checkpoints is resumed.
      quiet: report to files alone, and leave out the held-out score at the end.
      deadline: when all shall be done, in seconds since 1970.
      accept_changed_data: resume although the training data has changed.

    Returns:
      Why it ended; in every case the last state is saved.

    Raises:
      ValueError, OSError: text, settings, hardware or a workdir that cannot be used; says which and
        why.
    """
    pace = Pace(started=time.time())
    # ------------------------------------------------------------------ processes, devices, workdir
    check_validation_set(config)
    share_freed_memory()
    configure_cpu_devices(config.mesh)
    connect()
    keep_programs()
    mesh = make_mesh(config.mesh)
    share = make_share(mesh, config.mesh.tokens_per_device)
    if is_first():
        check_workdir(workdir, config)

    # ------------------------------------------------------------------ data
    def prepare_data() -> Data:
        if is_first():
            forget_unused_tokenizer(workdir)
            if config.training.init_from:
                adopt_tokenizer(config.training.init_from, workdir)
        data = build_data(
            config.data, tokenizer_directory=f"{workdir}/tokenizer", seed=config.seed, share=share
        )
        if is_first():
            check_workdir(workdir, config, data.tokenizer.fingerprint)
        return data

    data = first_then_others(prepare_data)
    check_beams(config, data.tokenizer)
    BatchPlacement(mesh, share, data.shapes)  # refuses now what cannot be divided so

    # ------------------------------------------------------------------ model, state, checkpoints
    model = Transformer(
        config.model,
        source_vocab_size=data.tokenizer.source.size,
        target_vocab_size=data.tokenizer.target.size,
        bos_id=data.tokenizer.target.bos_id,
    )
    optimizer = make_optimizer(config.training, config.model.d_model)
    checkpoints = Checkpoints(
        workdir, keep_last=config.training.keep_last, keep_best=config.training.keep_best
    )
    adaptation = make_adaptation(
        config.training, jax.eval_shape(lambda: boxed_params(model, jax.random.key(0)))
    )
    if limit := parse_memory(config.mesh.memory_limit):
        plan = plan_micro_batches(config, model, optimizer, adaptation, mesh, data.shapes, limit)
        share = make_share(mesh, plan.tokens_per_device)
        data = dataclasses.replace(data, share=share)
        if not quiet:
            print_from_first(memory_table(plan, limit, shards=share.shards))
    run = Run(
        config=config,
        data=data,
        model=model,
        optimizer=optimizer,
        adaptation=adaptation,
        placement=BatchPlacement(mesh, share, data.shapes),
        checkpoints=checkpoints,
        train_step=train_step_of(config.training, model, optimizer, adaptation),
        deadline=deadline,
        pace=pace,
    )
    state, progress = start_or_resume(run, accept_changed_data=accept_changed_data)
    if is_first():  # all fits: now config.json is ours
        claim_workdir(workdir, config, data.tokenizer.fingerprint)
    reporter = NoReporter()
    if is_first():
        reporter = Reporter(
            workdir,
            resume_step=int(state.step),
            total_steps=config.training.num_steps,
            quiet=quiet,
        )
    reporter.message(describe(run, state, workdir))

    # ------------------------------------------------------------------ train, average, evaluate
    try:
        with exit_if_peer_lost(), stop_signal() as stopped:
            state, ending = run.loop(state, progress, reporter, stopped)
        checkpoints.close()
    finally:
        reporter.close()
    if ending in ("preempted", "interrupted"):
        print_from_first(
            f"stopped at step {int(state.step)}, saved; the same command goes on from there"
        )
        return ending
    if ending == "deadline":
        print_from_first(
            f"stopped at step {int(state.step)} of {config.training.num_steps} for the deadline; "
            "the same command goes on from there"
        )
    average(config, workdir)
    if not quiet:
        show_result(run, workdir)
    return ending


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


def start_or_resume(run: Run, *, accept_changed_data: bool) -> tuple[TrainState, Progress]:
    """The newest checkpoint, or a fresh state that depends on the seed (and init_from) alone.

    Raises:
      ValueError: the data is not that of the checkpoint: says what has changed.
    """
    config, adaptation = run.config, run.adaptation
    new_state = state_maker(config.training, run.model, run.optimizer, adaptation, config.seed)
    mesh, rules = run.placement.mesh, config.mesh.rules
    state_like = place(new_state, run.model, adaptation, mesh, rules)
    fingerprints = dict(run.data.fingerprints)
    if run.checkpoints.latest_step() is None:
        shardings = jax.tree.map(lambda x: x.sharding, state_like)
        start = None
        if config.training.init_from:
            start = start_params(
                config.training.init_from, run.model, run.data.tokenizer.fingerprint
            )
        state = jax.jit(lambda params: new_state(params=params), out_shardings=shardings)(start)
        first = run.data.train_iterator().get_state()
        return state, Progress(first, fingerprints=fingerprints)
    saved = from_dict(Config, run.checkpoints.extras()["config"])
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
    """Raises ValueError for what would make another training state of a checkpoint's."""
    shaping = {"optimizer", "trainable", "lora_rank", "lora_alpha", "lora_target"}
    lines = [
        line
        for line in differences(saved, config, where="training")
        if line.split(":")[0].removeprefix("training.") in shaping
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


def describe(run: Run, state: TrainState, workdir: str) -> str:
    """What is about to happen, for the person at the terminal."""
    trained, frozen = run.adaptation.divide(state.params)
    count, others = (sum(x.size for x in jax.tree.leaves(part)) for part in (trained, frozen))
    held = f", {others:,} more that stay as they are," if others else ""
    mesh = run.placement.mesh
    axes = " x ".join(f"{size} {name}" for name, size in mesh.shape.items() if size > 1)
    saved = run.checkpoints.latest_step()
    start = "from scratch" if saved is None else f"resumed at step {saved}"
    if saved is None and run.config.training.init_from:
        start = f"from the parameters of {run.config.training.init_from}"
    divisions = [run.placement.share.division(shape) for shape in run.data.shapes]
    most = max(division.micro_batches for division in divisions)
    accumulated = f", batches accumulated over up to {most} micro-batches" if most > 1 else ""
    return (
        f"{run.data.report}\n"
        f"model       {count:,} parameters{held} on {mesh.size} x {jax.devices()[0].device_kind}"
        f"{f' ({axes})' if axes else ''}{_processes()}{accumulated}\n"
        f"workdir     {workdir}, {start}"
    )


def _processes() -> str:
    return f" in {jax.process_count()} processes" if jax.process_count() > 1 else ""


def average(config: Config, workdir: str) -> None:
    """Averages checkpoints, if the config asks for it.

    Of the last ones, those of the first two thirds of the run so far are left out (there are some
    after a deadline, or in a short run): they are of a model that knew far less.
    """
    last, best = config.training.average_last, config.training.average_best
    if last:
        steps = saved_steps(Path(workdir, "checkpoints"))
        last = min(last, sum(3 * step > 2 * steps[-1] for step in steps))
    if last or best:
        averaged = average_checkpoints(workdir, last=last or None, best=best or None, or_fewer=True)
        print_from_first(f"averaged the checkpoints of steps {', '.join(map(str, averaged.steps))}")


def show_result(run: Run, workdir: str) -> None:
    """The held-out score, some translations, and what to do next."""
    config, data = run.config, run.data
    pairs = data.test or data.validation
    in_time = run.time_to_evaluate(len(pairs))
    if pairs and not in_time:
        print_from_first("no time is left for the held-out score: `evaluate` gives it")
    if pairs and in_time:
        # Not "auto": an average in the workdir may be of an earlier training.
        has_average = config.training.average_last or config.training.average_best
        which = "averaged" if has_average else "best" if was_validated(workdir) else "last"
        translator = Translator.load(workdir, which=which)
        score, samples = translate_and_score(config, translator, pairs)
        for sample in samples:
            print_from_first(
                f"\nsource       {sample.source}\n"
                f"reference    {sample.reference}\n"
                f"translation  {sample.translation}"
            )
        held_out = "test" if data.test else "validation"
        print_from_first(f"\nheld-out ({held_out}, {len(pairs):,} pairs): {score}")
    print_from_first(
        f"\nThe model is in {workdir}. Try:\n"
        f'  echo "{example_sentence(pairs)}" | '
        f"{sys.executable} -m flaxformer_mt.translate --workdir {workdir}"
    )


def example_sentence(pairs: tuple[Pair, ...]) -> str:
    """A sentence that can stand between double quotes on a command line."""
    plain = (pair.source for pair in pairs if not set(pair.source) & set('"$`\\!'))
    return next(plain, "Hello.")


main = command("train", TrainArguments, run)

if __name__ == "__main__":
    leave(main())
