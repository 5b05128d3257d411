"""Stopping on request, in every process after the same update."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import jax
import numpy as np
from jax.experimental import multihost_utils


class Interrupted(Exception):
    """Raised by a signal in the midst of work that is not worth the time that is left."""


class StopRequest(threading.Event):
    """Set by a signal; `number` is which, 0 before."""

    number = 0
    _may_interrupt = False

    @contextmanager
    def may_interrupt(self) -> Iterator[None]:
        """Work that a signal ends at once, by `Interrupted`. (Of several processes, none does.)"""
        self._may_interrupt = True
        try:
            yield
        finally:
            self._may_interrupt = False

    def receive(self, number: int) -> None:
        """What a signal does."""
        self.number = number
        self.set()
        if self._may_interrupt and jax.process_count() == 1:
            raise Interrupted


@contextmanager
def stop_signal() -> Iterator[StopRequest]:
    """An event that SIGTERM or SIGINT (ctrl-C) sets; a second signal acts as it always does.

    Of several processes, SIGTERM is JAX's: its preemption service has all of them agree on a step.
    """
    stopped = StopRequest()
    if threading.current_thread() is not threading.main_thread():  # only it may catch signals
        yield stopped
        return
    alone = jax.process_count() == 1
    signals = (signal.SIGINT, signal.SIGTERM) if alone else (signal.SIGINT,)
    before = [signal.getsignal(number) for number in signals]

    def restore() -> None:
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)

    def stop(number: int, _: object) -> None:
        restore()
        stopped.receive(number)

    for number in signals:
        signal.signal(number, stop)
    try:
        yield stopped
    finally:
        restore()


def should_stop(stopped: StopRequest, step: int, *, late: bool, rendezvous: bool) -> bool:
    """Whether to stop after this update: the same answer in every process.

    A signal reaches one process or another, sooner or later. Were each to stop by itself, the
    others would wait for its part of the next gradient for ever. So they ask each other: after
    SIGTERM (preemption, which gives little time) within a second, through JAX's preemption service;
    else, as asking means waiting for the device, only at a `rendezvous`. One process asks nobody.

    Args:
      stopped: of this process. A signal that another one got is noted in it.
      step: updates done; called once after each of them, in every process.
      late: whether this process finds that the deadline has come.
      rendezvous: after the same updates in every process, and where they wait anyway.
    """
    if jax.process_count() == 1:
        return late or stopped.is_set()
    if multihost_utils.reached_preemption_sync_point(step):
        stopped.number = signal.SIGTERM
        return True
    if not rendezvous:
        return False
    asked = multihost_utils.process_allgather(np.array([stopped.number, late]))
    number, any_late = np.max(np.asarray(asked).reshape(-1, 2), axis=0)
    stopped.number = stopped.number or int(number)
    return bool(number or any_late)
