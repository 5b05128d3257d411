"""A contender in a process of its own, asked and answering by lines of JSON.

    parent -> child   {"beam_size": 5}      do one round, so
    child  -> parent  {"seconds": 1.25}     what came of it

A process each, so that memory, threads and allocators do not mix. Who is not asked sleeps.
"""

import importlib
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Literal, Protocol

ROOT = Path(__file__).parents[1]
Device = Literal["cpu", "gpu"]
Answer = dict[str, Any]


class Contender(Protocol):
    """What a process does: made once from keywords (which warms it up), then asked for rounds."""

    def round(self, **request: Any) -> Answer:
        """Does its work once, and tells how long it took."""
        ...


class Child:
    """The parent's end of the line."""

    def __init__(
        self, name: str, contender: str, job: Answer, *, log: Path, device: Device = "cpu"
    ) -> None:
        """Starts a process, and waits until it is ready for its first round.

        Args:
          name: of the contender, in tables.
          contender: the class that does the work, as "package.module:Class".
          job: keywords of the class; `device` is added.
          log: file for what the process prints.
          device: what it works on.
        """
        self.name, self._log = name, log
        command = [sys.executable, "-m", "benchmarks.child", contender]
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(paths),
            "OMP_NUM_THREADS": str(num_cpus()),
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",  # the others want some memory as well
        }
        if device == "cpu":
            environment["JAX_PLATFORMS"] = "cpu"
        with log.open("w") as errors:
            self._process = subprocess.Popen(
                [*command, json.dumps(job | {"device": device})],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
                text=True,
            )
        self.ready = self._answer()
        """What it told when it was warm."""

    def ask(self, **request: Any) -> Answer:
        """One round; returns when it is done."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        """Lets the process end."""
        self._process.communicate()

    def _answer(self) -> Answer:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            last_words = self._log.read_text(errors="replace")[-2000:]
            raise RuntimeError(
                f"{self.name} ended with status {self._process.returncode}:\n{last_words}"
            )
        return json.loads(line)


def num_cpus() -> int:
    """CPUs that this process may use, and its children after it."""
    if hasattr(os, "sched_getaffinity"):  # Linux
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def peak_memory() -> int:
    """The most memory that this process has had so far, bytes."""
    status = Path("/proc/self/status")
    if status.exists():  # getrusage would count what the parent had when it started this process
        fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(fields["VmHWM"].split()[0]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def main(contender: str, job: str) -> None:
    """The child's end of the line."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print is no answer

    def answer(values: Answer) -> None:
        print(json.dumps({"peak_memory": peak_memory()} | values), file=answers)

    module, name = contender.split(":")
    start = time.perf_counter()
    worker: Contender = getattr(importlib.import_module(module), name)(**json.loads(job))
    answer({"warm_up_seconds": time.perf_counter() - start} | getattr(worker, "facts", {}))
    for line in sys.stdin:
        answer(worker.round(**json.loads(line)))


if __name__ == "__main__":
    main(*sys.argv[1:])
