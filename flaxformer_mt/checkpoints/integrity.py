"""Lists the checkpoints of a workdir and finds damage by file sizes and checksums.

Orbax writes a checkpoint to a temporary directory and renames it. So a killed save leaves no
incomplete checkpoint. Orbax does not detect later damage: a changed byte gives wrong parameters,
and a truncated file gives long tracebacks. So this module adds a list of all files, with size and
CRC-32, before the renaming. Damage then gives a short message.
"""

import functools
import itertools
import json
import logging
import zlib
from pathlib import Path

from flaxformer_mt.checkpoints.buckets import is_complete
from flaxformer_mt.storage.paths import (
    AnyPath,
    file_sizes,
    is_remote,
    make_folder,
    move_tree,
    write_file,
)

_NEWEST = "newest_checkpoint"
# Parts of error messages about a full disk, an exceeded quota, or an exceeded file size limit.
_FULL = ("RESOURCE_EXHAUSTED", "No space left", "quota exceeded", "File too large")
MANIFEST = "files.json"


def saved_steps(directory: AnyPath) -> list[int]:
    """Returns the steps of the complete checkpoints in `directory`, ascending."""
    return sorted(int(path.name) for path in _numbered(directory) if is_complete(path))


def unfinished_checkpoints(directory: AnyPath) -> list[AnyPath]:
    """Returns the incomplete checkpoints of killed runs (only in a bucket)."""
    return [path for path in _numbered(directory) if not is_complete(path)]


def seal(checkpoint: Path) -> None:
    """Writes the list of a checkpoint's files, with size and CRC-32, into its directory."""
    listing = {
        name: [size, _crc32(path := checkpoint / name, path.stat().st_mtime_ns)]
        for name, size in file_sizes(checkpoint).items()
        if "/" in name  # later, Orbax adds its own files to the top directory
    }
    write_file(checkpoint / MANIFEST, json.dumps(listing, indent=1).encode())


def find_damage(checkpoint: AnyPath, *, contents: bool = True) -> str:
    """Returns a description of the damage of a sealed checkpoint; "" if it is undamaged.

    Without `contents`, and in a bucket, it compares only names and sizes, which is fast.
    """
    contents = contents and not is_remote(checkpoint)
    try:
        listing = json.loads((checkpoint / MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return f"{MANIFEST} is missing"
    except ValueError:
        return f"{MANIFEST} is unreadable"
    sizes = file_sizes(checkpoint)
    for name, (size, crc) in listing.items():
        if name not in sizes:
            return f"{name} is missing"
        if sizes[name] != size:
            return f"{name} has {sizes[name]} bytes instead of {size}"
        if contents and _crc32(path := checkpoint / name, path.stat().st_mtime_ns) != crc:
            return f"the contents of {name} have changed since it was written"
    return ""


def move_damaged(directory: AnyPath, target: AnyPath) -> None:
    """Moves damaged checkpoints to `target`, so that the newest remaining one is undamaged.

    It warns about each of them, and about a missing newest checkpoint. It reads every byte of the
    newest undamaged checkpoint, and compares only names and sizes of older ones.

    Raises OSError if checkpoints were written, but all are damaged or missing. It moves nothing
    then, because only the user may decide to restart a long run from step 0.
    """
    _warn_if_missing(directory)
    damaged: dict[int, str] = {}
    whole: list[int] = []
    for step in reversed(saved_steps(directory)):
        if damage := find_damage(directory / str(step), contents=not whole):
            damaged[step] = damage
        else:
            whole.append(step)
    if damaged and not whole:
        reasons = "\n".join(f"  step {step}: {what}" for step, what in damaged.items())
        raise OSError(
            f"every checkpoint in {directory} is damaged:\n{reasons}\n"
            "Restore one from a copy, or move this directory away to start from step 0."
        )
    for step, what in damaged.items():
        make_folder(target)
        names = (target / f"{step}-{number}" for number in itertools.count())
        moved = next(path for path in names if not path.exists())
        move_tree(directory / str(step), moved)
        logging.getLogger(__name__).warning(
            "checkpoint %d is damaged (%s): moved to %s; the newest whole one is %d",
            *(step, what, moved, whole[0]),
        )
    if damaged:
        note_newest(directory)


def note_newest(directory: AnyPath) -> None:
    """Records the step of the newest checkpoint, so that a later run detects its loss."""
    steps = saved_steps(directory)
    if steps:
        write_file(directory.parent / _NEWEST, f"{steps[-1]}\n".encode())


def was_saved(workdir: AnyPath) -> bool:
    """Returns whether a checkpoint was ever written in this workdir."""
    return bool(saved_steps(workdir / "checkpoints")) or (workdir / _NEWEST).exists()


def _warn_if_missing(directory: AnyPath) -> None:
    """Warns if the newest written checkpoint is missing; raises OSError if all are missing."""
    try:
        noted = int((directory.parent / _NEWEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return
    steps = saved_steps(directory)
    if not steps:
        raise OSError(
            f"every checkpoint is missing from {directory}; the newest was {noted}.\n"
            "Restore them from a copy, or remove "
            f"{directory.parent / _NEWEST} to start from step 0."
        )
    if noted > steps[-1]:
        logging.getLogger(__name__).warning(
            "checkpoint %d is missing from %s: continuing from checkpoint %d",
            *(noted, directory, steps[-1]),
        )


def _numbered(directory: AnyPath) -> list[AnyPath]:
    if not directory.is_dir():
        return []
    return [path for path in directory.iterdir() if path.name.isdecimal()]


def write_failure(what: str, where: AnyPath, error: Exception, newest: str = "") -> OSError:
    """Returns an error with a clear message for an exception of a failed write.

    `what` and `where` name the file or directory. `newest` describes the newest checkpoint.
    """
    text = str(error)
    full = any(sign in text for sign in _FULL)
    reason = "the disk is full" if full else text.split("\n")[0] or type(error).__name__
    advice = "free some space" if full else "check that this directory can be written to"
    newest = f" ({newest})" if newest else ""
    return OSError(
        f"could not write {what} to {where}: {reason}{newest}.\n"
        f"Please {advice}, or choose another directory, and start the same command again."
    )


@functools.lru_cache(maxsize=4096)
def _crc32(path: AnyPath, changed: int) -> int:
    """Returns the CRC-32 of a file. `changed` is its modification time, a key of the cache."""
    del changed
    crc = 0
    with path.open("rb") as file:
        while chunk := file.read(1 << 22):
            crc = zlib.crc32(chunk, crc)
    return crc
