"""Input text of commands, read in parts, so that files of any size need little memory.

Only "\\n" ends a line, so that line counts agree with other tools. Python's `splitlines` would also
split at "\\r", "\\x0b", "\\u2028" and others.
"""

import codecs
import hashlib
import itertools
import os
import select
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from flaxformer_mt.storage.paths import AnyPath, as_path, is_remote

PAUSE = 0.05
"""Seconds to wait for a further line before the current batch is returned."""


class Text(NamedTuple):
    """Lines, and whether the last one ended with a newline."""

    lines: list[str]
    final_newline: bool


class TextFile:
    """The lines of a UTF-8 file (also .gz, .xz, .zst), checked once and then read in parts.

    A pipe or standard input (an empty path) can be read only once, so it is kept in memory.
    """

    def __init__(self, path: str) -> None:
        """Reads the file once, to check and count its lines.

        Raises FileNotFoundError (the message lists the files in its folder), or ValueError with the
        number of the first line that is not UTF-8.
        """
        self.path = path
        self._kept: Sequence[str] | None = None
        if path and is_regular(path):
            self.num_lines, self.final_newline, self.digest = _scan(as_path(path))
            return
        self._kept, self.final_newline = _read_pipe(path)
        self.num_lines = len(self._kept)
        content = "\n".join(self._kept).encode()
        self.digest = hashlib.blake2b(content, digest_size=16).hexdigest()

    def lines(self, first: int = 0) -> Iterator[str]:
        """Yields the lines from index `first` on, without their line ends."""
        if self._kept is not None:
            yield from itertools.islice(self._kept, first, None)
            return
        for line in itertools.islice(_lines_of(as_path(self.path)), first, None):
            yield line.removesuffix(b"\n").removesuffix(b"\r").decode()


def open_parallel(first: str, *others: str) -> list[TextFile]:
    """Returns files with equal numbers of lines.

    Raises ValueError if the numbers differ, and the errors of `TextFile`.
    """
    files = [TextFile(path) for path in (first, *others)]
    check_parallel(*files)
    return files


def check_parallel(first: TextFile, *others: TextFile) -> None:
    """Raises ValueError if the files have different numbers of lines."""
    for other in others:
        if other.num_lines != first.num_lines:
            raise ValueError(
                f"{first.path or 'the input'} has {count_lines(first.num_lines)} but {other.path} "
                f"has {other.num_lines}: line i of one file must belong to line i of the other"
            )


def count_lines(number: int) -> str:
    """Returns the number with its noun: "1 line", "2,000 lines"."""
    return "1 line" if number == 1 else f"{number:,} lines"


def shard_of(text: str, num_lines: int) -> range:
    """Returns the line numbers of a shard such as "2/4"; all lines if `text` is empty.

    The shards 1/N to N/N are consecutive parts of nearly equal size.
    Raises ValueError unless 1 <= number <= N.
    """
    number, slash, count = (text or "1/1").partition("/")
    if not (slash and number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise ValueError(
            f"--shard must be a number from 1 to N and the number N of shards, such as 2/4, got "
            f"{text!r}"
        )
    ends = [num_lines * part // int(count) for part in (int(number) - 1, int(number))]
    return range(*ends)


def _read_pipe(path: str) -> Text:
    """Returns the lines of a pipe, or of standard input if `path` is empty."""
    if not path:
        batches = list(standard_input(itertools.repeat(1 << 16)))
        lines = [line for batch in batches for line in batch.lines]
        return Text(lines, not batches or batches[-1].final_newline)
    from flaxformer_mt.data.sources.text_files import lines_of, read_text

    text = read_text(as_path(path), may_be_empty=True)  # an empty file is valid input
    return Text(lines_of(text), text.endswith("\n"))


def _scan(path: AnyPath) -> tuple[int, bool, str]:
    """Returns the number of lines, whether the last one has a newline, and a hash of the text."""
    from flaxformer_mt.data.sources.files import open_bytes
    from flaxformer_mt.data.sources.text_files import check_not_utf16, not_utf8

    with open_bytes(path) as file:
        check_not_utf16(file.read(1000), str(path))
    digest = hashlib.blake2b(digest_size=16)
    number, line = 0, b""
    for number, line in enumerate(_lines_of(path), start=1):
        digest.update(line)
        try:
            line.decode()
        except UnicodeDecodeError as error:
            raise not_utf8(f"{path}, line {number}", error) from error
    return number, line.endswith(b"\n"), digest.hexdigest()


def _lines_of(path: AnyPath) -> Iterator[bytes]:
    """Yields the lines of a file with their line ends, without the byte order mark."""
    from flaxformer_mt.data.sources.files import open_bytes

    with open_bytes(path) as file:
        if first := file.readline().removeprefix(codecs.BOM_UTF8):
            yield first
        yield from file


def is_regular(path: str) -> bool:
    """Returns whether a path is a regular file, an address, or does not exist."""
    return is_remote(path) or not os.path.exists(path) or stat.S_ISREG(os.stat(path).st_mode)


def standard_input(sizes: Iterable[int]) -> Iterator[Text]:
    """Yields the lines of standard input as they arrive, in batches of up to these sizes.

    A batch also ends when no further line arrives within `PAUSE` seconds. So a user or program that
    writes one line gets an answer before the next line, and a file gives full batches. Only the
    last batch can lack its final newline.

    Raises ValueError with the number of the first line that is not UTF-8.
    """
    if sys.stdin.isatty():
        print("reading from the terminal; Ctrl-D ends the text", file=sys.stderr)
    lines: list[bytes] = []
    rest, num_read, at_end = b"", 0, False
    for size in sizes:
        while len(lines) < size and not at_end and not (lines and _is_paused()):
            chunk = os.read(sys.stdin.fileno(), 1 << 16)
            *complete, rest = (rest + chunk).split(b"\n")
            lines += complete
            at_end = not chunk
        is_last = at_end and len(lines) + bool(rest) <= size
        if is_last and rest:
            lines.append(rest)
        batch, lines = lines[:size], lines[size:]
        if num_read == 0 and batch:
            batch[0] = batch[0].removeprefix(codecs.BOM_UTF8)
        decoded = [_decode(line, number) for number, line in enumerate(batch, num_read + 1)]
        num_read += len(batch)
        if decoded:
            yield Text(decoded, not (is_last and rest))
        if is_last:
            return


def _is_paused() -> bool:
    """Returns whether no input arrives on standard input within `PAUSE` seconds."""
    if os.name == "nt":  # `select` supports only sockets
        return False
    return not select.select([sys.stdin.fileno()], [], [], PAUSE)[0]


def _decode(line: bytes, number: int) -> str:
    from flaxformer_mt.data.sources.text_files import check_not_utf16, not_utf8

    if number == 1:
        check_not_utf16(line, "standard input")
    try:
        return line.removesuffix(b"\r").decode("utf-8")
    except UnicodeDecodeError as error:
        raise not_utf8(f"standard input, line {number}", error) from error
