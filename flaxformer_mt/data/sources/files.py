"""Text files: compressed files, file name patterns, and errors for missing files."""

import contextlib
import glob
import gzip
import io
import lzma
import os
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flaxformer_mt.storage.paths import AnyPath, PathLike, join, local_file

PACKED = (".gz", ".xz", ".zst")
"""Suffixes of files that are decompressed while they are read."""


def matching_files(folder: PathLike, name: str) -> list[str]:
    """Returns the names of the files that a pattern such as "part-*.en" matches, in order.

    A name without *, ? and [ stays as it is. Raises FileNotFoundError if no file matches.
    """
    if not set(name) & set("*?["):
        return [name]
    path = join(folder, name)
    if isinstance(path, Path):
        pattern, root = os.path.expanduser(name), os.path.expanduser(str(folder))
        found = [name] if path.exists() else glob.glob(pattern, root_dir=root, recursive=True)
    else:
        scheme: Any = path.protocol
        found = [f"{scheme}://{file}" for file in path.fs.glob(path.path)]
    if not found:
        raise FileNotFoundError(f"no file matches {path}.")
    # Ignores the pattern's end, so that "a.dev.en" and "a.en" sort like "a.dev.de" and "a.de".
    end = re.split(r"[*?\]]", name)[-1]
    return sorted(found, key=lambda file: file.removesuffix(end))


def matching_pairs(folder: PathLike, source: str, target: str) -> list[tuple[str, str]]:
    """Returns pairs of text files that match the names of both sides.

    Raises FileNotFoundError as `matching_files`, ValueError if the numbers of files differ.
    """
    sources, targets = matching_files(folder, source), matching_files(folder, target)
    if len(sources) != len(targets):
        raise ValueError(
            f"{source} matches {len(sources)} files but {target} matches {len(targets)}: each "
            "source file needs one file of translations, and both lists are sorted by name."
        )
    return list(zip(sources, targets, strict=True))


def missing_file(path: AnyPath) -> FileNotFoundError:
    """Returns an error that lists the files in the folder of `path`."""
    folder = path.parent
    missing = "" if folder.is_dir() else f", and no folder {folder}"
    while not folder.is_dir():
        if folder == folder.parent:
            return FileNotFoundError(f"there is no file {path}, and no bucket {folder}.")
        folder = folder.parent
    names = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith("."))
    shown = ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
    return FileNotFoundError(
        f"there is no file {path}{missing}; {folder.resolve()} holds: {shown or 'nothing'}."
    )


def existing_file(path: AnyPath) -> Path:
    """Returns `local_file(path)`. If there is no file, raises the error of `missing_file`."""
    try:
        file = local_file(path)
        file.stat()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise missing_file(path) from error
    return file


@contextlib.contextmanager
def open_bytes(path: AnyPath) -> Iterator[io.BufferedIOBase]:
    """Opens a file, and decompresses `.gz`, `.xz` and `.zst`.

    Raises FileNotFoundError (with the files in its folder), or ValueError for a directory.
    Reading raises ValueError for a damaged archive.
    """
    with open_packed(path) as packed, unpacked(packed, path) as file:
        yield file


def open_packed(path: AnyPath) -> io.BufferedReader:
    """Opens a file without decompression. Raises as `open_bytes`."""
    try:
        return open(existing_file(path), "rb")
    except IsADirectoryError as error:
        raise ValueError(f"{path} is a directory; expected a file of sentences.") from error


@contextlib.contextmanager
def unpacked(file: io.BufferedIOBase, path: AnyPath) -> Iterator[io.BufferedIOBase]:
    """Decompresses an open file according to the suffix of `path`. Raises as `open_bytes`."""
    openers: Any = zip(PACKED, (gzip.open, lzma.open, _open_zstandard), strict=True)
    opener = dict(openers).get(path.suffix)
    try:
        with opener(file) if opener else contextlib.nullcontext(file) as content:
            yield content
    except (OSError, lzma.LZMAError, zlib.error, EOFError) as error:
        if not opener or getattr(error, "errno", None):  # not about the content
            raise
        raise ValueError(
            f"{path} has the suffix {path.suffix} but cannot be decompressed: {error}"
        ) from error


def _open_zstandard(file: io.BufferedIOBase) -> Any:
    import pyarrow  # takes a tenth of a second

    return pyarrow.input_stream(file, compression="zstd")
