"""Settings of a whole process. Only commands change them; imports and library functions do not."""

import atexit
import contextlib
import functools
import gc
import logging
import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any, NoReturn

import absl.logging  # noqa: F401 - creates the logger "absl"

from flaxformer_mt.runtime.host import keep_freed_memory
from flaxformer_mt.storage.paths import FULL


@functools.cache
def prepare_process() -> None:
    """Sets up this process for one command. Every command calls it first."""
    keep_freed_memory()
    # Tracing creates millions of objects. With Python's default threshold, garbage collection
    # takes 0.5 s of a start, and the collection at exit takes 0.3 s.
    gc.set_threshold(100_000)
    atexit.register(gc.freeze)
    # Our warnings are messages to the user, so they have no prefix "WARNING:module:". The import of
    # Orbax adds a handler with this prefix. `force=True` would also remove pytest's handlers.
    logging.basicConfig()
    for handler in logging.root.handlers:
        if type(handler) is logging.StreamHandler:
            handler.setFormatter(logging.Formatter("%(message)s"))
    # Orbax raises each failure and also logs it, with a traceback.
    logging.getLogger("absl").setLevel(logging.CRITICAL)
    _hide_closed_event_loops()


def _hide_closed_event_loops() -> None:
    """Hides the tracebacks of unfinished checkpoint writes after one write has failed.

    Orbax raises the failure itself. It closes the event loop of the other writes, and tensorstore
    then prints a traceback for each of them.
    """
    show = sys.unraisablehook

    def show_others(event: Any) -> None:
        if str(event.exc_value) != "Event loop is closed":
            show(event)

    sys.unraisablehook = show_others


def platform_problem() -> str:
    """Returns why JAX cannot use JAX_PLATFORMS, and a remedy; "" if it can."""
    platforms = os.environ.get("JAX_PLATFORMS", "")
    if not platforms:
        return ""
    import jax  # slow, and --help does not need it

    try:
        jax.devices()
        return ""
    except (AssertionError, RuntimeError) as error:  # AssertionError: no such device is visible
        reason = str(error).split(" (set JAX_PLATFORMS")[0] or "no such device is visible"
    extra = {"cuda": "gpu", "gpu": "gpu", "tpu": "tpu"}.get(platforms.split(",")[0])
    install = f"Install what it needs (pip install 'flaxformer-mt[{extra}]', in a checkout "
    install += f"pip install -e '.[{extra}]'), or unset" if extra else ""
    return f"JAX cannot use JAX_PLATFORMS={platforms}: {reason}. {install or 'Unset'} it"


def memory_problem(error: BaseException) -> str:
    """Returns a message with remedies for an out-of-memory error; "" for any other error."""
    text = str(error).strip()
    if not isinstance(error, MemoryError) and "RESOURCE_EXHAUSTED" not in text:
        return ""
    reason = text.splitlines()[0] if text else "this machine has no more memory"
    return (
        f"out of memory: {reason}\n"
        "Training: --mesh.memory-limit 14GB (less than the device has) splits each batch into "
        "micro-batches that fit, with the same result; --model.remat and a smaller "
        "--data.tokens-per-batch (on resume with --accept-changed-data) also reduce memory. "
        "The newest checkpoint is whole: the same command continues from it.\n"
        "Translating, scoring: lower --decoding.tokens-per-batch; --resume continues after the "
        "finished lines"
    )


def message_of(error: Exception) -> str:
    """Returns the message of an error, with the file name and, for a full disk, a remedy."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error) or type(error).__name__
    text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if error.errno not in FULL:
        return text
    return (
        f"{text}. Free some space there, or choose another disk, and start the command again. It "
        "continues after the finished parts; translate, score and evaluate need --resume for this"
    )


@contextlib.contextmanager
def second_interrupt_ends() -> Iterator[None]:
    """Makes a second ctrl-C end the process at once, even during the clean-up after the first."""
    default = signal.default_int_handler
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not default:
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, default)


def quote(text: object) -> str:
    """Returns a path as a word of a command line."""
    return subprocess.list2cmdline([str(text)]) if os.name == "nt" else shlex.quote(str(text))


def exit_process(status: int) -> NoReturn:
    """Ends a command as `sys.exit(status)`, but skips C's exit handlers after a signal.

    The status after a signal is 130, 141 or 143. Signals do not cancel XLA compilation. Its threads
    would crash when C's exit handlers free their data. Python's exit handlers still run, so that
    this process disconnects from the others.
    """
    if status <= 128:
        sys.exit(status)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a second ctrl-C ends the process at once
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:  # the reader of a pipe may be gone
        os._exit(status)
