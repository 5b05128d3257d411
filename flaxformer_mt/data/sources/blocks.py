"""Streams the records of a corpus in blocks, so that memory does not grow with the corpus."""

import dataclasses
import functools
import io
import itertools
import os
import sys
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator
from pathlib import Path

from flaxformer_mt.data.sources.files import (
    PACKED,
    existing_file,
    matching_files,
    matching_pairs,
    open_packed,
    unpacked,
)
from flaxformer_mt.data.sources.pair import PairSource, SelectedPairs
from flaxformer_mt.data.sources.registry import (
    BlockOfRecords,
    Languages,
    SourceRequest,
    find_source_kind,
)
from flaxformer_mt.data.sources.text_files import (
    TextPairs,
    check_equal_counts,
    check_not_utf16,
    empty_file,
    pack_lines,
)
from flaxformer_mt.storage.paths import as_path, join


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Block:
    """Consecutive records of a source. Any process can load it."""

    name: str
    """Name of the file or source, for messages."""
    tag: str
    """The target language that the tags of the source texts name; "" = no tags."""
    first: int
    """Index of its first record in the source, from 0."""
    size: int
    share: float
    """Approximate fraction of the source up to the end of this block."""
    read: Callable[[], PairSource]
    """Returns at least `size` records."""

    def load(self) -> PairSource:
        """Returns the records."""
        source = self.read()
        return source if len(source) == self.size else SelectedPairs(source, range(self.size))


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Part:
    """A source of sentence pairs, or one of the several files of a source."""

    name: str
    files: tuple[Path, ...]
    """The files that it reads, to detect changes; empty = it does not read files."""
    blocks: Callable[[int], Iterator[BlockOfRecords]]
    """Takes the size of a block. Yields the blocks."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class PairStream:
    """A corpus that is read in blocks. Unpickling it in another process opens it again."""

    name: str
    tag: str
    limit: int
    """The number of records to use; 0 = all."""
    parts: tuple[Part, ...]
    reopen: Callable[[], "PairStream"]

    def __reduce__(self) -> tuple[Callable[[], "PairStream"], tuple[()]]:
        return self.reopen, ()

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that it reads."""
        return tuple(file for part in self.parts for file in part.files)

    def blocks(self, size: int) -> Iterator[Block]:
        """Yields blocks of `size` records; the last one may be smaller."""
        total = 0
        for number, part in enumerate(self.parts):
            first = 0
            for found, share, read in part.blocks(size):
                count = min(found, self.limit - total) if self.limit else found
                if not count:
                    return
                total += count
                share = (number + share) / len(self.parts)
                if self.limit:
                    share = max(share, total / self.limit)
                yield Block(
                    name=part.name, tag=self.tag, first=first, size=count, share=share, read=read
                )
                first += count


def open_stream(
    name: str,
    source: str | tuple[str, str],
    languages: Languages,
    tag: str,
    limit: int,
    *,
    directory: str,
) -> PairStream:
    """Opens a source: a specification, or the text files of both sides."""
    base = as_path(directory)
    if isinstance(source, str):
        is_file = find_source_kind(source)[0].is_file
        specs = matching_files(base, source) if is_file else [source]
        requests = (SourceRequest(spec=s, directory=base, languages=languages) for s in specs)
        parts = [_part_of(request) for request in requests]
    else:
        parts = []
        for one, other in matching_pairs(base, *source):
            files = existing_file(join(base, one)), existing_file(join(base, other))
            parts.append(_text_part(f"{one} | {other}", files))
    return PairStream(
        name=name,
        tag=tag,
        limit=limit,
        parts=tuple(parts),
        reopen=functools.partial(
            open_stream, name, source, languages, tag, limit, directory=directory
        ),
    )


def num_text_bytes(stream: PairStream) -> int:
    """Returns an estimate of the bytes of text in a stream. It reads no text file."""
    if not stream.files:
        counts = (found for part in stream.parts for found, *_ in part.blocks(sys.maxsize))
        return 200 * sum(counts)
    sizes = [(file, file.stat().st_size) for file in stream.files]
    return sum(4 * size if file.suffix in (*PACKED, ".parquet") else size for file, size in sizes)


def _text_part(name: str, files: tuple[Path, Path]) -> Part:
    return Part(name=name, files=files, blocks=functools.partial(_parallel_blocks, files))


def _part_of(request: SourceRequest) -> Part:
    """Returns the part that a specification names."""
    kind = request.kind
    if kind.text_files:
        return _text_part(request.spec, kind.text_files(request))
    files = (existing_file(request.file),) if kind.is_file else kind.files(request)
    if kind.parse:
        blocks = functools.partial(_parsed_blocks, request)
    elif kind.blocks:
        blocks = functools.partial(kind.blocks, files[0], request.languages)
    else:
        blocks = functools.partial(_range_blocks, request)
    return Part(name=request.spec, files=files, blocks=blocks)


def _line_blocks(path: Path, size: int) -> Iterator[tuple[float, list[bytes]]]:
    """Yields (fraction of the file up to the end of the block, block of up to `size` lines).

    The lines have their line ends.
    """
    with open_packed(path) as packed, unpacked(packed, path) as file:
        num_bytes = max(os.fstat(packed.fileno()).st_size, 1)
        # Iteration over Python's gzip and lzma files is slow.
        lines = iter(io.BufferedReader(file, 1 << 20))
        block = list(itertools.islice(lines, size))
        if block:
            block[0] = block[0].removeprefix(BOM_UTF8)
            check_not_utf16(b"".join(block)[:1000], str(path))
        if not b"".join(block):
            raise empty_file(path)
        while block:
            yield packed.tell() / num_bytes, block
            block = list(itertools.islice(lines, size))


def _parallel_blocks(files: tuple[Path, Path], size: int) -> Iterator[BlockOfRecords]:
    """Yields blocks of two files. Raises ValueError if they have different numbers of lines."""
    counts = [0, 0]
    sides = [_line_blocks(file, size) for file in files]
    for (share, source), (_, target) in itertools.zip_longest(*sides, fillvalue=(1.0, ())):
        counts = [counts[0] + len(source), counts[1] + len(target)]
        if len(source) == len(target):
            blobs = b"".join(source), b"".join(target)
            yield len(source), share, functools.partial(_parallel_pairs, *blobs, files)
    check_equal_counts(files, counts)


def _parallel_pairs(source: bytes, target: bytes, files: tuple[Path, Path]) -> PairSource:
    return TextPairs(pack_lines(source), pack_lines(target), files)


def _parsed_blocks(request: SourceRequest, size: int) -> Iterator[BlockOfRecords]:
    """Yields blocks of a file that has one pair a line."""
    for share, lines in _line_blocks(existing_file(request.file), size):
        yield len(lines), share, functools.partial(_parsed_pairs, b"".join(lines), request)


def _parsed_pairs(blob: bytes, request: SourceRequest) -> PairSource:
    parse = request.kind.parse
    assert parse is not None
    return parse(pack_lines(blob), request)


def _range_blocks(request: SourceRequest, size: int) -> Iterator[BlockOfRecords]:
    """Yields blocks of a source with random access. Each process opens the source itself."""
    total = len(open_random_access(request))
    for start in range(0, total, size):
        indices = range(start, min(start + size, total))
        read = functools.partial(_range_pairs, request, indices)
        yield len(indices), indices.stop / total, read


def _range_pairs(request: SourceRequest, indices: range) -> PairSource:
    return SelectedPairs(open_random_access(request), indices)


@functools.lru_cache(maxsize=4)
def open_random_access(request: SourceRequest) -> PairSource:
    """Returns a source with random access."""
    open_source = request.kind.open
    assert open_source is not None
    return open_source(request)
