"""Simulates a run of several hosts on this machine: `python -m flaxformer_mt.rehearse`.

    python -m flaxformer_mt.rehearse --config configs/wmt14_en_de_base.py --topology v5e:4x8

Each host is a process, and each of its chips is a CPU device. The model is tiny. All else is as in
the real run: `train` and `evaluate` read the text, share the batches, save, are stopped and killed
during a save, resume, and translate.
"""

import contextlib
import dataclasses
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from flaxformer_mt.checkpoints.reading import intact_steps
from flaxformer_mt.cli import command
from flaxformer_mt.config import Config, to_json
from flaxformer_mt.config_arguments import ConfigArguments
from flaxformer_mt.data.sources.corpora import CorpusConfig
from flaxformer_mt.data.tokenization.config import TokenizerConfig
from flaxformer_mt.planning.hardware import hosts_of
from flaxformer_mt.runtime.command import exit_process
from flaxformer_mt.runtime.line_output import interruptible
from flaxformer_mt.storage.paths import is_remote
from flaxformer_mt.training.config import TrainingConfig

_TIME_LIMIT = 1800.0  # seconds of one stage
_SAVE_EVERY = 3  # steps
_NOT_EXERCISED = """\
not exercised:
  the programs for the accelerator, and their memory and speed: `python -m flaxformer_mt.plan`
  the network between the hosts, and the file system or bucket of the real workdir
  the model at its real width, and the text beyond the first {pairs:,} pairs of each corpus"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RehearseArguments(ConfigArguments):
    """Simulate a run of several hosts with a tiny model, as processes of this machine."""

    topology: str = "v5e:4x4"
    """Hardware of the run: a TPU slice such as v5e:4x8, or GPUs of one host such as h100:8."""
    hosts: int = 0
    """Number of hosts, with the chips of the topology divided among them; 0 = those of the
    topology."""
    pairs: int = 2000
    """Pairs to read of each corpus."""
    workdir: str = ""
    """Directory to keep the rehearsal's run in; a temporary one if not given."""


def rehearse(arguments: RehearseArguments) -> int:
    """Runs the command `rehearse`: prints each stage and its result; 1 if one failed."""
    hosts, chips = hosts_of(arguments.topology)
    for name, value, least in (("hosts", arguments.hosts, 0), ("pairs", arguments.pairs, 1)):
        if value < least:
            raise ValueError(f"--{name} must be at least {least}, got {value}")
    if arguments.hosts:
        if chips * hosts % arguments.hosts:
            raise ValueError(
                f"--hosts {arguments.hosts} does not divide the {chips * hosts} chips of "
                f"--topology {arguments.topology}"
            )
        hosts, chips = arguments.hosts, chips * hosts // arguments.hosts
    if arguments.workdir and (is_remote(arguments.workdir) or Path(arguments.workdir).exists()):
        raise ValueError(
            f"--workdir {arguments.workdir} is an address, or exists: name a new directory of this "
            "machine, or leave out --workdir"
        )
    config = toy_config(arguments.as_config(), arguments.pairs, hosts * chips)
    print(f"{arguments.topology}: {hosts} processes of {chips} CPU devices", flush=True)
    with interruptible(), contextlib.ExitStack() as stack:
        directory = arguments.workdir or stack.enter_context(tempfile.TemporaryDirectory())
        run = HostProcesses(config, Path(directory), hosts, chips)
        succeeded = all(_run_stage(name, stage, run) for name, stage in STAGES.items())
    print(_NOT_EXERCISED.format(pairs=arguments.pairs))
    return 0 if succeeded else 1


def toy_config(config: Config, pairs: int, num_devices: int) -> Config:
    """Returns the config with a tiny model, few steps, and the first pairs of each corpus."""

    def limited(corpus: CorpusConfig, limit: int) -> CorpusConfig:
        return dataclasses.replace(corpus, limit=min(corpus.limit or limit, limit))

    data, model, training = config.data, config.model, config.training
    tokenizer = data.tokenizer
    if tokenizer.kind == "marian" and not tokenizer.source_model:  # the workdir of init_from has it
        tokenizer = TokenizerConfig()
    return dataclasses.replace(
        config,
        data=dataclasses.replace(
            data,
            train=limited(data.train, pairs),
            validation=limited(data.validation, 16),
            test=limited(data.validation if data.test == CorpusConfig() else data.test, 16),
            directory=str(Path(os.path.expanduser(data.directory)).absolute()),
            tokenizer=dataclasses.replace(tokenizer, vocab_size=min(tokenizer.vocab_size, 1000)),
            max_source_length=min(data.max_source_length, 64),
            max_target_length=min(data.max_target_length, 64),
            tokens_per_batch=64 * 8 * -(-num_devices // 8),  # a multiple of 8 rows
            num_buckets=1,
            prepared="",
        ),
        model=dataclasses.replace(
            model,
            d_model=8 * model.num_heads,
            d_ff=16 * model.num_heads,
            key_width=8 if model.key_width else 0,
            value_width=8 if model.value_width else 0,
            num_encoder_layers=1,
            num_decoder_layers=1,
        ),
        training=dataclasses.replace(
            training,
            num_steps=10 * _SAVE_EVERY,
            warmup_steps=10,
            log_every=1,
            checkpoint_every=_SAVE_EVERY,
            validate_every=5 * _SAVE_EVERY if training.validate_every else 0,
            validation_pairs=min(training.validation_pairs, 4),
            patience=0,
            init_from="",
            decay_steps=0,
            trainable=(),
            lora_rank=0,
            lora_alpha=0.0,
            lora_target=TrainingConfig.lora_target,
        ),
        decoding=dataclasses.replace(
            config.decoding, max_target_length=16, min_target_length=0, forbidden=()
        ),
        mesh=dataclasses.replace(config.mesh, tokens_per_device=0, memory_limit=""),
    )


class HostProcesses:
    """The processes of one run, one for each host."""

    def __init__(self, config: Config, directory: Path, hosts: int, chips: int) -> None:
        self.config, self.directory, self.hosts, self.chips = config, directory, hosts, chips
        self.workdir = directory / "run"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "rehearsal.json").write_text(to_json(config), encoding="utf-8")

    @contextlib.contextmanager
    def start(self, command: str = "train") -> Iterator[list[subprocess.Popen[bytes]]]:
        """Yields the processes of `train` or `evaluate`, one a host. They are killed at the end."""
        with socket.socket() as free:
            free.bind(("localhost", 0))
            address = f"localhost:{free.getsockname()[1]}"
        shared = {
            "JAX_PLATFORMS": "cpu",
            "JAX_NUM_CPU_DEVICES": str(self.chips),
            "JAX_COORDINATOR_ADDRESS": address,
            "JAX_NUM_PROCESSES": str(self.hosts),
            "JAX_DISABLE_MOST_OPTIMIZATIONS": "true",  # these would take longer than the run
        }
        options = ["--workdir", str(self.workdir)]
        if command == "train":
            options += ["--config", str(self.directory / "rehearsal.json")]
        with contextlib.ExitStack() as stack:
            processes = []
            for number in range(self.hosts):
                log: IO[bytes] = stack.enter_context(self.log(number).open("wb"))
                process = subprocess.Popen(
                    [sys.executable, "-m", f"flaxformer_mt.{command}", *options],
                    env=os.environ | shared | {"JAX_PROCESS_ID": str(number)},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
                stack.callback(process.wait)
                stack.callback(process.kill)
                processes.append(process)
            yield processes

    def log(self, number: int) -> Path:
        """Returns the file with the output of the latest process of this number."""
        return self.directory / f"host_{number}.log"

    def failure(self, number: int, what: str) -> RuntimeError:
        """Returns an error of one host, with its last lines."""
        lines = self.log(number).read_text(encoding="utf-8", errors="replace").splitlines()[-8:]
        return RuntimeError("\n    ".join([f"host {number} {what}; its last lines:", *lines]))

    def finish(self, processes: list[subprocess.Popen[bytes]], expected: int) -> None:
        """Waits until all processes end. Raises RuntimeError for an unexpected exit code."""
        end, running = time.monotonic() + _TIME_LIMIT, dict(enumerate(processes))
        while running:  # all at once: if one fails, the others end because it is gone
            for number, process in list(running.items()):
                if (code := process.poll()) is None:
                    continue
                if code != expected:
                    raise self.failure(number, f"ended with exit code {code} instead of {expected}")
                del running[number]
            if running and time.monotonic() > end:
                raise self.failure(min(running), "does not end")
            time.sleep(0.05)

    def wait_for_save(self, processes: list[subprocess.Popen[bytes]], after: int) -> None:
        """Returns while a checkpoint of a step after `after` is being written."""
        end = time.monotonic() + _TIME_LIMIT
        while time.monotonic() < end:
            for path in self.workdir.glob("checkpoints/*orbax-checkpoint-tmp*"):
                if int(path.name.split(".")[0]) > after:
                    return
            for number, process in enumerate(processes):
                if process.poll() is not None:
                    raise self.failure(number, "ended before a save")
            time.sleep(0.002)
        raise self.failure(0, "never saves")

    def newest_step(self) -> int:
        """Returns the step of the newest whole checkpoint; 0 if there is none."""
        return max(intact_steps(self.workdir / "checkpoints"), default=0)


def stop_in_a_save(run: HostProcesses) -> str:
    """All hosts read the text, start, and get SIGTERM while they write a checkpoint."""
    with run.start() as processes:
        run.wait_for_save(processes, after=0)
        for process in processes:
            process.send_signal(signal.SIGTERM)
        run.finish(processes, expected=143)
    return f"all saved and ended with code 143; newest checkpoint: step {run.newest_step()}"


def kill_in_a_save(run: HostProcesses) -> str:
    """All hosts resume, and die while they write a checkpoint."""
    before = run.newest_step()
    with run.start() as processes:
        run.wait_for_save(processes, after=before)
        for process in processes:
            process.kill()
    newest = run.newest_step()
    if newest < before:
        raise RuntimeError(f"the checkpoint of step {before} is lost; the newest is {newest}")
    return f"resumed at step {before}; newest whole checkpoint: step {newest}"


def resume_to_the_end(run: HostProcesses) -> str:
    """All hosts resume and finish the run. metrics.jsonl must have each step exactly once."""
    before, num_steps = run.newest_step(), run.config.training.num_steps
    with run.start() as processes:
        run.finish(processes, expected=0)
    from flaxformer_mt.training.reporting import read_metrics

    entries = [one for one in read_metrics(run.workdir) if one["kind"] == "train"]
    steps, losses = ([entry[name] for entry in entries] for name in ("step", "loss"))
    if steps != list(range(1, num_steps + 1)):
        raise RuntimeError(
            f"metrics.jsonl has the steps {steps}, expected 1 to {num_steps} once each"
        )
    return (
        f"resumed at step {before}, finished step {num_steps}; loss {losses[0]:.2f} -> "
        f"{losses[-1]:.2f}"
    )


def evaluate(run: HostProcesses) -> str:
    """All hosts translate a held-out set together."""
    if run.config.data.test == CorpusConfig():
        return "skipped: the config has neither data.test nor data.validation"
    with run.start("evaluate") as processes:
        run.finish(processes, expected=0)
    text = run.log(0).read_text(encoding="utf-8", errors="replace")
    return next((line.strip() for line in text.splitlines() if "BLEU" in line), "no score printed")


STAGES: dict[str, Callable[[HostProcesses], str]] = {
    "read the text, train, SIGTERM during a save": stop_in_a_save,
    "resume, kill during a save": kill_in_a_save,
    "resume and finish": resume_to_the_end,
    "evaluate": evaluate,
}


def _run_stage(name: str, stage: Callable[[HostProcesses], str], run: HostProcesses) -> bool:
    """Runs a stage and prints its result; returns whether it succeeded."""
    start = time.monotonic()
    print(f"{name} ...", flush=True)
    try:
        result, succeeded = stage(run), True
    except RuntimeError as error:
        result, succeeded = str(error), False
    seconds = time.monotonic() - start
    print(f"  {'ok' if succeeded else 'FAILED'} ({seconds:.0f} s): {result}", flush=True)
    return succeeded


main = command("rehearse", RehearseArguments, rehearse)

if __name__ == "__main__":
    exit_process(main())
