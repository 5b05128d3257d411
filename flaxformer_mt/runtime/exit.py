"""How a command leaves when a signal ends it: at once.

A signal ends the waiting for a compilation, but not the compilation. XLA's threads go on with it,
and crash when the C library, on its way out, takes from under them what they work with.
"""

import atexit
import os
import sys
from typing import NoReturn

_killed: list[int] = []
"""The exit status of a process that a signal ends."""


def exit_at_once_after_signal() -> None:
    """To be called before jax is imported: what is registered first comes last, so that processes
    that work together part from each other before."""
    atexit.register(_leave_at_once)


def leave(status: int) -> NoReturn:
    """`sys.exit` for a command: after a signal (130, 141, 143) nothing is taken apart."""
    if status > 128:
        _killed.append(status)
    sys.exit(status)


def _leave_at_once() -> None:
    if not _killed:
        return
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:  # nobody may be reading any more
        os._exit(_killed[-1])
