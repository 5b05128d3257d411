"""A command as a contender. It imports little: its memory counts as memory of the command."""

import os
import shutil
import subprocess
import sys
import tempfile
import time

from benchmarks.child import MAXRSS_UNIT, ROOT, Answer


class Command:
    """Starts a process and waits for its end."""

    def __init__(
        self, *, command: list[str], device: str, workdir: str = "", warm: bool = False
    ) -> None:
        """Stores the command, and runs it once if `warm`.

        Args:
          command: its words; {workdir} is replaced with a copy of `workdir`.
          device: is ignored.
          workdir: of ours.
          warm: keep the copy and the cache from round to round; otherwise both are new.
        """
        del device
        self._command, self._workdir = command, workdir
        self._kept = self._fresh() if warm else None
        if warm:
            self.round()

    def round(self) -> Answer:
        """Returns time and memory of the process from start to end."""
        place = self._kept or self._fresh()
        command = [word.replace("{workdir}", f"{place.name}/workdir") for word in self._command]
        environment = os.environ | {"XDG_CACHE_HOME": f"{place.name}/cache"}
        environment.pop("JAX_COMPILATION_CACHE_DIR", None)  # it could have entries
        start = time.perf_counter()
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=sys.stderr)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
        if not self._kept:
            place.cleanup()
        return {"seconds": seconds, "peak_memory": usage.ru_maxrss * MAXRSS_UNIT}

    def _fresh(self) -> tempfile.TemporaryDirectory:
        place = tempfile.TemporaryDirectory()
        if self._workdir:
            shutil.copytree(self._workdir, f"{place.name}/workdir")
        return place
