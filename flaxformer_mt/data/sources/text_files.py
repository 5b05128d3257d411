"""Reads text files as sentences: all bytes of a file in memory, and the range of each sentence.

A list of Python strings would need several times as much memory.
"""

import codecs
import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int64

from flaxformer_mt.data.sources.files import open_bytes
from flaxformer_mt.data.sources.pair import Pair
from flaxformer_mt.data.sources.quarantine import BadRecord, BadRecordError
from flaxformer_mt.storage.paths import AnyPath

_NEWLINE, _TAB = ord("\n"), ord("\t")
_OTHER_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",  # before UTF-16, whose mark it starts with
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


class PackedText(NamedTuple):
    """UTF-8 sentences in one block of bytes; sentence i is blob[starts[i] : ends[i]]."""

    blob: bytes
    starts: Int64[np.ndarray, "n"]
    ends: Int64[np.ndarray, "n"]

    @property
    def num_sentences(self) -> int:
        """The number of sentences (`len` of this tuple is 3)."""
        return len(self.starts)

    def sentence(self, index: int) -> str:
        """Returns sentence `index`, without the carriage return of Windows line ends."""
        return self.line(index).removesuffix(b"\r").decode("utf-8")

    def sentences(self) -> list[str]:
        """Returns all sentences, faster than one by one."""
        blob, borders = self.blob, zip(self.starts.tolist(), self.ends.tolist(), strict=True)
        if b"\r" in blob:
            return [blob[start:end].removesuffix(b"\r").decode() for start, end in borders]
        return [blob[start:end].decode() for start, end in borders]

    def line(self, index: int) -> bytes:
        """Returns the bytes of sentence `index`."""
        return self.blob[self.starts[index] : self.ends[index]]


@dataclasses.dataclass(frozen=True, eq=False)
class TextPairs:
    """Sentence pairs in memory. A `PairSource` that raises BadRecordError for a bad record."""

    source: PackedText
    target: PackedText
    files: tuple[AnyPath, AnyPath]
    """The file of each side."""
    bad: Mapping[int, BadRecord] = dataclasses.field(default_factory=dict)
    """Records without two sides, by index."""

    def __len__(self) -> int:
        return self.source.num_sentences

    def __getitem__(self, index: int) -> Pair:
        if index in self.bad:
            raise BadRecordError(self.bad[index])
        return Pair(
            _sentence(self.source, index, self.files[0]),
            _sentence(self.target, index, self.files[1]),
        )

    def read_all(self) -> list[Pair] | None:
        """Returns all pairs, faster than one by one; None if any record is bad."""
        if self.bad:
            return None
        try:
            return list(map(Pair, self.source.sentences(), self.target.sentences()))
        except UnicodeDecodeError:
            return None


def _sentence(text: PackedText, index: int, file: AnyPath) -> str:
    """Returns a sentence. Raises BadRecordError if it is not UTF-8."""
    try:
        return text.sentence(index)
    except UnicodeDecodeError as error:
        raise BadRecordError(_bad_line(text, index, file, "not UTF-8", _where(error))) from error


def _bad_line(text: PackedText, index: int, file: AnyPath, kind: str, reason: str) -> BadRecord:
    shown = text.line(index).decode("utf-8", errors="replace").removesuffix("\r")
    return BadRecord(kind, str(file), index + 1, reason, shown)


def check_equal_counts(files: tuple[AnyPath, AnyPath], counts: Sequence[int]) -> None:
    """Raises ValueError if two parallel files have different numbers of lines."""
    if counts[0] != counts[1]:
        raise ValueError(
            f"{files[0]} has {counts[0]:,} lines but {files[1]} has {counts[1]:,}: line i of the "
            "one must be the translation of line i of the other."
        )


def read_lines(path: AnyPath, *, may_be_empty: bool = False, check: bool = True) -> PackedText:
    """Reads one sentence a line, split at "\\n" only; decompresses `.gz`, `.xz` and `.zst`.

    `check` finds invalid UTF-8 now. Without it, `PackedText.sentence` raises UnicodeDecodeError.
    Raises FileNotFoundError (with the files in its folder), or ValueError for an empty file (unless
    `may_be_empty`), UTF-16, invalid UTF-8 (with its line) or a damaged archive.
    """
    with open_bytes(path) as file:
        blob = file.read().removeprefix(codecs.BOM_UTF8)
    if not blob and not may_be_empty:
        raise empty_file(path)
    check_not_utf16(blob[:1000], str(path))
    if check:
        _check_utf8(blob, path)
    return pack_lines(blob)


def pack_lines(blob: bytes) -> PackedText:
    """Returns the lines of a text, split at "\\n" only."""
    if not blob:
        return PackedText(b"", np.zeros(0, np.int64), np.zeros(0, np.int64))
    newlines = np.flatnonzero(np.frombuffer(blob, np.uint8) == _NEWLINE)
    ends = newlines if blob.endswith(b"\n") else np.append(newlines, len(blob))
    starts = np.concatenate([[0], ends[:-1] + 1])
    return PackedText(blob, starts.astype(np.int64), ends.astype(np.int64))


def read_tsv(path: AnyPath) -> TextPairs:
    """Reads a file of lines `source<TAB>target`. A line without exactly one tab is a bad record.

    Raises ValueError as `read_lines` with `check=False`.
    """
    return tsv_pairs(read_lines(path, check=False), path)


def tsv_pairs(lines: PackedText, path: AnyPath) -> TextPairs:
    """Returns the pairs in some lines of a TSV file."""
    blob, starts, ends = lines
    tabs = np.flatnonzero(np.frombuffer(blob, np.uint8) == _TAB)
    line_of_tab = np.searchsorted(ends, tabs)
    tabs_in_line = np.bincount(line_of_tab, minlength=len(ends))
    borders = ends.copy()
    borders[line_of_tab] = tabs
    bad = {
        index: _bad_line(lines, index, path, "wrong columns", _wrong_columns(lines.line(index)))
        for index in np.flatnonzero(tabs_in_line != 1).tolist()
    }
    sides = PackedText(blob, starts, borders), PackedText(blob, np.minimum(borders + 1, ends), ends)
    return TextPairs(*sides, (path, path), bad)


def _wrong_columns(line: bytes) -> str:
    """Returns what is wrong with a TSV line that does not have exactly one tab."""
    columns = line.count(b"\t") + 1
    found = f"this one has {columns} columns; `cut -f 1,2` keeps the first two of them"
    if columns == 1:
        found = "this one has no tab" if line.strip() else "this one is blank; delete it"
    return f"a TSV line must be source<TAB>target, {found}."


def jsonl_pairs(
    lines: PackedText, path: AnyPath, source_language: str, target_language: str
) -> TextPairs:
    """Returns the pairs in some lines of a JSONL file, one JSON object a line.

    The keys are the language codes, as in {"en": "...", "de": "..."}, or "source" and "target".
    Both may be in an object "translation", as in Hugging Face's data sets.
    A line without both is a bad record.
    """
    blobs = bytearray(), bytearray()
    bad: dict[int, BadRecord] = {}
    for index in range(lines.num_sentences):
        texts: Sequence[str] = ("", "")
        try:
            line = _sentence(lines, index, path)
            if not line.strip():
                raise ValueError("expected one JSON object a line, but it is blank; delete it.")
            texts = _sides(json.loads(line), source_language, target_language)
            for text in texts:
                text.encode()  # fails for half a surrogate pair
        except BadRecordError as error:
            bad[index], texts = error.record, ("", "")
        except (ValueError, RecursionError) as error:
            bad[index], texts = _bad_line(lines, index, path, "bad JSON", str(error)), ("", "")
        for blob, text in zip(blobs, texts, strict=True):
            blob += one_line(text).encode() + b"\n"
    sources, targets = (pack_lines(bytes(blob)) for blob in blobs)
    return TextPairs(sources, targets, (path, path), bad)


def record_pair(record: Any, source_language: str, target_language: str) -> Pair:
    """Returns the sentences of a record with keys as in `jsonl_pairs`.

    Raises ValueError unless it has both.
    """
    return Pair(*map(one_line, _sides(record, source_language, target_language)))


def one_line(text: str) -> str:
    """Returns `text` with spaces instead of line breaks."""
    return text.replace("\r\n", " ").replace("\n", " ").replace("\r", " ")


def empty_file(path: AnyPath) -> ValueError:
    """Returns an error for a file without text."""
    return ValueError(f"{path} is empty; expected one sentence a line.")


def _check_utf8(blob: bytes, path: AnyPath) -> None:
    """Raises ValueError, with the number of the line, for invalid UTF-8."""
    for number, line in enumerate(blob.split(b"\n"), start=1):
        try:
            line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise not_utf8(f"{path}, line {number}", error) from error


def not_utf8(where: str, error: UnicodeDecodeError) -> ValueError:
    """Returns an error for a line that is not UTF-8. `where` names the file and the line."""
    return ValueError(f"{where}: {_where(error)}")


def _where(error: UnicodeDecodeError) -> str:
    return (
        f"not UTF-8 (byte {error.object[error.start]:#04x} at position {error.start + 1}); convert "
        "it first, as in `iconv -f latin1 -t utf-8` for Western European text."
    )


def check_not_utf16(start: bytes, where: str) -> None:
    """Raises ValueError if the first bytes of a text look like UTF-16 or UTF-32.

    That is a byte order mark, or (as in UTF-16 without one) more than a quarter of zero bytes.
    """
    found = next((name for mark, name in _OTHER_MARKS.items() if start.startswith(mark)), "")
    if not found and start[:1000].count(0) > len(start[:1000]) // 4:
        found = "utf-16be" if start[:1] == b"\0" else "utf-16le"
    if found:
        raise ValueError(
            f"{where} is {found.upper()}, not UTF-8; convert it first: `iconv -f {found} -t utf-8`."
        )


def _sides(record: Any, source_language: str, target_language: str) -> Sequence[str]:
    if isinstance(record, dict) and isinstance(record.get("translation"), dict):
        record = record["translation"]
    if isinstance(record, dict):
        for keys in ((source_language, target_language), ("source", "target")):
            sides = [record[key] for key in keys if isinstance(record.get(key), str)]
            if len(sides) == 2:
                return sides
    found = json.dumps(record, ensure_ascii=False, default=str)[:80]
    found = found.encode(errors="backslashreplace").decode()  # half a surrogate
    raise ValueError(
        f'expected an object with the sentences under "{source_language}" and "{target_language}" '
        f'(or "source" and "target"), got {found}'
    )
