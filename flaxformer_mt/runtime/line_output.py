"""Output of long commands, line by line. Finished lines survive an interruption."""

import contextlib
import dataclasses
import itertools
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO

from flaxformer_mt.data.worker_processes import in_thread
from flaxformer_mt.runtime.line_input import is_regular
from flaxformer_mt.storage.paths import (
    as_path,
    lock_file,
    move_file,
    naming,
    working_copy,
    write_file,
)

Run = Callable[[Callable[[], Any]], Any]
"""Calls a function and returns its result."""
_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")  # Windows lacks the last one
FIRST_BATCH = 512
"""Number of items in the first batch. Later batches are larger, which is faster."""


class LineOutput:
    """Writes the results of items (lines or pairs of lines) in order.

    Call `begin` before the first `write`. `num_done` is the number of finished items, including
    those of an interrupted run.
    """

    def __init__(self, file: Any, partial: Path | None = None, num_done: int = 0) -> None:
        """Writes to the binary `file`. `partial` is its path if it is a regular file."""
        self._file, self._partial, self.num_done = file, partial, num_done
        self.has_begun = False

    def begin(self, settings: Mapping[str, str]) -> None:
        """Records the settings on which the results depend, as {name: value}.

        Raises ValueError if they differ from those of the interrupted run that this run continues,
        or of another process of this run.
        """
        from flaxformer_mt.runtime.processes import check_same  # slow, and --help does not need it

        given = sorted(settings.items())
        # In a thread, so that a signal can end the wait for the other processes.
        in_thread(lambda: check_same(given, "inputs, models or settings"))
        if self._partial is not None:
            record = _record(self._partial)
            if self.num_done:
                _check_same(self._partial, record, settings)
            write_file(record, json.dumps(settings).encode())
        self.has_begun = True

    def earlier(self) -> Iterator[str]:
        """Yields the finished lines of an interrupted run."""
        if self._partial is not None:
            with open(self._partial, "rb") as file:
                for line in itertools.islice(file, self.num_done):
                    yield line.removesuffix(b"\n").decode()

    def write(self, results: Sequence[str], *, final_newline: bool = True) -> None:
        """Writes and flushes the results of the next items. A result has one line or more."""
        text = "".join(f"{result}\n" for result in results)
        with naming(self._partial or "the output"):
            self._file.write((text if final_newline else text.removesuffix("\n")).encode())
            self._file.flush()
        self.num_done += len(results)


def settings_of(
    arguments: Any, *, without: Collection[str], files: Mapping[str, str], model: str
) -> dict[str, str]:
    """Returns the settings of a command for `LineOutput.begin`.

    Args:
      arguments: dataclass of the arguments of the command.
      without: names of arguments on which the results do not depend.
      files: {name of an argument: hash of the content of its file}.
      model: hash of the parameters.
    """
    from flax.traverse_util import flatten_dict  # slow, and --help does not need it

    settings = {"the model in --workdir": model}
    settings |= {f"the content of --{name}": digest for name, digest in files.items()}
    without = {*without, *files, "workdir", "checkpoint", "output", "resume"}
    for name, value in flatten_dict(dataclasses.asdict(arguments), sep=".").items():
        if name not in without:
            settings[f"--{name}".replace("_", "-")] = str(value)
    return settings


def _record(partial: Path) -> Path:
    """Returns the file with the settings of the run that writes `partial`."""
    return partial.with_name(f"{partial.name}.settings")


def _check_same(partial: Path, record: Path, settings: Mapping[str, str]) -> None:
    """Raises ValueError, with the differences, if `record` has other settings."""
    start_again = f"delete {partial} to start again"
    try:
        before: dict[str, str] = json.loads(record.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{partial} cannot be continued: {record} has the settings of its run, but cannot be "
            f"read; {start_again}"
        ) from error
    lines = [
        f"{name} has changed"
        if name.startswith("the ")
        else f"{name}: {before.get(name, 'not given')} -> {settings.get(name, 'not given')}"
        for name in {**before, **settings}
        if before.get(name) != settings.get(name)
    ]
    if lines:
        raise ValueError(
            f"{partial} has lines of a run with other settings (that run -> this run):\n  "
            + "\n  ".join(lines)
            + f"\nContinue with the settings of that run, or {start_again}."
        )


@contextlib.contextmanager
def line_output(
    path: str, *, resume: bool = False, item_of: Callable[[str], Hashable] | None = None
) -> Iterator[LineOutput]:
    """Opens a file whose finished results survive an interruption; "" is standard output.

    Results go to `path`.partial, which is renamed at the end. (For an address, this is a local file
    that is uploaded at the end.) After an interruption or failure, the finished results stay there,
    and a message on standard error says so.

    Args:
      path: the file. A pipe or device is written directly.
      resume: continue after the results in `path`.partial, if this file exists.
      item_of: returns the item of an output line. None = each item has one line.

    Raises ValueError if there are results of an interrupted run and `resume` is false, or if
    `resume` is true in a run of several processes. Raises OSError if the file cannot be written, or
    if another process is writing it.
    """
    import jax  # slow, and --help does not need it

    if resume and jax.process_count() > 1:
        raise ValueError("--resume works in a run of one process only")
    if not path:
        yield LineOutput(sys.stdout.buffer)
        return
    if as_path(path).is_dir():
        raise IsADirectoryError(f"{path} is a directory: expected the name of the file to write")
    if not is_regular(path):
        with naming(path), open(path, "wb") as file:
            yield LineOutput(file)
        return
    # The target of a symbolic link, not the link.
    final = as_path(path)
    if isinstance(final, Path):
        final = final.resolve()
    partial = working_copy(final).with_name(f"{final.name}.partial")
    if not partial.parent.is_dir():
        raise FileNotFoundError(f"{path}: there is no directory {partial.parent} to write to")
    with naming(partial), open(partial, "a+b") as file:
        output = _continued(file, partial, resume=resume, item_of=item_of)
        try:
            yield output
        except BaseException:
            if not output.num_done:
                partial.unlink(missing_ok=True)
                _record(partial).unlink(missing_ok=True)
            elif output.has_begun:
                alone = " in a single process" if jax.process_count() > 1 else ""
                print(
                    f"the results of the first {output.num_done:,} lines are in {partial}: the "
                    f"same command with --resume{alone} goes on after them",
                    file=sys.stderr,
                )
            raise
    try:
        move_file(partial, final)
    except BaseException:
        message = f"all {output.num_done:,} results are in {partial}, but not in {path}"
        print(message, file=sys.stderr)
        raise
    _record(partial).unlink(missing_ok=True)


def _continued(
    file: BinaryIO, partial: Path, *, resume: bool, item_of: Callable[[str], Hashable] | None
) -> LineOutput:
    """Locks `partial` and returns its output after the finished items; see `line_output`."""
    try:
        lock_file(file)
    except BlockingIOError:
        raise OSError(
            f"another process writes {partial}: wait until it ends, or choose another file "
            "(with --shard, each process needs its own file)"
        ) from None
    num_done, size = _finished(file, item_of)
    if file.seek(0, os.SEEK_END) and not resume:
        raise ValueError(
            f"{partial} has the finished lines of an interrupted run: add --resume to go on "
            "after them, or delete it to start again"
        )
    file.truncate(size)
    return LineOutput(file, partial, num_done)


def _finished(file: BinaryIO, item_of: Callable[[str], Hashable] | None) -> tuple[int, int]:
    """Returns the number of finished items of an interrupted run, and their size in bytes.

    With `item_of`, the last item does not count, because some of its lines may be missing.
    """
    file.seek(0)
    items = size = read = 0
    current: Hashable = None
    for line in file:
        if not line.endswith(b"\n"):
            break
        item = item_of(line.decode(errors="replace")) if item_of else None
        if item_of and current not in (None, item):  # a new item: the previous one is complete
            items, size = items + 1, read
        current, read = item, read + len(line)
        if not item_of:
            items, size = items + 1, read
    return items, size


def batch_sizes(largest: int) -> Iterator[int]:
    """Yields batch sizes up to `largest`: small ones first, so that first results arrive soon."""
    size = FIRST_BATCH
    while True:
        yield min(size, largest)
        size *= 4


@contextlib.contextmanager
def interruptible() -> Iterator[Run]:
    """Makes signals interrupt the command, even during a computation on a device.

    Yields a function that calls another function in a thread and returns its result. The main
    thread only waits, so it handles a signal at once. SIGINT, SIGTERM and SIGHUP raise
    KeyboardInterrupt with the number of the signal, unless they are ignored (as under nohup).
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt(number)

    earlier = {}
    if threading.current_thread() is threading.main_thread():  # only it may handle signals
        numbers = [getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)]
        heard = [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]
        earlier = {number: signal.signal(number, interrupt) for number in heard}
    try:
        yield in_thread
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)
