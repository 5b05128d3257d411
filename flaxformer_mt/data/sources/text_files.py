"""Text files as compact tables of sentences: one blob of bytes, and where each of them lies."""

import codecs
import gzip
import json
import lzma
import zlib
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int64

_NEWLINE, _TAB = ord("\n"), ord("\t")
_UTF8_MARK = b"\xef\xbb\xbf"  # Windows editors put it at the start of a file
_CHECKED_AT_ONCE = 1 << 20  # bytes


class PackedText(NamedTuple):
    """Sentences as UTF-8 in one blob; sentence i lies from `starts[i]` to `ends[i]`.

    Half a million sentences as Python strings would take several times their size on disk.
    """

    blob: bytes
    starts: Int64[np.ndarray, "n"]
    ends: Int64[np.ndarray, "n"]

    @property
    def num_sentences(self) -> int:
        """How many sentences there are (`len` of this tuple is 3)."""
        return len(self.starts)

    def sentence(self, index: int) -> str:
        """Sentence `index`, without the carriage return that Windows puts before the line end."""
        return self.blob[self.starts[index] : self.ends[index]].removesuffix(b"\r").decode("utf-8")


def read_lines(path: Path, *, may_be_empty: bool = False) -> PackedText:
    """One sentence a line, split at "\\n" only; `.gz` and `.xz` are unpacked.

    Raises FileNotFoundError (with what lies there instead), or ValueError for an empty file
    (unless it `may_be_empty`), invalid UTF-8 (with its line) or a damaged archive.
    """
    blob = _read_bytes(path, may_be_empty=may_be_empty)
    if not blob:
        return PackedText(b"", np.zeros(0, np.int64), np.zeros(0, np.int64))
    _check_utf8(blob, path)
    newlines = np.flatnonzero(np.frombuffer(blob, np.uint8) == _NEWLINE)
    ends = newlines if blob.endswith(b"\n") else np.append(newlines, len(blob))
    starts = np.concatenate([[0], ends[:-1] + 1])
    return PackedText(blob, starts.astype(np.int64), ends.astype(np.int64))


def read_tsv(path: Path) -> tuple[PackedText, PackedText]:
    """The two sides of a file of lines `source<TAB>target`.

    Raises ValueError with the number of a line that has not exactly one tab; else as read_lines.
    """
    blob, starts, ends = read_lines(path)
    tabs = np.flatnonzero(np.frombuffer(blob, np.uint8) == _TAB)
    tabs_in_line = np.bincount(np.searchsorted(ends, tabs), minlength=len(ends))
    wrong = np.flatnonzero(tabs_in_line != 1)
    if len(wrong):
        raise ValueError(
            f"{path}, line {wrong[0] + 1}: a TSV line must be source<TAB>target, this one has "
            f"{tabs_in_line[wrong[0]] + 1} columns; `cut -f 1,2` keeps the first two of them."
        )
    return PackedText(blob, starts, tabs), PackedText(blob, tabs + 1, ends)


def read_jsonl(
    path: Path, source_language: str, target_language: str
) -> tuple[PackedText, PackedText]:
    """The two sides of a file with one JSON object a line.

    The sentences stand under the language codes, as in {"en": "...", "de": "..."}, or under
    "source" and "target"; either may lie one level down under "translation", as in Hugging Face's.
    Raises ValueError with the number of a line without both; else as read_lines.
    """
    lines = read_lines(path)
    source, target = _Packer(), _Packer()
    for index in range(lines.num_sentences):
        try:
            record = json.loads(lines.sentence(index))
            source_text, target_text = _sides(record, source_language, target_language)
            source.append(source_text)
            target.append(target_text)
        except ValueError as error:
            raise ValueError(f"{path}, line {index + 1}: {error}") from error
    return source.packed(), target.packed()


def one_line(text: str) -> str:
    """`text` with "\\n" and "\\r" as spaces: a sentence is a line, whatever format it came in."""
    return text.replace("\r\n", " ").replace("\n", " ").replace("\r", " ")


def missing_file(path: Path) -> FileNotFoundError:
    """An error that names what lies where `path` was looked for."""
    folder = path.parent
    while not folder.is_dir():
        folder = folder.parent
    names = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith("."))
    shown = ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
    return FileNotFoundError(
        f"there is no file {path}; {folder.resolve()} holds: {shown or 'nothing'}."
    )


def _read_bytes(path: Path, *, may_be_empty: bool = False) -> bytes:
    opener = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, open)
    try:
        with opener(path, "rb") as file:
            blob = file.read()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise missing_file(path) from error
    except IsADirectoryError as error:
        raise ValueError(f"{path} is a directory; expected a file of sentences.") from error
    except (gzip.BadGzipFile, lzma.LZMAError, zlib.error, EOFError) as error:
        raise ValueError(
            f"{path} cannot be unpacked as its suffix {path.suffix} says: {error}"
        ) from error
    blob = blob.removeprefix(_UTF8_MARK)
    if not blob and not may_be_empty:
        raise ValueError(f"{path} is empty; expected one sentence a line.")
    return blob


def _check_utf8(blob: bytes, path: Path) -> None:
    """Checks piece by piece, so that a large file never stands in memory as a string."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(blob), _CHECKED_AT_ONCE):
            decoder.decode(blob[start : start + _CHECKED_AT_ONCE])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        _raise_bad_line(blob, path)


def _raise_bad_line(blob: bytes, path: Path) -> None:
    for number, line in enumerate(blob.split(b"\n"), start=1):
        try:
            line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{path}, line {number}: not UTF-8 (byte {line[error.start]:#04x} at position "
                f"{error.start + 1}); convert the file first, as in `iconv -f latin1 -t utf-8`."
            ) from error


def _sides(record: Any, source_language: str, target_language: str) -> Sequence[str]:
    if isinstance(record, dict):
        record = record.get("translation", record)
    if isinstance(record, dict):
        for keys in ((source_language, target_language), ("source", "target")):
            sides = [record[key] for key in keys if isinstance(record.get(key), str)]
            if len(sides) == 2:
                return sides
    raise ValueError(
        f'expected an object with the sentences under "{source_language}" and "{target_language}" '
        f'(or "source" and "target"), got {json.dumps(record, ensure_ascii=False)[:80]}'
    )


class _Packer:
    """Collects sentences one by one."""

    def __init__(self) -> None:
        self._blob = bytearray()
        self._borders = array("q", [0])

    def append(self, text: str) -> None:
        self._blob += one_line(text).encode("utf-8")
        self._borders.append(len(self._blob))

    def packed(self) -> PackedText:
        borders = np.array(self._borders, np.int64)
        return PackedText(bytes(self._blob), borders[:-1], borders[1:])
