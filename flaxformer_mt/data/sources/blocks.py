"""Streams the records of a corpus in blocks, so that memory does not grow with the corpus."""

import dataclasses
import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from flaxformer_mt.data.sources.files import PACKED, existing_file, matching_files, matching_pairs
from flaxformer_mt.data.sources.language_tags import tag_of
from flaxformer_mt.data.sources.pair import Pair
from flaxformer_mt.data.sources.quarantine import Record
from flaxformer_mt.data.sources.records import Rows
from flaxformer_mt.data.sources.registry import Languages, SourceRequest, find_source_kind
from flaxformer_mt.data.sources.text_files import BlockOfRecords, parallel_blocks
from flaxformer_mt.storage.paths import AnyPath, as_path, join

BLOCK_SIZE = 4096  # records that a process handles together


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Block:
    """Consecutive records of a source. Any process can load it."""

    name: str
    """Name of the file or source, for messages."""
    tag: str
    """Target language of the tags before the source texts; "" = no tags."""
    first: int
    """Index of its first record in the file or source, from 0."""
    start: int
    """Index of its first record in the corpus, which may have several files."""
    size: int
    share: float
    """Approximate fraction of the corpus up to the end of this block."""
    read: Callable[[], Sequence[Record]]
    """Returns at least `size` records."""

    def load(self) -> list[Record]:
        """Returns the records, without tags. Sets the line numbers of bad records."""
        return [
            record if isinstance(record, Pair) else record._replace(line=number)
            for number, record in enumerate(self.read()[: self.size], self.first + 1)
        ]

    def tagged(self, pair: Pair) -> Pair:
        """Returns a pair of the block with the tag before its source."""
        return pair._replace(source=f"{tag_of(self.tag)} {pair.source}") if self.tag else pair


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Part:
    """A source of sentence pairs, or one of the several files of a source."""

    name: str
    files: tuple[Path, ...]
    """The files of this part, to detect changes; empty if it does not read files."""
    blocks: Callable[[int], Iterator[BlockOfRecords]]
    """Yields blocks of the given size. Any process can call it."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class PairStream:
    """A corpus that is read in blocks. Any process can read it."""

    name: str
    tag: str
    limit: int
    """The number of records to use; 0 = all."""
    parts: tuple[Part, ...]

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
                share = (number + share) / len(self.parts)
                if self.limit:
                    share = max(share, (total + count) / self.limit)
                yield Block(
                    name=part.name,
                    tag=self.tag,
                    first=first,
                    start=total,
                    size=count,
                    share=share,
                    read=read,
                )
                first, total = first + count, total + count


def open_parts(
    source: str | tuple[str, str], languages: Languages, directory: str
) -> tuple[Part, ...]:
    """Returns the parts of a source: of a specification, or of text files of both sides."""
    base = as_path(directory)
    if not isinstance(source, str):
        return tuple(
            _text_part(f"{one} | {other}", (join(base, one), join(base, other)))
            for one, other in matching_pairs(base, *source)
        )
    is_file = find_source_kind(source)[0].is_file
    specs = matching_files(base, source) if is_file else [source]
    requests = (SourceRequest(spec=s, directory=base, languages=languages) for s in specs)
    return tuple(map(_part_of, requests))


def num_text_bytes(stream: PairStream) -> int:
    """Returns an estimate of the bytes of text in a stream. It reads no text file."""
    if not stream.files:
        counts = (found for part in stream.parts for found, *_ in part.blocks(sys.maxsize))
        return 200 * sum(counts)
    sizes = [(file, file.stat().st_size) for file in stream.files]
    return sum(4 * size if file.suffix in (*PACKED, ".parquet") else size for file, size in sizes)


def _text_part(name: str, paths: tuple[AnyPath, AnyPath]) -> Part:
    files = existing_file(paths[0]), existing_file(paths[1])
    return Part(name=name, files=files, blocks=functools.partial(parallel_blocks, paths))


def _part_of(request: SourceRequest) -> Part:
    """Returns the part that a specification names."""
    kind = request.kind
    if kind.text_files:
        files = kind.text_files(request)
    else:
        files = (existing_file(request.file),) if kind.is_file else kind.files(request)
    return Part(name=request.spec, files=files, blocks=functools.partial(_blocks_of, request))


def _blocks_of(request: SourceRequest, size: int) -> Iterator[BlockOfRecords]:
    """Yields the blocks of a source. A worker on another machine downloads a public corpus."""
    kind = request.kind
    if kind.text_files:
        return parallel_blocks(kind.text_files(request), size)
    return (kind.blocks or _range_blocks)(request, size)


def _range_blocks(request: SourceRequest, size: int) -> Iterator[BlockOfRecords]:
    """Yields blocks of a source with random access. Each process opens the source itself."""
    total = len(open_random_access(request))
    for start in range(0, total, size):
        indices = range(start, min(start + size, total))
        read = functools.partial(_range_records, request, indices)
        yield len(indices), indices.stop / total, read


def _range_records(request: SourceRequest, indices: range) -> list[Record]:
    source = open_random_access(request)
    return [source[index] for index in indices]


@functools.lru_cache(maxsize=4)
def open_random_access(request: SourceRequest) -> Sequence[Record] | Rows:
    """Returns a source with random access."""
    open_source = request.kind.open
    assert open_source is not None
    return open_source(request)
