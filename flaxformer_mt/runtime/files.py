"""Text in and out of the commands: lines end with "\\n" only, so that counts always agree.

Python's own ideas of a line (also "\\r", "\\x0b", "\\u2028" ...) would split lines that other tools
keep whole.
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
    """Lines, and whether the last one ended with a newline (then the output's does as well)."""

    lines: list[str]
    final_newline: bool


def read_text(path: str) -> Text:
    """The lines of a UTF-8 file (.gz and .xz too), or of standard input if `path` is empty.

    Raises FileNotFoundError (with what is there instead), or ValueError with the number of the
    first line that is not UTF-8.
    """
    if not path:
        return _read_standard_input()
    from flaxformer_mt.data.sources.text_files import read_lines

    packed = read_lines(Path(path), may_be_empty=True)  # nothing to translate is no error
    lines = [packed.sentence(index) for index in range(packed.num_sentences)]
    return Text(lines, packed.blob.endswith(b"\n"))


def read_parallel(first: str, second: str) -> tuple[list[str], list[str]]:
    """The lines of two files that belong together line by line.

    Raises ValueError with both counts if they differ, or if there are no lines; else as read_text.
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
    """Standard output if `path` is empty; else a file that appears whole, or not at all.

    It is written beside its place and moved there at the end, so that an earlier file of that name
    survives any failure. Raises OSError at once if it cannot be written.
    """
    if not path:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    final = Path(os.path.realpath(path))  # through a symbolic link, not in its place
    if final.exists() and not stat.S_ISREG(final.stat().st_mode):
        with open(final, "wb") as file:  # a pipe or /dev/null: nothing to move
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
