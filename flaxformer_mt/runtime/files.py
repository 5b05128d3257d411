"""Text input and output of the commands. Only "\\n" ends a line, so that line counts always agree.

Python's `splitlines` also splits at "\\r", "\\x0b", "\\u2028" and others; other tools do not.
"""

import codecs
import contextlib
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple


class Text(NamedTuple):
    """Lines, and whether the last one ended with a newline."""

    lines: list[str]
    final_newline: bool


def read_text(path: str) -> Text:
    """Returns the lines of a UTF-8 file (also .gz, .xz), or of standard input if `path` is empty.

    Raises FileNotFoundError (the message lists similar files), or ValueError with the number of
    the first line that is not UTF-8.
    """
    if not path:
        return _read_standard_input()
    from flaxformer_mt.data.sources.text_files import read_lines

    packed = read_lines(Path(path), may_be_empty=True)  # an empty file is valid input
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
    if final.exists() and not stat.S_ISREG(final.stat().st_mode):
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


def _read_standard_input() -> Text:
    if sys.stdin.isatty():
        print("reading from the terminal; Ctrl-D ends the text", file=sys.stderr)
    lines = sys.stdin.buffer.read().removeprefix(codecs.BOM_UTF8).split(b"\n")
    final_newline = lines[-1] == b""
    if final_newline:
        lines.pop()
    return Text([_decode(line, number) for number, line in enumerate(lines, 1)], final_newline)


def _decode(line: bytes, number: int) -> str:
    try:
        return line.removesuffix(b"\r").decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"standard input, line {number}: not UTF-8 (byte {line[error.start]:#04x} at position "
            f"{error.start + 1}); convert it first, as in `iconv -f latin1 -t utf-8`"
        ) from error
