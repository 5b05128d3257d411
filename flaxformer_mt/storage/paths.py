"""Local paths and addresses of buckets. Only this module parses addresses such as gs://.

A local path is a `pathlib.Path`, an address is a `UPath`. Both have the same methods. The functions
here hide the differences of an object store: it has no folders and no renaming, and it writes an
object whole.
"""

import contextlib
import errno
import functools
import glob
import os
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import fsspec
from fsspec.config import conf as fsspec_settings
from upath import UPath

AnyPath: TypeAlias = Path | UPath
PathLike: TypeAlias = str | os.PathLike[str] | UPath

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Error numbers of a full disk, an exceeded quota, and an exceeded file size limit."""

_ADDRESS = re.compile(r"([a-z][a-z0-9+]+):/(/?)")  # C:/ is a drive
_EXTRAS = {"gs": "gcs", "gcs": "gcs", "s3": "s3", "s3a": "s3", "hf": "hf"}
_CLIENTS = {"aiobotocore", "aiohttp", "botocore", "gcsfs", "google", "huggingface_hub", "requests"}


def as_path(path: PathLike) -> AnyPath:
    """Returns the path of a name or address.

    Raises ValueError for an address whose package is not installed; the message names the extra.
    """
    if isinstance(path, UPath):
        return path
    text = os.fspath(path)
    address = _ADDRESS.match(text)
    if not address or not (address[2] or isinstance(path, Path)):  # a Path has one slash less
        return Path(path)
    scheme, rest = address[1], text[address.end() :]
    if scheme == "file":
        return Path(f"/{rest.removeprefix('/')}")
    _prepare(scheme)
    return UPath(f"{scheme}://{rest}")


def is_remote(path: PathLike) -> bool:
    """Returns whether a path is an address."""
    return isinstance(as_path(path), UPath)


def join(folder: PathLike, name: str) -> AnyPath:
    """Returns the path of `name`, which may be relative to `folder`. It expands a leading ~."""
    if is_remote(name):
        return as_path(name)
    base = as_path(folder)
    if isinstance(base, Path):
        return Path(os.path.expanduser(base)) / os.path.expanduser(name)
    return base if name in ("", ".") else base / name


def write_file(path: AnyPath, content: bytes) -> None:
    """Writes a file atomically: readers see either the old or the new content."""
    if isinstance(path, UPath):
        path.fs.pipe_file(path.path, content)
        return
    partial = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}.partial")
    try:
        with naming(path):
            partial.write_bytes(content)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


@contextlib.contextmanager
def naming(path: PathLike) -> Iterator[None]:
    """Adds `path` to a full-disk error that does not name the file."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL or error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def lock_file(file: Any) -> bool:
    """Locks an open file until it is closed. Returns False if its file system has no locks.

    Raises BlockingIOError if another process holds the lock.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        return False
    return True


@contextlib.contextmanager
def lock(path: Path) -> Iterator[None]:
    """Locks `path`: other processes of this machine that call this wait."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.with_name(path.name + ".lock"), "a") as file:
        while True:
            try:
                lock_file(file)  # False: the file system has no locks
                break
            except BlockingIOError:
                time.sleep(0.25)
        yield


def contains(folder: AnyPath, path: AnyPath) -> bool:
    """Returns whether `path` is `folder` itself, or inside it."""
    return f"{path.resolve()}/".startswith(f"{str(folder.resolve()).rstrip('/')}/")


def make_folder(path: AnyPath) -> None:
    """Makes a folder and its parents, unless they exist. It does nothing in a bucket."""
    if isinstance(path, Path):
        path.mkdir(parents=True, exist_ok=True)


def move_file(source: Path, target: AnyPath) -> None:
    """Moves a local file to a path, and replaces a file there."""
    if isinstance(target, Path):
        os.replace(source, target)
        return
    target.fs.put_file(str(source), target.path)
    source.unlink()


def remove_tree(path: AnyPath) -> None:
    """Removes a folder with all its files, if it exists."""
    if isinstance(path, Path):
        shutil.rmtree(path, ignore_errors=True)
        return
    with contextlib.suppress(FileNotFoundError):
        path.fs.rm(path.path, recursive=True)


def replace_folder(fresh: Path, target: AnyPath, publish: Callable[[Path, UPath], None]) -> None:
    """Moves a local folder to `target`; `publish(fresh, target)` copies it to an address.

    An earlier folder is moved beside `fresh`, never half deleted. The caller deletes the folder
    that contains `fresh`.
    """
    if isinstance(target, UPath):
        publish(fresh, target)
        return
    if target.exists():
        target.rename(fresh.with_name(f"{fresh.name}.old"))
    fresh.rename(target)


@contextlib.contextmanager
def new_folder(target: AnyPath, publish: Callable[[Path, UPath], None]) -> Iterator[Path]:
    """Yields a path for a new folder, which replaces `target` at the end (see `replace_folder`).

    If anything fails, the new folder is deleted and `target` is unchanged. If `target` is a link,
    the folder that it points to is replaced. The new folder is built in a temporary one beside a
    local `target`. Temporary folders of killed processes are deleted; running ones lock theirs.
    """
    target = target.resolve()
    make_folder(target.parent)
    beside, prefix = None, f"{target.name}.temporary."
    if isinstance(target, Path):
        beside = target.parent
        for remains in beside.glob(f"{glob.escape(prefix)}*/"):
            # Another process may own it or remove it now.
            with contextlib.suppress(OSError), open(remains / "owner.lock", "ab") as file:
                if lock_file(file):
                    remove_tree(remains)
    with (
        naming(target),
        tempfile.TemporaryDirectory(dir=beside, prefix=prefix) as folder,
        open(Path(folder, "owner.lock"), "wb") as file,
    ):
        lock_file(file)
        fresh = Path(folder, target.name)
        yield fresh
        replace_folder(fresh, target, publish)


def move_tree(source: AnyPath, target: AnyPath) -> None:
    """Moves a folder. In a bucket, it copies the files and then removes the old ones."""
    if isinstance(source, Path):
        assert isinstance(target, Path)
        source.rename(target)
        return
    assert isinstance(target, UPath)
    for name in file_sizes(source):
        source.fs.cp_file((source / name).path, (target / name).path)
    remove_tree(source)


def file_sizes(folder: AnyPath) -> dict[str, int]:
    """Returns {relative path: size in bytes} of all files below a folder, sorted by path."""
    if isinstance(folder, Path):
        files = (path for path in folder.rglob("*") if path.is_file())
        sizes = {path.relative_to(folder).as_posix(): path.stat().st_size for path in files}
    else:
        start = folder.path.rstrip("/") + "/"
        found: Any = folder.fs.find(folder.path, detail=True)
        sizes = {name.removeprefix(start): info["size"] for name, info in found.items()}
    return dict(sorted(sizes.items()))


def upload(folder: Path, target: UPath, names: Iterable[str]) -> None:
    """Copies files of a local folder to an address, in this order, each atomically."""
    for name in names:
        target.fs.put_file(str(folder / name), (target / name).path)


def download(source: UPath, folder: Path) -> Path:
    """Copies all files below an address to a local folder; returns the folder.

    Raises OSError if a file changes during the copy.
    """
    for name, size in file_sizes(source).items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        source.fs.get_file((source / name).path, str(file))
        if file.stat().st_size != size:
            raise OSError(f"{source / name} has changed while it was read: start again")
    return folder


def local_file(path: PathLike) -> Path:
    """Returns a local file: `path` itself, or a copy of the file at an address.

    The copy stays in ~/.cache/flaxformer_mt/remote until the file at the address changes.
    Raises FileNotFoundError if there is no file at an address.
    """
    found = as_path(path)
    if isinstance(found, Path):
        return found
    copy = working_copy(found)
    note = copy.with_name(f".{copy.name}.version")
    version = found.fs.ukey(found.path)
    if not (copy.is_file() and note.is_file() and note.read_text() == version):
        partial = copy.with_name(f".{copy.name}.{os.getpid()}.{threading.get_ident()}.partial")
        try:
            found.fs.get_file(found.path, str(partial))
            os.replace(partial, copy)
        finally:
            partial.unlink(missing_ok=True)
        note.write_text(version)
    return copy


def local_folder(path: PathLike) -> Path:
    """Returns a local folder: `path` itself, or a copy of its files as `local_file` makes it."""
    found = as_path(path)
    if isinstance(found, Path):
        return found
    for name in file_sizes(found):
        local_file(found / name)
    return working_copy(found)


def working_copy(path: AnyPath) -> Path:
    """Returns a local path: `path` itself, or for an address a path in the user's cache."""
    if isinstance(path, Path):
        return path
    copy = cache_folder("remote") / path.protocol / path.path.lstrip("/")
    copy.parent.mkdir(parents=True, exist_ok=True)
    return copy


def cache_folder(name: str) -> Path:
    """Returns a folder of the user's cache, such as "remote" for copies of remote files.

    Raises OSError for a user without a home directory.
    """
    try:
        caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError as error:
        raise OSError(f"{error} Set XDG_CACHE_HOME to a folder for caches.") from error
    return Path(caches, "flaxformer_mt", name)


def remote_problem(error: BaseException) -> str:
    """Returns a message for an error of an object store's client; "" for any other error."""
    if not any(cls.__module__.split(".")[0] in _CLIENTS for cls in type(error).__mro__):
        return ""
    return (
        f"a request to the object store failed: {error or type(error).__name__}. Check the "
        "address, the credentials of this machine and the network (see docs/remote.md)."
    )


@functools.cache
def _prepare(scheme: str) -> None:
    """Prepares fsspec for addresses of this scheme. Raises ValueError if it cannot open them."""
    if scheme in ("gs", "gcs") and "STORAGE_EMULATOR_HOST" in os.environ:
        # An emulator does not report the kind of a bucket, so gcsfs would warn at each request.
        os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
    try:
        fsspec.get_filesystem_class(scheme)
    except ImportError as error:
        extra = _EXTRAS.get(scheme)
        remedy = f"`pip install 'flaxformer_mt[{extra}]'`" if extra else str(error)
        raise ValueError(
            f"{scheme}:// addresses need a package that is not installed: {remedy}"
        ) from error
    except ValueError as error:
        raise ValueError(
            f"{scheme}:// is no known kind of address; expected a path of this machine, gs://, "
            "s3://, hf:// or another address that fsspec knows"
        ) from error
    # Other processes also write to a bucket, so a cached listing may be outdated.
    fsspec_settings.setdefault(scheme, {}).setdefault("use_listings_cache", False)
