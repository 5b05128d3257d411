"""Stopping on request, in every process after the same update."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import jax
import numpy as np
from jax.experimental import multihost_utils


@contextmanager
def stop_signal() -> Iterator[threading.Event]:
    """An event that SIGTERM or SIGINT (ctrl-C) sets; a second signal acts as it always does."""
    stopped = threading.Event()
    if threading.current_thread() is not threading.main_thread():  # only it may catch signals
        yield stopped
        return
    signals = (signal.SIGTERM, signal.SIGINT)
    before = [signal.getsignal(number) for number in signals]

    def restore() -> None:
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)

    def stop(*_: object) -> None:
        stopped.set()
        restore()

    for number in signals:
        signal.signal(number, stop)
    try:
        yield stopped
    finally:
        restore()


def should_stop(stopped: threading.Event, *, rendezvous: bool) -> bool:
    """Whether to stop after this update: the same answer in every process.

    A signal reaches one process or another, sooner or later. Were each to stop by itself, the
    others would wait for its part of the next gradient for ever. So they ask each other, and as
    asking means waiting for the device, only at a `rendezvous`. One process asks nobody and waits
    for nothing.

    Args:
      stopped: of this process.
      rendezvous: after the same updates in every process, and where they wait anyway.
    """
    if jax.process_count() == 1:
        return stopped.is_set()
    return rendezvous and bool(np.any(multihost_utils.process_allgather(stopped.is_set())))
