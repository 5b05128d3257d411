"""Applies functions to many items, in order, on all cores."""

import contextlib
import functools
import itertools
import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import threading
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from flaxformer_mt.storage.paths import naming

T = TypeVar("T")
R = TypeVar("R")

# This process handles the first few items alone, because starting others takes a second.
_NUM_HERE = 4


class Workers:
    """A context manager of processes that share work.

    The processes start only if there are more than a few items. They end when this process ends.
    """

    def __init__(
        self, num_processes: int, *, here: bool = True, setting: str = "--num-workers"
    ) -> None:
        """Stores the settings; `map` starts the processes.

        Args:
          num_processes: number of processes. If it is 1 and `here` is true, this process works
            alone.
          here: whether this process does the first few items.
          setting: the name of `num_processes`, for messages.
        """
        self._num_processes, self._setting = num_processes, setting
        self._num_here = (None if num_processes == 1 else _NUM_HERE) if here else 0
        self._stack = contextlib.ExitStack()
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def map(self, work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Yields `work(item)` of each item, in order. It holds a few items in memory at a time.

        Raises OSError if a process was killed.
        """
        items = iter(items)
        yield from map(work, itertools.islice(items, self._num_here))
        for item in items:  # more than a few
            yield from self._map(work, itertools.chain([item], items))

    def map_each(
        self, work: Callable[[T], R], readers: Sequence[Callable[[], Iterable[T]]]
    ) -> list[Callable[[], Iterator[R]]]:
        """Returns, for each reader, a function that yields `work(item)` of its items, in order."""
        return [lambda read=read: self.map(work, read()) for read in readers]

    def _map(self, work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        if self._pool is None:
            self._pool = self._stack.enter_context(_start_pool(self._num_processes))
        pending: deque[Future[R]] = deque()
        # Each process reads `work` once from a file, because it contains a tokenizer.
        with naming(tempfile.gettempdir()), tempfile.NamedTemporaryFile(suffix=".work") as file:
            pickle.dump(work, file)
            file.flush()
            try:
                for item in items:
                    pending.append(self._pool.submit(_do, file.name, item))
                    if len(pending) > 3 * self._num_processes:
                        yield pending.popleft().result()
                while pending:
                    yield pending.popleft().result()
            except BrokenProcessPool as error:
                raise OSError(
                    "a process that prepares text was killed. If memory ran out, lower "
                    f"{self._setting} (now {self._num_processes}). Run the same command again to "
                    f"continue ({error})"
                ) from error
            finally:
                for future in pending:
                    future.cancel()


def end_with_parent() -> None:
    """Ends this process when its parent ends or is killed."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, name="watch-parent", daemon=True).start()


def _start_pool(num_processes: int) -> ProcessPoolExecutor:
    """Returns a pool whose processes have started.

    A new process imports the main module, and the main module of a command imports jax. The pool
    does not need jax, so an empty module replaces the main module during the start.
    """
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(num_processes, context, _start)
    main, sys.modules["__main__"] = sys.modules["__main__"], types.ModuleType("__main__")
    try:
        for _ in range(num_processes):  # each starts a process
            pool.submit(os.getpid)
    finally:
        sys.modules["__main__"] = main
    return pool


def _start() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent reports the interruption
    if hasattr(signal, "SIGHUP"):  # the terminal was closed: the parent saves the run
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    end_with_parent()


def _do(work_file: str, item: Any) -> Any:
    return _load(work_file)(item)


@functools.lru_cache(maxsize=1)
def _load(work_file: str) -> Callable[[Any], Any]:
    with open(work_file, "rb") as file:
        return pickle.load(file)


def in_thread(work: Callable[[], R]) -> R:
    """Returns `work()`, called in a thread, so that the main thread can handle signals."""
    result: Future[R] = Future()

    def run() -> None:
        try:
            result.set_result(work())
        except BaseException as error:
            result.set_exception(error)

    threading.Thread(target=run, daemon=True).start()  # an executor would wait for it at exit
    return result.result()
