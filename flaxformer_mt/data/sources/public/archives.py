"""Extracts members of tar and zip archives in one pass."""

import fnmatch
import gzip
import lzma
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from flaxformer_mt.storage.paths import naming

_DAMAGED = (
    tarfile.TarError,
    zipfile.BadZipFile,
    gzip.BadGzipFile,
    lzma.LZMAError,
    zlib.error,
    EOFError,
)


def extract(archive: Path, members: Mapping[str, Path]) -> None:
    """Copies members of an archive to files.

    Args:
      archive: a tar (also .gz, .bz2, .xz) or zip file.
      members: {pattern: output file}; each pattern, such as "*.de", must match one member.

    Raises ValueError for a damaged archive, or if a pattern does not match exactly one member.
    """
    found: dict[str, str] = {}
    names = []
    try:
        for name, file in _members(archive):
            names.append(name)
            for pattern, path in members.items():
                if not fnmatch.fnmatch(name.removeprefix("./"), pattern):
                    continue
                if pattern in found:
                    raise ValueError(
                        f"{archive} has several members {pattern!r}: {found[pattern]}, {name}."
                    )
                found[pattern] = name
                with naming(path), open(path, "wb") as out:
                    shutil.copyfileobj(file, out, 1 << 20)
            if len(found) == len(members) and not set("".join(members)) & set("*?["):
                return
    except _DAMAGED as error:
        raise ValueError(
            f"{archive} is damaged, or no tar or zip file: {error}. If it was downloaded, delete "
            "it, and the next start downloads it again."
        ) from error
    except RuntimeError as error:  # a password, or a compression that Python does not know
        raise ValueError(
            f"{archive} cannot be unpacked: {error}. Unpack it with another program."
        ) from error
    for pattern in members:
        if pattern not in found:
            shown = ", ".join(names[:20]) + (" ..." if len(names) > 20 else "")
            raise ValueError(
                f"{archive} has no member {pattern!r}; it holds: {shown or 'nothing'}."
            )


def _members(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """Yields the names and contents of the files in an archive."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zipped:
            for info in zipped.infolist():
                if not info.is_dir():
                    with zipped.open(info) as file:
                        yield info.filename, file
        return
    with (
        open(archive, "rb") as file,
        _progress(archive, file) as reading,
        tarfile.open(fileobj=reading, mode="r|*") as packed,
    ):
        for member in packed:
            if member.isfile() and (file := packed.extractfile(member)):
                yield member.name, file


def _progress(archive: Path, file: IO[bytes]) -> Any:
    """Returns the file. On a terminal, reading it updates a progress bar."""
    from tqdm import tqdm  # not needed for translation

    return tqdm.wrapattr(
        file,
        "read",
        total=archive.stat().st_size,
        desc=f"Extracting {archive.name}",
        disable=None,  # shown on a terminal
    )
