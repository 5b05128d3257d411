"""Reads text files as records: sentence pairs, and bad records with the reason."""

import codecs
import functools
import io
import itertools
import json
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from flaxformer_mt.data.sources.files import open_bytes, open_packed, unpacked
from flaxformer_mt.data.sources.pair import Pair
from flaxformer_mt.data.sources.quarantine import BadRecord, Record
from flaxformer_mt.storage.paths import AnyPath

BlockOfRecords = tuple[int, float, Callable[[], Sequence[Record]]]
"""Number of records, fraction of the source up to the end of the block, function that reads it."""
_OTHER_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",  # first, because it starts with the mark of UTF-16
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def read_text(path: AnyPath, *, may_be_empty: bool = False) -> str:
    """Returns the text of a file; decompresses `.gz`, `.xz` and `.zst`.

    Raises FileNotFoundError (with the files in its folder), or ValueError for an empty file (unless
    `may_be_empty`), UTF-16, invalid UTF-8 (with its line) or a damaged archive.
    """
    with open_bytes(path) as file:
        blob = file.read().removeprefix(codecs.BOM_UTF8)
    if not blob and not may_be_empty:
        raise _empty_file(path)
    check_not_utf16(blob[:1000], str(path))
    try:
        return blob.decode()
    except UnicodeDecodeError as error:
        number = blob.count(b"\n", 0, error.start) + 1
        raise not_utf8(f"{path}, line {number}", error) from error


def lines_of(text: str) -> list[str]:
    """Returns the lines of a text, split at "\\n" only, without the "\\r" of Windows line ends."""
    lines = text.removesuffix("\n").split("\n") if text else []
    return [line.removesuffix("\r") for line in lines] if "\r" in text else lines


def line_blocks(path: AnyPath, size: int) -> Iterator[tuple[float, list[bytes]]]:
    """Yields (fraction of the file up to the end of the block, block of up to `size` lines).

    The lines have their line ends. Raises as `read_text`, except for invalid UTF-8.
    """
    with open_packed(path) as packed, unpacked(packed, path) as file:
        num_bytes = max(os.fstat(packed.fileno()).st_size, 1)
        # Iteration over Python's gzip and lzma files is slow.
        lines = iter(io.BufferedReader(file, 1 << 20))
        block = list(itertools.islice(lines, size))
        if block:
            block[0] = block[0].removeprefix(codecs.BOM_UTF8)
            check_not_utf16(b"".join(block)[:1000], str(path))
        if not b"".join(block):
            raise _empty_file(path)
        while block:
            yield packed.tell() / num_bytes, block
            block = list(itertools.islice(lines, size))


def parallel_blocks(files: tuple[AnyPath, AnyPath], size: int) -> Iterator[BlockOfRecords]:
    """Yields blocks of two files. Raises ValueError if they have different numbers of lines."""
    counts = [0, 0]
    sides = [line_blocks(file, size) for file in files]
    for (share, source), (_, target) in itertools.zip_longest(*sides, fillvalue=(1.0, ())):
        counts = [counts[0] + len(source), counts[1] + len(target)]
        if len(source) == len(target):
            blobs = b"".join(source), b"".join(target)
            yield len(source), share, functools.partial(_parallel_records, blobs, files)
    if counts[0] != counts[1]:
        raise ValueError(
            f"{files[0]} has {counts[0]:,} lines but {files[1]} has {counts[1]:,}: line i of one "
            "file must be the translation of line i of the other."
        )


def _parallel_records(blobs: tuple[bytes, bytes], files: tuple[AnyPath, AnyPath]) -> list[Record]:
    return [_pair(sides, files) for sides in zip(*map(_lines, blobs), strict=True)]


def parsed_blocks(
    parse: Callable[..., Record], path: AnyPath, languages: tuple[str, str], size: int
) -> Iterator[BlockOfRecords]:
    """Yields blocks of a file with a record in each line: `parse(line, path, *languages)`."""
    for share, lines in line_blocks(path, size):
        read = functools.partial(_parsed_records, parse, b"".join(lines), path, languages)
        yield len(lines), share, read


def _parsed_records(
    parse: Callable[..., Record], blob: bytes, path: AnyPath, languages: tuple[str, str]
) -> list[Record]:
    return [parse(line, path, *languages) for line in _lines(blob)]


def parse_tsv(line: bytes, path: AnyPath, *languages: str) -> Record:
    """Returns the pair in a line `source<TAB>target`."""
    del languages
    columns = line.split(b"\t")
    if len(columns) == 2:
        return _pair(columns, (path, path))
    found = f"this one has {len(columns)} columns; `cut -f 1,2` keeps the first two of them"
    if len(columns) == 1:
        found = "this one has no tab" if line.strip() else "this one is blank; delete it"
    return _bad_line(line, path, "wrong columns", f"a TSV line must be source<TAB>target, {found}.")


def parse_jsonl(line: bytes, path: AnyPath, source_language: str, target_language: str) -> Record:
    """Returns the pair in a line with a JSON object.

    The keys are the language codes, as in {"en": "...", "de": "..."}, or "source" and "target".
    Both may be in an object "translation", as in Hugging Face's data sets.
    """
    try:
        if not line.strip():
            raise ValueError("expected one JSON object a line, but this line is blank; delete it.")
        pair = row_pair(json.loads(line.decode()), source_language, target_language)
        "".join(pair).encode()  # fails for half a surrogate pair
        return pair
    except UnicodeDecodeError as error:
        return _bad_line(line, path, "not UTF-8", _where(error))
    except (ValueError, RecursionError) as error:
        return _bad_line(line, path, "bad JSON", str(error))


def row_pair(row: Any, source_language: str, target_language: str) -> Pair:
    """Returns the sentences of a row with keys as in `parse_jsonl`.

    Raises ValueError unless it has both.
    """
    if isinstance(row, dict) and isinstance(row.get("translation"), dict):
        row = row["translation"]
    if isinstance(row, dict):
        for keys in ((source_language, target_language), ("source", "target")):
            sides = [one_line(row[key]) for key in keys if isinstance(row.get(key), str)]
            if len(sides) == 2:
                return Pair(*sides)
    found = json.dumps(row, ensure_ascii=False, default=str)[:80]
    found = found.encode(errors="backslashreplace").decode()  # half a surrogate
    raise ValueError(
        f'expected an object with the sentences under "{source_language}" and "{target_language}" '
        f'(or "source" and "target"), got {found}'
    )


def one_line(text: str) -> str:
    """Returns `text` with spaces instead of line breaks."""
    return text.replace("\r\n", " ").replace("\n", " ").replace("\r", " ")


def _lines(blob: bytes) -> list[bytes]:
    return blob.removesuffix(b"\n").split(b"\n")


def _pair(sides: Sequence[bytes], files: tuple[AnyPath, AnyPath]) -> Record:
    texts = []
    for side, file in zip(sides, files, strict=True):
        try:
            texts.append(side.removesuffix(b"\r").decode())
        except UnicodeDecodeError as error:
            return _bad_line(side, file, "not UTF-8", _where(error))
    return Pair(*texts)


def _bad_line(line: bytes, path: AnyPath, kind: str, reason: str) -> BadRecord:
    shown = line.decode("utf-8", errors="replace").removesuffix("\r")
    return BadRecord(kind, str(path), 0, reason, shown)


def _empty_file(path: AnyPath) -> ValueError:
    return ValueError(f"{path} is empty; expected one sentence a line.")


def not_utf8(where: str, error: UnicodeDecodeError) -> ValueError:
    """Returns an error for a line that is not UTF-8. `where` names the file and the line."""
    return ValueError(f"{where}: {_where(error)}")


def _where(error: UnicodeDecodeError) -> str:
    in_line = error.start - error.object.rfind(b"\n", 0, error.start)  # from 1
    return (
        f"not UTF-8 (byte {error.object[error.start]:#04x} at position {in_line}); convert "
        "it first, as in `iconv -f latin1 -t utf-8` for Western European text."
    )


def check_not_utf16(start: bytes, where: str) -> None:
    """Raises ValueError if the first bytes of a text look like UTF-16 or UTF-32.

    They do if they have a byte order mark, or if more than a quarter of them are zero.
    """
    found = next((name for mark, name in _OTHER_MARKS.items() if start.startswith(mark)), "")
    if not found and start[:1000].count(0) > len(start[:1000]) // 4:
        found = "utf-16be" if start[:1] == b"\0" else "utf-16le"
    if found:
        raise ValueError(
            f"{where} is {found.upper()}, not UTF-8; convert it first: `iconv -f {found} -t utf-8`."
        )
