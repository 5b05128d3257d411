"""A lock on a workdir, so that two runs never write to it at the same time.

In a local folder, the operating system releases the lock when the process ends. A bucket has no
locks. There, the owner renews an object every few seconds. A lock without renewals expires.
"""

import contextlib
import json
import os
import socket
import sys
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from upath import UPath

from flaxformer_mt.runtime.processes import check_shared, first_only
from flaxformer_mt.storage.paths import AnyPath, PathLike, as_path, lock_file, naming, write_file

LOCK_FILE = "owner.lock"
RENEWAL = 5.0  # seconds
EXPIRY = 30.0  # seconds without renewal after which a lock is free


@contextlib.contextmanager
def own_workdir(workdir: PathLike, *, alone: bool = False) -> Iterator[None]:
    """Holds the lock of an existing workdir. The first process of a run holds it for all.

    With `alone`, the run has one process, and this function does not start JAX.

    Raises OSError if another run holds the lock (the message names its host and process), or if the
    processes of this run do not share the workdir.
    """
    path, token = as_path(workdir) / LOCK_FILE, uuid.uuid4().hex
    release = _lock(path, token) if alone else first_only(lambda: _lock(path, token))
    try:
        if not alone:
            check_shared(path, token)
        yield
    finally:
        if release is not None:
            release()


def _lock(path: AnyPath, token: str) -> Callable[[], None]:
    """Locks a file; returns a function that releases the lock."""
    if isinstance(path, UPath):
        return _lock_in_bucket(path, token)
    file = open(path, "a+", encoding="utf-8")  # noqa: SIM115 - stays open
    try:
        has_locks = lock_file(file)
    except BlockingIOError:
        file.seek(0)
        owner = file.read()
        file.close()
        raise OSError(_refusal(path.parent, owner)) from None
    if not has_locks:
        warnings.warn(
            f"{path.parent} is on a file system without locks: do not start a second run there",
            stacklevel=2,
        )
    with naming(path):
        file.truncate(0)
        file.write(json.dumps(_owner(token)) + "\n")
        file.flush()
    return file.close


def _owner(token: str) -> dict[str, Any]:
    owner = {"host": socket.gethostname(), "process": os.getpid(), "since": time.ctime()}
    return owner | {"token": token}


def _refusal(workdir: Any, owner: str) -> str:
    try:
        found = json.loads(owner)
        who = f"process {found['process']} on host {found['host']}, since {found['since']}"
    except (ValueError, KeyError, TypeError):  # the owner has not yet written to the file
        who = "another process"
    return (
        f"another run uses {workdir}: {who}. Wait until it ends, stop it with `kill` (it saves "
        "first), or choose another directory"
    )


def _lock_in_bucket(path: UPath, token: str) -> Callable[[], None]:
    """Writes the lock of a workdir in a bucket; returns a function that releases it.

    A thread renews the lock.
    """
    owner = _owner(token)
    text = json.dumps(owner)
    if found := _read(path):
        _wait_until_free(path, found)
        write_file(path, text.encode())
    else:
        try:
            path.fs.pipe_file(path.path, text.encode(), mode="create")
        except FileExistsError:
            raise OSError(_refusal(path.parent, _read(path))) from None
        except FileNotFoundError as error:
            raise FileNotFoundError(f"cannot write to {path.parent}: {error}") from error
    time.sleep(1)  # if two runs write at the same time, the last one wins
    if _read(path) != text:
        raise OSError(_refusal(path.parent, _read(path)))
    ended = threading.Event()
    thread = threading.Thread(target=_renew, args=(path, owner, ended), daemon=True)
    thread.start()

    def release() -> None:
        ended.set()
        thread.join()
        path.unlink(missing_ok=True)

    return release


def _renew(path: UPath, owner: dict[str, Any], ended: threading.Event) -> None:
    """Renews the lock until the end of the run. Ends the process if another run took the lock."""
    number = 0
    while not ended.wait(RENEWAL):
        try:
            if (found := _read(path)) and owner["token"] not in found:
                message = f"error: this run lost its lock. {_refusal(path.parent, found)}"
                print(message, file=sys.stderr, flush=True)
                os._exit(1)  # sys.exit would end this thread only
            number += 1
            write_file(path, json.dumps(owner | {"renewal": number}).encode())
        except Exception as error:  # the network may come back before the lock expires
            print(f"could not renew {path}: {error}", file=sys.stderr, flush=True)


def _wait_until_free(path: UPath, found: str) -> None:
    """Waits until the lock expires or is removed; raises OSError if its owner renews it."""
    message = f"{path} exists: waiting for up to {EXPIRY:.0f} s for its owner to renew it"
    print(message, file=sys.stderr, flush=True)
    deadline = time.monotonic() + EXPIRY
    while time.monotonic() < deadline:
        time.sleep(1)
        if (now := _read(path)) != found:
            if not now:
                return
            raise OSError(_refusal(path.parent, now))


def _read(path: UPath) -> str:
    """Returns the text of the lock; "" if there is none."""
    try:
        content: Any = path.fs.cat_file(path.path)  # one request: the owner may write meanwhile
        return content.decode()
    except FileNotFoundError:
        return ""
