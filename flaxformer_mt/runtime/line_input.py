"""Text files that commands read in parts, so that files of any size need little memory."""

import codecs
import hashlib
import itertools
from collections.abc import Iterator, Sequence

from flaxformer_mt.runtime.files import is_regular, read_text
from flaxformer_mt.storage.paths import AnyPath, as_path

_BLOCK = 1 << 20  # bytes


class TextFile:
    """The lines of a UTF-8 file (also .gz, .xz, .zst), checked at once and read in parts.

    A pipe, which can be read once, is kept in memory.
    """

    def __init__(self, path: str) -> None:
        """Reads the file once, to check and count its lines.

        Raises FileNotFoundError (the message lists similar files), or ValueError with the number of
        the first line that is not UTF-8.
        """
        self.path = path
        self._kept: Sequence[str] | None = None
        if path and is_regular(path):
            self.num_lines, self.final_newline, self.digest = _scan(as_path(path))
        else:
            self._kept, self.final_newline = read_text(path)
            self.num_lines = len(self._kept)
            self.digest = hashlib.blake2b(
                "\n".join(self._kept).encode(), digest_size=16
            ).hexdigest()

    def lines(self, first: int = 0) -> Iterator[str]:
        """Yields the lines from number `first` (from 0) on, without their line ends."""
        if self._kept is not None:
            yield from itertools.islice(self._kept, first, None)
            return
        from flaxformer_mt.data.sources.files import open_bytes

        with open_bytes(as_path(self.path)) as file:
            for number, line in enumerate(file):
                if number >= first:
                    bare = line.removesuffix(b"\n").removesuffix(b"\r")
                    yield (bare if number else bare.removeprefix(codecs.BOM_UTF8)).decode()


def open_parallel(first: str, *others: str) -> list[TextFile]:
    """Returns files with equal numbers of lines.

    Raises ValueError if the numbers differ; else as `TextFile`.
    """
    files = [TextFile(path) for path in (first, *others)]
    for other in files[1:]:
        if other.num_lines != files[0].num_lines:
            raise ValueError(
                f"{first} has {files[0].num_lines} lines but {other.path} has {other.num_lines}: "
                "line i of the one must belong to line i of the other"
            )
    return files


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


def _scan(path: AnyPath) -> tuple[int, bool, str]:
    """Returns the number of lines, whether the last one has a newline, and a hash of all."""
    from flaxformer_mt.data.sources.files import open_bytes
    from flaxformer_mt.data.sources.text_files import check_not_utf16, not_utf8

    digest, decoder = hashlib.blake2b(digest_size=16), codecs.getincrementaldecoder("utf-8")()
    newlines, last = 0, b""
    try:
        with open_bytes(path) as file:
            start = file.read(len(codecs.BOM_UTF8))
            block = start.removeprefix(codecs.BOM_UTF8) + file.read(_BLOCK)
            check_not_utf16((start + block)[:1000], str(path))
            while block:
                digest.update(block)
                decoder.decode(block)
                newlines += block.count(b"\n")
                last = block[-1:]
                block = file.read(_BLOCK)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        with open_bytes(path) as file:
            for number, line in enumerate(file, start=1):
                try:
                    line.removesuffix(b"\n").decode("utf-8")
                except UnicodeDecodeError as error:
                    raise not_utf8(f"{path}, line {number}", error) from error
        raise
    return newlines + (last not in (b"", b"\n")), last == b"\n", digest.hexdigest()
