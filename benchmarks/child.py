"""A contender in its own process, which reads requests and writes answers as lines of JSON.

    parent -> child   {"beam_size": 5}      request: one round with these options
    child  -> parent  {"seconds": 1.25}     answer: the result of the round

Contenders do not share memory, threads or allocators. A process without a request sleeps.
"""

import contextlib
import importlib
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from flaxformer_mt.runtime.host import keep_freed_memory, num_cpus

ROOT = Path(__file__).parents[1]
Device = Literal["cpu", "gpu"]
Answer = dict[str, Any]
GRACE = 10.0
"""Seconds until a process that does not end is killed."""
MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024
"""Bytes in a unit of `ru_maxrss`."""


class Contender(Protocol):
    """The work of a process: an object that is made once, which warms it up, and does rounds.

    It may have `facts`, an Answer with what it knows after the warm-up.
    """

    def round(self, **request: Any) -> Answer:
        """Does its work once; returns the seconds that it took."""
        ...


class Entry(NamedTuple):
    """A contender to start."""

    name: str
    """Its name in tables."""
    contender: str
    """Its class, as "package.module:Class"."""
    job: dict[str, Any]
    """Keywords of the class; `device` is added."""
    needs: tuple[str, ...] = ()
    """Packages of the extra [bench] that it needs; without them it is left out."""


class Child:
    """The parent's side of the connection."""

    ready: Answer
    """Its answer after the warm-up."""

    def __init__(self, entry: Entry, *, log: Path, device: Device = "cpu") -> None:
        """Starts a process that works on `device`; its output goes to the file `log`."""
        self.name, self._log = entry.name, log
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(paths),
            "OMP_NUM_THREADS": str(num_cpus()),
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",  # other processes need memory too
        }
        if device == "cpu":
            environment["JAX_PLATFORMS"] = "cpu"
        job = json.dumps(entry.job | {"device": device})
        with log.open("w") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.child", entry.contender, job],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
                text=True,
            )

    def wait_until_ready(self) -> None:
        """Returns when it is ready for its first round. Raises RuntimeError if it has ended."""
        try:
            self.ready = self._answer()
        except BaseException:  # nobody waits for it any more
            self._process.kill()
            raise

    def ask(self, **request: Any) -> Answer:
        """Does one round and returns its answer. Raises RuntimeError if the process has ended."""
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):  # then there is no answer
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        """Waits for the end of the process, and kills it if it is still working."""
        try:
            self._process.communicate(timeout=GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    def _answer(self) -> Answer:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            status = self._process.wait()
            why = last_words(self._log.read_text(errors="replace"))
            raise RuntimeError(f"{self.name} ended with status {status}: {why}")
        return json.loads(line)


def last_words(printed: str) -> str:
    """Returns the last message of a process: the lines after the traceback, if there is one."""
    said = printed.rstrip()[-2000:].split("\n")
    traced = [i for i, line in enumerate(said) if line.startswith("  File ")]
    frames = [i for i in range(traced[-1], len(said)) if said[i].startswith(" ")] if traced else []
    return "\n".join(said[frames[-1] + 1 :] if frames else said).strip()


def peak_memory() -> int:
    """Returns the peak memory of this process so far, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():
        # getrusage would include the memory of the parent at the start of this process.
        fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(fields["VmHWM"].split()[0]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * MAXRSS_UNIT


def main(contender: str, job: str) -> None:
    """The child's side of the connection."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # output of libraries is no answer

    def answer(values: Answer) -> None:
        print(json.dumps({"peak_memory": peak_memory()} | values), file=answers)

    module, name = contender.split(":")
    start = time.perf_counter()
    worker: Contender = getattr(importlib.import_module(module), name)(**json.loads(job))
    answer({"warm_up_seconds": time.perf_counter() - start} | getattr(worker, "facts", {}))
    for line in sys.stdin:
        answer(worker.round(**json.loads(line)))


if __name__ == "__main__":
    keep_freed_memory()  # as in our own commands, before all other libraries
    main(*sys.argv[1:])
