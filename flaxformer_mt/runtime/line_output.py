"""Output of long commands, line by line: what is finished survives an interruption."""

import contextlib
import itertools
import os
import signal
import sys
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Protocol, TypeVar, runtime_checkable

from flaxformer_mt.runtime.files import is_regular, open_output

T = TypeVar("T")
_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")  # Windows lacks the last one
FIRST_BATCH = 512
"""Items of the first batch. Later batches are larger, because full batches are faster."""


@runtime_checkable  # the type checks of the tests need it
class Run(Protocol):
    """Calls a function."""

    def __call__(self, work: Callable[[], T], /) -> T:
        """Returns the result of `work`."""
        ...


class LineOutput:
    """Results of items (lines or pairs of lines), written in order."""

    def __init__(self, file: Any, earlier: Sequence[str] = ()) -> None:
        """Writes to the binary `file`, which has the `earlier` results of an interrupted run."""
        self._file, self.earlier = file, list(earlier)
        self.num_done = len(self.earlier)

    def write(self, results: Sequence[str], *, final_newline: bool = True) -> None:
        """Writes the results of the next items, each one line or more, and flushes them."""
        text = "".join(f"{result}\n" for result in results)
        self._file.write((text if final_newline else text.removesuffix("\n")).encode())
        self._file.flush()
        self.num_done += len(results)


@contextlib.contextmanager
def line_output(
    path: str, *, resume: bool = False, item_of: Callable[[str], Hashable] | None = None
) -> Iterator[LineOutput]:
    """Opens a file that keeps what is finished, or standard output if `path` is empty.

    The results go to `path`.partial, which is renamed at the end. If the command is interrupted or
    fails, the finished ones stay there, and a message on standard error says so.

    Args:
      path: the file. A pipe or device is written directly.
      resume: go on after the results in `path`.partial, if there is one.
      item_of: of an output line. If not given, each item has one line.

    Raises ValueError if there are results of an interrupted run and `resume` is false, or if it is
    true in a run of several processes, and OSError if the file cannot be written.
    """
    if resume and _num_processes() > 1:
        raise ValueError("--resume works in a run of one process only")
    if not path or not is_regular(path):
        with open_output(path) as file:
            yield LineOutput(file)
        return
    final = Path(os.path.realpath(path))
    partial = final.with_name(f"{final.name}.partial")
    if not final.parent.is_dir():
        raise FileNotFoundError(f"{path}: there is no directory {final.parent} to write to")
    content = partial.read_bytes() if partial.exists() else b""
    if content and not resume:
        raise ValueError(
            f"{partial} has the finished lines of an interrupted run: add --resume to go on after "
            "them, or delete it to start again"
        )
    earlier, size = _finished(content, item_of)
    with open(partial, "ab") as file:
        file.truncate(size)
        output = LineOutput(file, earlier)
        try:
            yield output
        except BaseException:
            if output.num_done:
                print(
                    f"the results of the first {output.num_done:,} lines are in {partial}: the "
                    "same command with --resume goes on after them",
                    file=sys.stderr,
                )
            else:
                partial.unlink(missing_ok=True)
            raise
    os.replace(partial, final)


def _num_processes() -> int:
    import jax  # not above: the help of a command does not need it

    return jax.process_count()


def _finished(content: bytes, item_of: Callable[[str], Hashable] | None) -> tuple[list[str], int]:
    """The finished items of an interrupted run, and their size in bytes."""
    lines = content.decode(errors="replace").split("\n")[:-1]
    if item_of is None:
        items = lines
    else:  # the last item may lack some of its lines
        items = ["\n".join(group) for _, group in itertools.groupby(lines, item_of)][:-1]
    return items, sum(len(item.encode()) + 1 for item in items)


def batch_sizes(largest: int) -> Iterator[int]:
    """How many items to work on at once: few at first, so that the first results come soon."""
    size = FIRST_BATCH
    while True:
        yield min(size, largest)
        size *= 4


@contextlib.contextmanager
def interruptible() -> Iterator[Run]:
    """Makes signals interrupt the command, also while a device computes.

    Yields a function that returns the result of another function, which it calls in a thread: the
    main thread waits and so answers a signal at once. SIGINT, SIGTERM and SIGHUP raise
    KeyboardInterrupt with the number of the signal, unless they are ignored (as under nohup).
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt(number)

    earlier = {}
    if threading.current_thread() is threading.main_thread():  # no other may handle signals
        numbers = [getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)]
        heard = [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]
        earlier = {number: signal.signal(number, interrupt) for number in heard}
    try:
        yield _in_thread
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)


def _in_thread(work: Callable[[], T]) -> T:
    result: list[Any] = []

    def run() -> None:
        try:
            result.append((True, work()))
        except BaseException as error:
            result.append((False, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join()
    ((succeeded, value),) = result
    if not succeeded:
        raise value
    return value
