"""Stops a run after a signal, in every process after the same update."""

import contextlib
import os
import signal
import stat
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import jax
import numpy as np
from jax.experimental import multihost_utils

_END = 0  # not the number of a signal; ends the thread of `_acknowledged`
_HANGUP = getattr(signal, "SIGHUP", None)  # Windows has none


class Interrupted(BaseException):
    """Signals raise it to abandon the current work, so that the run stops quickly.

    It is not an `Exception`, because libraries catch that class.
    """


class StopRequest(threading.Event):
    """An event that a signal sets; `number` is the signal's number, 0 before."""

    number = 0
    _may_interrupt = False

    @contextmanager
    def may_interrupt(self) -> Iterator[None]:
        """Lets a signal raise `Interrupted` in this block, if the run has one process."""
        self._may_interrupt = True
        try:
            yield
        finally:
            self._may_interrupt = False

    def receive(self, number: int) -> None:
        """Records a signal."""
        self.number = number
        self.set()
        if self._may_interrupt and jax.process_count() == 1:
            raise Interrupted


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Yields an event that SIGTERM, SIGINT (ctrl-C) or SIGHUP (the terminal closes) sets.

    A second signal ends the process, except SIGHUP: closing a terminal often sends it twice. With
    several processes, JAX's preemption service handles SIGTERM: the processes agree on a step.
    """
    stopped = StopRequest()
    if threading.current_thread() is not threading.main_thread():  # only it may handle signals
        yield stopped
        return
    signals = [signal.SIGINT] + [signal.SIGTERM] * (jax.process_count() == 1)
    if _HANGUP and signal.getsignal(_HANGUP) != signal.SIG_IGN:  # nohup ignores it
        signals.append(_HANGUP)
    before = {number: signal.getsignal(number) for number in signals}

    def stop(number: int, _: object) -> None:
        for other, handler in before.items():
            signal.signal(other, signal.SIG_IGN if other == _HANGUP else handler)
        stopped.receive(number)

    for number in signals:
        signal.signal(number, stop)
    try:
        with _acknowledged(signals):
            yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _acknowledged(signals: Sequence[int]) -> Iterator[None]:
    """Answers these signals at once, from a thread.

    Python calls a signal's handler in the main thread only, for instance after a long compilation.
    The wake-up file descriptor gets the signal's number immediately.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    thread = threading.Thread(target=_answer, args=(reader, signals), daemon=True)
    thread.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.write(writer, bytes([_END]))
        thread.join()
        os.close(writer)
        os.close(reader)


def _answer(reader: int, signals: Sequence[int]) -> None:
    """Prints a message after the first signal, and ends the process after the second."""
    received = 0
    while (number := os.read(reader, 1)[0]) != _END:
        if number not in signals or (received and number == _HANGUP):
            continue
        received += 1
        name = signal.Signals(number).name
        if received > 1:
            remedy = "the same command goes on from the last checkpoint"
            _print(f"{name}: quit without saving; {remedy}")
            os._exit(128 + number)
        again = {signal.SIGINT: "press again", _HANGUP: "SIGTERM"}.get(number, "again")
        _print(f"\n{name}: stopping after this update; {again} to quit now")
        if number == _HANGUP:
            _leave_terminal()


def _print(text: str) -> None:
    with contextlib.suppress(OSError):  # the terminal is gone
        print(text, file=sys.stderr, flush=True)


def _leave_terminal() -> None:
    """Sends further output to the null device instead of a terminal, which may be closed.

    A message to a closed terminal would raise OSError, and end the run before it saves.
    """
    null = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        if stat.S_ISCHR(os.fstat(descriptor).st_mode):
            os.dup2(null, descriptor)
    os.close(null)


def should_stop(stopped: StopRequest, step: int, *, synchronize: bool) -> bool:
    """Returns whether to stop after this update: the same answer in every process.

    A signal reaches the processes at different times. If one stopped alone, the others would wait
    forever for its part of the next gradient. After SIGTERM (a preemption, which leaves little
    time), JAX's preemption service makes all stop within a second. After SIGINT and SIGHUP, the
    processes ask each other, which waits for the device. So they ask only if `synchronize` is true;
    it must be the same in every process.

    Every process calls this function after each update; `step` is the number of updates. A signal
    of another process is recorded in `stopped`.
    """
    if jax.process_count() == 1:
        return stopped.is_set()
    if multihost_utils.reached_preemption_sync_point(step):
        stopped.number = signal.SIGTERM
        return True
    if not synchronize:
        return False
    numbers = multihost_utils.process_allgather(np.array(stopped.number))
    stopped.number = stopped.number or int(np.max(np.asarray(numbers)))
    return bool(np.any(numbers))
