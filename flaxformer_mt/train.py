"""Trains a model: `python -m flaxformer_mt.train --config FILE --workdir DIR [--FIELD VALUE]`.

`train` has all stages in order. The same command on the same workdir resumes the run, whatever
stopped it, on any devices.
"""

import contextlib
import dataclasses
import sys
from collections.abc import Callable
from typing import Any

import jax

from flaxformer_mt.checkpoints.averaging import average_checkpoints
from flaxformer_mt.checkpoints.loading import adopt_tokenizer, make_model
from flaxformer_mt.checkpoints.manager import Checkpoints
from flaxformer_mt.checkpoints.reading import counted_steps, intact_steps
from flaxformer_mt.checkpoints.workdir import (
    check_workdir,
    make_workdir,
    remove_unused_tokenizer,
    was_validated,
)
from flaxformer_mt.cli import command
from flaxformer_mt.config import CONFIG_FILE, Config, save_config, shipped_name
from flaxformer_mt.config_arguments import ConfigArguments
from flaxformer_mt.data.pipeline import Data, build_data
from flaxformer_mt.data.sources.pair import Pair
from flaxformer_mt.inspection.run_pictures import save_pictures
from flaxformer_mt.kernels.choose import describe_kernels
from flaxformer_mt.model.initialization import boxed_params
from flaxformer_mt.planning.memory import memory_table, plan_micro_batches, train_program
from flaxformer_mt.runtime.command import exit_process, quote
from flaxformer_mt.runtime.compilation_cache import keep_programs
from flaxformer_mt.runtime.host import num_cpus, share_freed_memory
from flaxformer_mt.runtime.processes import (
    check_same,
    connect,
    exit_if_peer_lost,
    first_only,
    first_then_others,
    is_first,
    print_from_first,
)
from flaxformer_mt.runtime.sharding import (
    BatchPlacement,
    configure_cpu_devices,
    make_mesh,
    parse_memory,
    process_rows,
)
from flaxformer_mt.runtime.workdir_lock import own_workdir
from flaxformer_mt.storage.paths import as_path, join
from flaxformer_mt.training.adapting import make_adaptation
from flaxformer_mt.training.checks import check_settings, check_tags, check_tied_embeddings
from flaxformer_mt.training.loop import Ending, Loop, Run, start_or_resume
from flaxformer_mt.training.optimizer import make_optimizer
from flaxformer_mt.training.reporting import Reporter
from flaxformer_mt.training.state import Progress, TrainState
from flaxformer_mt.training.step import make_train_step
from flaxformer_mt.training.stopping import StopRequest, stop_on_signals
from flaxformer_mt.training.validation import translate_and_score
from flaxformer_mt.translation.setup import suppressed_tokens
from flaxformer_mt.translation.translator import Translator


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainArguments(ConfigArguments):
    """Train a translation model."""

    workdir: str = ""
    """Directory of this run: checkpoints, tokenizer, config, metrics. If it holds a run, this run
    continues. If not given: runs/NAME for a config NAME that comes with the package."""
    accept_changed_data: bool = False
    """Resume although the training data has changed, with the next epoch of the new data."""

    @classmethod
    def defaults(cls, values_of: Callable[[str], list[str] | None]) -> dict[str, Any]:
        """Returns the values of the config file, and the workdir of a shipped config."""
        prepared = "".join((values_of("--data.prepared") or [])[:1])
        if prepared and not values_of("--config"):
            file = join(".", prepared) / CONFIG_FILE
            if not file.is_file():
                raise FileNotFoundError(
                    f"there is no {file}: --data.prepared must name the output of "
                    "`python -m flaxformer_mt.prepare`"
                )
        values = super().defaults(values_of)
        name = shipped_name(values["config"])
        return values | ({"workdir": f"runs/{name}"} if name else {})


EXIT_STATUS: dict[Ending, int] = {"complete": 0, "preempted": 143, "interrupted": 130}


def run(arguments: TrainArguments) -> int:
    """Runs the command `train`; returns the exit code.

    The exit code is 143 if SIGTERM, SIGHUP or a preemption stopped the run (which is saved), and
    130 if ctrl-C did.
    """
    if not arguments.workdir:
        raise ValueError(
            f"--config {arguments.config} needs --workdir: the directory of a new run, or of the "
            "run to continue"
        )
    share_freed_memory()
    ending = train(
        arguments.as_config(),
        arguments.workdir,
        accept_changed_data=arguments.accept_changed_data,
        handle_signals=True,
    )
    return EXIT_STATUS[ending]


def train(
    config: Config,
    workdir: str,
    *,
    quiet: bool = False,
    accept_changed_data: bool = False,
    handle_signals: bool = False,
) -> Ending:
    """Trains the model of `config` in `workdir`, or resumes its training; saves the last state.

    Args:
      config: all settings of the run.
      workdir: directory of all files of the run; if it has checkpoints, the run is resumed.
      quiet: report updates to files only, and omit the held-out score at the end.
      accept_changed_data: resume although the training data has changed.
      handle_signals: SIGTERM, SIGINT and SIGHUP stop the run. For commands: it replaces the signal
        handlers of the process while the loop runs.

    Returns the reason for the end. Raises ValueError or OSError if text, settings, hardware or
    workdir are not usable, or if another run uses the workdir.
    """
    check_settings(config)
    configure_cpu_devices(config.mesh)
    connect()
    keep_programs()
    first_only(lambda: make_workdir(as_path(workdir).absolute()))
    with own_workdir(workdir):
        run = make_run(config, workdir, quiet=quiet)
        start = start_or_resume(run, accept_changed_data=accept_changed_data)
        if is_first():  # after all checks
            save_config(config, workdir)
        reporter = Reporter(
            workdir if is_first() else None,
            resume_step=int(start[0].step),
            total_steps=config.training.num_steps,
            quiet=quiet,
        )
        lengths = sorted({shape[1:] for shape in run.data.shapes})
        kernels = describe_kernels(config.model, run.model.kernels, lengths, run.placement.mesh)
        reporter.message(describe(run, start[0], workdir, kernels))
        ending, step = run_loop(run, start, reporter, kernels, handle_signals=handle_signals)
        if ending != "complete":
            print_from_first(f"stopped at step {step}, saved; the same command goes on from there")
            return ending
        average(config, workdir, quiet=quiet)
        if not quiet:
            show_result(run, workdir)
        return ending


def make_run(config: Config, workdir: str, *, quiet: bool) -> Run:
    """Returns the constant parts of a run, after all checks of settings, workdir and text."""
    # ---------------------------------------------------------------------- devices, workdir
    mesh = make_mesh(config.mesh)
    first_only(lambda: check_workdir(workdir, config))

    # ---------------------------------------------------------------------- data
    if is_first() and not quiet:
        print("reading the text", file=sys.stderr, flush=True)
    data = first_then_others(lambda: prepare_data(config, workdir))
    check_same(data.fingerprints, "training text")
    beam_size = max(config.decoding.beam_size, config.training.validation_beam_size)
    decoding = dataclasses.replace(config.decoding, beam_size=beam_size)
    suppressed_tokens(data.tokenizer, decoding)  # refuses a beam larger than the vocabulary

    # ---------------------------------------------------------------------- model, optimizer
    model = make_model(config, data.tokenizer)
    optimizer = make_optimizer(config.training, config.model.d_model)
    adaptation = make_adaptation(
        config.training, jax.eval_shape(lambda: boxed_params(model, jax.random.key(0)))
    )

    # ---------------------------------------------------------------------- rows of this process
    tokens_per_device = config.mesh.tokens_per_device
    if limit := parse_memory(config.mesh.memory_limit):
        program = train_program(config, model, optimizer, adaptation, mesh)
        plan = plan_micro_batches(program, data.shapes, limit)
        tokens_per_device = plan.tokens_per_device
        if not quiet:
            print_from_first(memory_table(plan))
    rows = process_rows(mesh, tokens_per_device)
    validation_shapes = data.validation_plan.shapes
    longest = max(max(shape[1:]) for shape in validation_shapes)  # one row must fit
    max_tokens = tokens_per_device and max(tokens_per_device, longest)
    validation_rows = process_rows(mesh, max_tokens, pads=True)
    return Run(
        config=config,
        data=dataclasses.replace(data, shard_rows=rows),
        model=model,
        optimizer=optimizer,
        adaptation=adaptation,
        placement=BatchPlacement(mesh, rows, data.shapes),
        validation_placement=BatchPlacement(mesh, validation_rows, validation_shapes),
        checkpoints=Checkpoints(
            workdir, keep_last=config.training.keep_last, keep_best=config.training.keep_best
        ),
        train_step=make_train_step(model, optimizer, config.training, adaptation),
    )


def run_loop(
    run: Run,
    start: tuple[TrainState, Progress],
    reporter: Reporter,
    kernels: str,
    *,
    handle_signals: bool,
) -> tuple[Ending, int]:
    """Trains to the end or a stop, and closes the reporter; returns the ending and the last step.

    If training fails, it reports the reason and raises the error again.
    """
    signals = stop_on_signals() if handle_signals else contextlib.nullcontext(StopRequest())
    try:
        reporter.start(kernels)
        with exit_if_peer_lost(), signals as stopped:
            loop = Loop(run, start, reporter, stopped)
            ending = loop()
    except BaseException as error:
        reason = f"error: {error}" if isinstance(error, Exception) else "interrupted"
        with contextlib.suppress(Exception):
            if jax.process_count() == 1:  # others may not arrive
                run.checkpoints.close()  # completes a save in the background
        with contextlib.suppress(Exception), contextlib.closing(reporter):  # a full disk
            reporter.end(run.checkpoints.latest_step() or 0, reason, show=False)
        raise
    reporter.close()
    return ending, int(loop.state.step)


def prepare_data(config: Config, workdir: str) -> Data:
    """Returns the data of a run, with the tokenizer of its workdir, learnt if it has none."""
    if is_first():
        remove_unused_tokenizer(workdir)
        if config.training.init_from:
            adopt_tokenizer(config.training.init_from, workdir)
    data = build_data(
        config.data,
        tokenizer_directory=f"{workdir}/tokenizer",
        seed=config.seed,
        quarantine=as_path(workdir) / "quarantine.jsonl" if is_first() else None,
        num_prepare_processes=num_cpus(),
    )
    if is_first():
        check_workdir(workdir, config, data.tokenizer.fingerprint)
    check_tied_embeddings(config, data.tokenizer)
    check_tags(data.tokenizer, (*data.validation, *data.test))
    return data


def describe(run: Run, state: TrainState, workdir: str, kernels: str) -> str:
    """Returns the message at the start of a run: data, model, devices, kernels and workdir."""
    trained, frozen = run.adaptation.split(state.params)
    count, others = (sum(x.size for x in jax.tree.leaves(part)) for part in (trained, frozen))
    mesh = run.placement.mesh
    axes = " x ".join(f"{size} {name}" for name, size in mesh.shape.items() if size > 1)
    parts = max(run.placement.rows.partition(shape).micro_batches for shape in run.data.shapes)
    summary = (
        f"{run.data.report}\nmodel       {count:,} parameters",
        f", {others:,} frozen ones," if others else "",
        f" on {mesh.size} x {jax.devices()[0].device_kind}",
        f" ({axes})" if axes else "",
        f" in {jax.process_count()} processes" if jax.process_count() > 1 else "",
        f", batches accumulated over up to {parts} micro-batches" if parts > 1 else "",
    )
    step = run.checkpoints.latest_step()
    start = "from scratch" if step is None else f"resumed at step {step}"
    if step is None and run.config.training.init_from:
        start = f"from the parameters of {run.config.training.init_from}"
    return f"{''.join(summary)}\nkernels     {kernels}\nworkdir     {workdir}, {start}"


def average(config: Config, workdir: str, *, quiet: bool = False) -> None:
    """Averages checkpoints as the config says.

    It omits checkpoints of the first two thirds of the run, which only a short run still has.
    """
    last, best = config.training.average_last, config.training.average_best
    if last:
        directory = as_path(workdir) / "checkpoints"
        steps = counted_steps(directory, intact_steps(directory))
        last = min(last, sum(3 * step > 2 * steps[-1] for step in steps))
    if last or best:
        averaged = average_checkpoints(workdir, last=last or None, best=best or None, or_fewer=True)
        steps = ", ".join(map(str, averaged.steps))
        if not quiet:
            print_from_first(f"averaged the checkpoints of steps {steps}")


def show_result(run: Run, workdir: str) -> None:
    """Prints the held-out score, some translations and commands to try; draws two pictures."""
    config, data = run.config, run.data
    pairs = data.test or data.validation
    example = example_sentence(pairs)
    if pairs:
        # Not "auto": an average in the workdir may be older than this training.
        has_average = config.training.average_last or config.training.average_best
        best = "best" if was_validated(workdir) else "last"
        translator = Translator.load(workdir, checkpoint="averaged" if has_average else best)
        held_out = "test" if data.test else "validation"
        score, samples = translate_and_score(translator, pairs)
        for sample in samples:
            print_from_first(
                f"\nsource       {sample.source}\n"
                f"reference    {sample.reference}\n"
                f"translation  {sample.translation}"
            )
        print_from_first(f"\nheld-out ({held_out}, {len(pairs):,} pairs): {score}")
        if jax.process_count() == 1:
            # With a known translation, no search is compiled for a single sentence.
            known = {sample.source: sample.translation for sample in samples}
            pictures = save_pictures(workdir, translator, example, known.get(example))
            print("".join(f"picture: {path}\n" for path in pictures), end="")
    python, quoted = f"{quote(sys.executable)} -m flaxformer_mt", quote(workdir)
    print_from_first(
        f"\nThe model is in {workdir}. Try:\n"
        f'  echo "{example}" | {python}.translate --workdir {quoted}\n'
        f'  {python}.attention_maps --workdir {quoted} --source "{example}" --output maps.png\n'
        f"  {python}.summary --workdir {quoted}"
    )


def example_sentence(pairs: tuple[Pair, ...]) -> str:
    """Returns a short source sentence without characters that are special in double quotes."""
    sources = (pair.source for pair in pairs if pair.source.strip())
    plain = [source for source in sources if not set(source) & set('"$`\\!')]
    return next((text for text in plain if len(text) <= 60), min(plain, key=len, default="Hello."))


main = command("train", TrainArguments, run)

if __name__ == "__main__":
    exit_process(main())
