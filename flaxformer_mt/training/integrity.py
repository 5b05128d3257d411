"""Which checkpoints are there, and are they whole: files, sizes and checksums.

Orbax itself makes a checkpoint appear all at once (written aside, then renamed), so a killed save
leaves none. What it does not notice is harm that comes later: it reads a changed byte as other
numbers, and ends in megabytes of tracebacks on a shortened file. A list of files, written inside
the same all-at-once step, answers both in one sentence.
"""

import json
import logging
import os
import zlib
from pathlib import Path

_NEWEST = "newest_checkpoint"
MANIFEST = "files.json"
_CHUNK = 1 << 22


def saved_steps(directory: Path) -> list[int]:
    """Steps of the complete checkpoints in `directory`, rising; unfinished saves do not count."""
    if not directory.is_dir():
        return []
    return sorted(int(path.name) for path in directory.iterdir() if path.name.isdecimal())


def seal(checkpoint: Path) -> None:
    """Writes the size and CRC-32 of every file of a checkpoint beside them."""
    listing = {
        str(path.relative_to(checkpoint)): [path.stat().st_size, _crc32(path)]
        for item in sorted(checkpoint.iterdir())
        if item.is_dir()  # Orbax still writes its own notes at the top after this
        for path in sorted(item.rglob("*"))
        if path.is_file()
    }
    (checkpoint / MANIFEST).write_text(json.dumps(listing, indent=1), encoding="utf-8")


def find_damage(checkpoint: Path, *, contents: bool = True) -> str:
    """What is wrong with a sealed checkpoint, or "" when it is whole.

    Args:
      checkpoint: directory of one step.
      contents: read every byte; False compares names and sizes only, which costs nothing.
    """
    try:
        listing = json.loads((checkpoint / MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return f"{MANIFEST} is missing"
    except ValueError:
        return f"{MANIFEST} is unreadable"
    for name, (size, crc) in listing.items():
        path = checkpoint / name
        if not path.is_file():
            return f"{name} is missing"
        if path.stat().st_size != size:
            return f"{name} has {path.stat().st_size} bytes instead of {size}"
        if contents and _crc32(path) != crc:
            return f"the contents of {name} have changed since it was written"
    return ""


def set_aside_damaged(directory: Path, refuge: Path) -> None:
    """Moves damaged checkpoints to `refuge` with a warning each, so that the newest is whole.

    The newest one that was written being missing is warned of as well.

    Every byte is read of the newest only; of the others, names and sizes.

    Raises:
      OSError: not one checkpoint is whole, or none is left. Nothing is moved then: starting from
        nothing over a long run must be a person's decision.
    """
    _warn_if_missing(directory)
    damaged: dict[int, str] = {}
    whole: list[int] = []
    for step in reversed(saved_steps(directory)):
        damage = find_damage(directory / str(step), contents=not whole)
        if damage:
            damaged[step] = damage
        else:
            whole.append(step)
    if damaged and not whole:
        list_of_damage = "\n".join(f"  step {step}: {what}" for step, what in damaged.items())
        raise OSError(
            f"every checkpoint in {directory} is damaged:\n{list_of_damage}\n"
            "Restore one from a copy, or move this directory away to start from step 0."
        )
    for step, what in damaged.items():
        refuge.mkdir(exist_ok=True)
        target = refuge / f"{step}-{len(os.listdir(refuge))}"
        (directory / str(step)).rename(target)
        logging.getLogger(__name__).warning(
            "checkpoint %d is damaged (%s): moved to %s; the newest whole one is %d",
            *(step, what, target, whole[0]),
        )
    if damaged:
        note_newest(directory)


def note_newest(directory: Path) -> None:
    """Writes down which checkpoint is the newest, so that its loss would be noticed."""
    steps = saved_steps(directory)
    if steps:
        partial = directory.parent / f"{_NEWEST}.partial"
        partial.write_text(f"{steps[-1]}\n", encoding="utf-8")
        partial.replace(directory.parent / _NEWEST)


def was_saved(workdir: Path) -> bool:
    """Whether a checkpoint was ever written there."""
    return bool(saved_steps(workdir / "checkpoints")) or (workdir / _NEWEST).exists()


def _warn_if_missing(directory: Path) -> None:
    """Warns where the newest checkpoint that was written is not there any more.

    Raises OSError if there is none at all.
    """
    try:
        noted = int((directory.parent / _NEWEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return
    steps = saved_steps(directory)
    if not steps:
        raise OSError(
            f"every checkpoint is missing from {directory}; the newest was {noted}.\n"
            f"Restore it from a copy, or remove {directory.parent / _NEWEST} to start from step 0."
        )
    if noted > steps[-1]:
        logging.getLogger(__name__).warning(
            "checkpoint %d is missing from %s: going on from checkpoint %d",
            *(noted, directory, steps[-1]),
        )


def write_failure(what: str, where: Path, error: Exception, remedy: str = "") -> OSError:
    """One clear sentence for the many ways in which writing fails, here and inside Orbax."""
    text = str(error)
    full = "RESOURCE_EXHAUSTED" in text or "No space left" in text
    reason = "the disk is full" if full else text.split("\n")[0] or type(error).__name__
    advice = "free some space" if full else "check that this directory can be written to"
    newest = f" ({remedy})" if remedy else ""
    return OSError(
        f"could not write {what} to {where}: {reason}{newest}.\n"
        f"Please {advice}, or choose another --workdir, and start the same command again."
    )


def _crc32(path: Path) -> int:
    crc = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            crc = zlib.crc32(chunk, crc)
    return crc
