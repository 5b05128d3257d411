"""Text input and output of the commands. Only "\\n" ends a line, so that line counts always agree.

Python's `splitlines` also splits at "\\r", "\\x0b", "\\u2028" and others; other tools do not.
"""

import codecs
import contextlib
import itertools
import os
import select
import stat
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from flaxformer_mt.storage.paths import as_path, is_remote

PAUSE = 0.05
"""Seconds without a new line after which the lines so far are answered."""


class Text(NamedTuple):
    """Lines, and whether the last one ended with a newline."""

    lines: list[str]
    final_newline: bool


def read_text(path: str) -> Text:
    """Returns the lines of a UTF-8 file (also packed), or of standard input if `path` is empty.

    Raises FileNotFoundError (the message lists similar files), or ValueError with the number of
    the first line that is not UTF-8.
    """
    if not path:
        batches = list(standard_input(itertools.repeat(1 << 16)))
        lines = [line for batch in batches for line in batch.lines]
        return Text(lines, not batches or batches[-1].final_newline)
    from flaxformer_mt.data.sources.text_files import read_lines

    packed = read_lines(as_path(path), may_be_empty=True)  # an empty file is valid input
    lines = [packed.sentence(index) for index in range(packed.num_sentences)]
    return Text(lines, packed.blob.endswith(b"\n"))


def read_parallel(first: str, second: str) -> tuple[list[str], list[str]]:
    """Returns the lines of two parallel files.

    Raises ValueError if the counts differ or are 0; else as `read_text`.
    """
    one, other = read_text(first).lines, read_text(second).lines
    if len(one) != len(other):
        raise ValueError(
            f"{first} has {len(one)} lines but {second} has {len(other)}: "
            "line i of the one must belong to line i of the other"
        )
    if not one:
        raise ValueError(f"{first} and {second} are empty")
    return one, other


@contextlib.contextmanager
def open_output(path: str) -> Iterator[BinaryIO]:
    """Opens a file that is written atomically, or standard output if `path` is empty.

    The file is written under another name and renamed at the end, so that an earlier file survives
    any failure. Raises OSError at once if it cannot be written.
    """
    if not path:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    final = Path(os.path.realpath(path))  # the target of a symbolic link, not the link
    if not is_regular(path):
        with open(final, "wb") as file:  # a pipe or /dev/null cannot be renamed
            yield file
        return
    if not final.parent.is_dir():
        raise FileNotFoundError(f"{path}: there is no directory {final.parent} to write to")
    partial = final.with_name(f"{final.name}.{os.getpid()}.partial")
    try:
        with open(partial, "wb") as file:
            yield file
        os.replace(partial, final)
    finally:
        partial.unlink(missing_ok=True)


def lock_file(file: BinaryIO, message: str) -> None:
    """Locks an open file until it is closed, if its file system has locks.

    Raises OSError with `message` if another process holds the lock.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise OSError(message) from None
    except OSError:
        pass


def is_regular(path: str) -> bool:
    """Returns whether a path is a file or does not exist; a pipe or device is neither."""
    return is_remote(path) or not os.path.exists(path) or stat.S_ISREG(os.stat(path).st_mode)


def standard_input(sizes: Iterable[int]) -> Iterator[Text]:
    """Yields the lines of standard input as they come, in batches of up to these sizes.

    A batch is complete when no further line comes for a moment. So someone who types a line, or a
    program that writes one, gets an answer before the next line, and a file gives full batches.
    Only the last batch can lack its final newline.

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
    """Returns whether nothing more is written to standard input for a moment."""
    if os.name == "nt":  # `select` takes sockets only: read on
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
