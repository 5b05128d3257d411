"""A lock on a workdir, so that two runs never write to it at the same time.

The operating system releases the lock when its process ends, in whatever way. So no lock of a dead
process remains, also on a network file system.
"""

import contextlib
import errno
import json
import os
import socket
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from flaxformer_mt.runtime.processes import first_then_others, is_first

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

LOCK_FILE = "owner.lock"


@contextlib.contextmanager
def own_workdir(workdir: str | os.PathLike[str]) -> Iterator[None]:
    """Holds the lock of an existing workdir. Of several processes of a run the first one holds it.

    Raises:
      OSError: another run holds it; the message names its host and process.
    """
    path = Path(workdir, LOCK_FILE)
    file = first_then_others(lambda: _lock(path) if is_first() else None)
    try:
        yield
    finally:
        if file is not None:
            file.close()


@contextlib.contextmanager
def own_directory(directory: str | os.PathLike[str]) -> Iterator[None]:
    """Holds the lock of an existing directory, for a command of one process that needs no jax.

    Raises OSError as `own_workdir`.
    """
    with contextlib.closing(_lock(Path(directory, LOCK_FILE))):
        yield


def _lock(path: Path) -> TextIO:
    """Returns the locked file; closing it releases the lock."""
    file = open(path, "a+", encoding="utf-8")  # noqa: SIM115 - stays open
    try:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        owner = file.read()
        file.close()
        raise OSError(_refusal(path.parent, owner)) from None
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EINVAL):
            raise
        warnings.warn(
            f"{path.parent} is on a file system without locks: start no second run there",
            stacklevel=2,
        )
    file.truncate(0)
    owner = {"host": socket.gethostname(), "process": os.getpid(), "since": time.ctime()}
    file.write(json.dumps(owner) + "\n")
    file.flush()
    return file


def _refusal(workdir: Path, owner: str) -> str:
    try:
        found = json.loads(owner)
        who = f"process {found['process']} on host {found['host']}, since {found['since']}"
    except (ValueError, KeyError, TypeError):  # it has just locked the file
        who = "another process"
    return (
        f"another run uses {workdir}: {who}. Wait for its end, stop it (`kill` saves it first), or "
        "choose another --workdir"
    )
