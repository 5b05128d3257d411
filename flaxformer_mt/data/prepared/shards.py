"""Shards: token ids, lengths and text of consecutive pairs, in plain files with random access.

    shards/00000/source.ids, target.ids   concatenated token ids of all pairs
                 lengths.npy              number of tokens of each pair: source, target
                 text, text_lengths.npy   only for subword sampling: UTF-8, and bytes of each side
                 shard.json               counts

A shard is written under a temporary name and renamed, so that it is complete or absent.
"""

import contextlib
import dataclasses
import functools
import io
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
from jaxtyping import Integer

from flaxformer_mt.data.batching.batch import Example
from flaxformer_mt.data.encoding import Counts, Encoded
from flaxformer_mt.data.prepared.manifest import read_json
from flaxformer_mt.data.sources.pair import Pair
from flaxformer_mt.storage.paths import naming, write_file

IDS = ("source.ids", "target.ids")
LENGTHS, TEXT, TEXT_LENGTHS, COUNTS = "lengths.npy", "text", "text_lengths.npy", "shard.json"
_EVERY = 256  # the start of every 256th pair is kept in memory


def integer_type(largest: int) -> str:
    """Returns the smallest integer type on disk, of two, that holds `largest`."""
    return "<u2" if largest < 1 << 16 else "<u4"


def write_shard(
    directory: Path,
    blocks: Iterable[Encoded],
    *,
    id_type: str,
    length_type: str,
    with_text: bool,
    check: Callable[[], None] = lambda: None,
) -> Counts:
    """Writes a shard and returns its counts. If `blocks` or `check` raises, there is no shard."""
    partial = directory.with_name(f"{directory.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    counts, lengths = Counts(), [np.empty((0, 2), length_type)]
    text_lengths: list[list[int]] = []
    names = (*IDS, TEXT) if with_text else IDS
    with naming(directory), contextlib.ExitStack() as stack:
        files = [stack.enter_context(open(partial / name, "wb")) for name in names]
        for pairs, texts, of_block in blocks:
            files[0].write(pairs.inputs.astype(id_type).data)
            files[1].write(pairs.targets.astype(id_type).data)
            for pair in texts:
                sides = [side.encode() for side in pair]
                files[2].write(b"".join(sides))
                text_lengths.append([len(side) for side in sides])
            both = np.stack([pairs.source_lengths, pairs.target_lengths], axis=1)
            lengths.append(both.astype(length_type))
            counts.add(of_block)
    save_array(partial / LENGTHS, np.concatenate(lengths))
    if with_text:
        save_array(partial / TEXT_LENGTHS, np.array(text_lengths, np.uint32))
    write_file(partial / COUNTS, json.dumps(vars(counts), ensure_ascii=False).encode())
    check()
    partial.rename(directory)
    return counts


def save_array(path: Path, array: np.ndarray) -> None:
    """Writes an array as .npy. Unlike `np.save`, it reports a full disk clearly."""
    content = io.BytesIO()
    np.save(content, array)
    write_file(path, content.getvalue())


def shard_directory(corpus: Path, number: int) -> Path:
    """Returns the directory of a shard of a prepared corpus."""
    return corpus / "shards" / f"{number:05}"


def read_counts(directory: Path) -> Counts | None:
    """Returns the counts of a shard; None if the shard does not exist."""
    file = directory / COUNTS
    if not file.exists():
        return None
    return Counts.from_json(read_json(file))


@dataclasses.dataclass(frozen=True)
class Shard:
    """A complete shard. It reads pairs on demand, and keeps only positions in memory."""

    directory: str
    id_type: str

    def example(self, index: int) -> Example:
        """Returns the token ids of pair `index`."""
        lengths, starts = _locate(self.directory, LENGTHS, index)
        return Example(*(self._ids(*place) for place in zip(IDS, starts, lengths, strict=True)))

    def _ids(self, name: str, start: int, length: int) -> Integer[np.ndarray, "_"]:
        size = np.dtype(self.id_type).itemsize
        data = _open_file(f"{self.directory}/{name}").read(length * size, start * size)
        return np.frombuffer(data, self.id_type).astype(np.int32)

    def pair(self, index: int) -> Pair:
        """Returns pair `index` as text."""
        lengths, starts = _locate(self.directory, TEXT_LENGTHS, index)
        data = _open_file(f"{self.directory}/{TEXT}").read(sum(lengths), sum(starts))
        return Pair(data[: lengths[0]].decode(), data[lengths[0] :].decode())

    def lengths(self) -> Integer[np.ndarray, "n 2"]:
        """Returns the number of source and target tokens of each pair, as an array on disk."""
        return np.load(f"{self.directory}/{LENGTHS}", mmap_mode="r")

    def id_parts(self, side: int) -> Iterator[Integer[np.ndarray, "_"]]:
        """Yields all token ids of a side (0 = source, 1 = target), a million at a time."""
        with open(f"{self.directory}/{IDS[side]}", "rb") as file:
            while data := file.read(np.dtype(self.id_type).itemsize << 20):
                yield np.frombuffer(data, self.id_type)


class _File:
    """A file that several threads can read. It closes with its last reference."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_RDONLY)

    def read(self, size: int, start: int) -> bytes:
        return os.pread(self._file, size, start)

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            os.close(self._file)


_open_file = functools.lru_cache(maxsize=256)(_File)


def forget_files() -> None:
    """Closes cached files, because the directory may now contain another corpus."""
    _open_file.cache_clear()
    _positions.cache_clear()


def _locate(directory: str, name: str, index: int) -> tuple[list[int], list[int]]:
    """Returns the lengths and the starts of both sides of pair `index`, from the table `name`."""
    header, item, kind, known = _positions(directory, name)
    block, inside = divmod(index, _EVERY)
    data = _open_file(f"{directory}/{name}").read(
        (inside + 1) * 2 * item, header + block * _EVERY * 2 * item
    )
    lengths = np.frombuffer(data, kind).reshape(-1, 2)
    starts = known[block] + lengths[:inside].sum(axis=0, dtype=np.int64)
    return lengths[inside].tolist(), starts.tolist()


@functools.cache
def _positions(directory: str, name: str) -> tuple[int, int, np.dtype, Integer[np.ndarray, "k 2"]]:
    """Returns header size, item size and type of a table, and the starts of every 256th pair."""
    table = np.load(f"{directory}/{name}", mmap_mode="r")
    sums = np.add.reduceat(table, np.arange(0, len(table), _EVERY), axis=0, dtype=np.int64)
    known = np.concatenate([np.zeros((1, 2), np.int64), np.cumsum(sums, axis=0)])
    return table.offset, table.itemsize, table.dtype, known
