"""A prepared corpus in a bucket. It is made in a local folder, and copied shard by shard.

The manifest is copied last. A machine that continues an unfinished preparation first downloads the
files in the bucket.
"""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from upath import UPath

from flaxformer_mt.data.prepared.manifest import INPUTS, MANIFEST
from flaxformer_mt.data.prepared.shards import COUNTS, TEXT, TEXT_LENGTHS
from flaxformer_mt.storage.paths import (
    cache_folder,
    file_sizes,
    local_file,
    lock,
    remove_tree,
    upload,
    working_copy,
)

CONFIG = "config.json"  # `prepare` writes it beside the corpus
_NAMES = ("shards", "tokenizer", INPUTS, "quarantine.jsonl", "lengths.npy", CONFIG, MANIFEST)
_NUM_THREADS = 8  # requests mostly wait


class RemoteOutput:
    """The output of `prepare` at an address."""

    def __init__(self, target: UPath) -> None:
        """Downloads the files of an earlier preparation that this machine does not have."""
        self._target = target
        self.folder = cache_folder("preparing") / target.protocol / target.path.lstrip("/")
        sizes = _own_files(target)
        own, theirs = self.folder / INPUTS, target / INPUTS
        if not (INPUTS in sizes and own.exists() and own.read_bytes() == theirs.read_bytes()):
            remove_tree(self.folder)  # other text was prepared here
        self.folder.mkdir(parents=True, exist_ok=True)
        if MANIFEST in sizes:  # complete: the shards are not needed here
            sizes = {n: size for n, size in sizes.items() if not n.startswith("shards/")}
        for name in sorted(sizes, key=_completes):
            is_half = "/" in name and f"{name.rpartition('/')[0]}/{COUNTS}" not in sizes
            if not (name.startswith("shards/") and is_half):
                self._fetch(name)
        self._copied = sizes

    def _fetch(self, name: str) -> None:
        file = self.folder / name
        if file.exists():
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_name(f".{file.name}.partial")
        self._target.fs.get_file((self._target / name).path, str(partial))
        partial.replace(file)

    def copy(self) -> None:
        """Copies all finished files that are not yet in the bucket."""
        sizes = file_sizes(self.folder)
        names = [
            name
            for name, size in sizes.items()
            if self._copied.get(name) != size and name != MANIFEST and ".partial" not in name
        ]
        upload(self.folder, self._target, sorted(names, key=_completes))
        self._copied |= {name: sizes[name] for name in names}

    def finish(self) -> None:
        """Copies the remaining files, the manifest last, and removes the local folder."""
        self.copy()
        changed = [CONFIG] if (self.folder / CONFIG).exists() else []
        upload(self.folder, self._target, [*changed, MANIFEST])
        shutil.rmtree(self.folder)


def _own_files(prepared: UPath) -> dict[str, int]:
    """Returns the names and sizes of the files that `prepare` wrote; {} if it wrote none."""
    sizes = file_sizes(prepared)
    if INPUTS not in sizes:
        return {}
    return {name: size for name, size in sizes.items() if name.partition("/")[0] in _NAMES}


def _completes(name: str) -> bool:
    """Returns whether a file marks a complete shard, and so must be copied after the others."""
    return name.endswith(COUNTS)


def local_copy(prepared: UPath, *, with_text: bool) -> Path:
    """Returns a local folder with the files of a prepared corpus that training reads.

    It copies all shards, because each process reads rows from the whole corpus. Only subword
    sampling needs the text. It copies no file twice.
    """
    names = [
        name
        for name in _own_files(prepared)
        if with_text or name.rpartition("/")[2] not in (TEXT, TEXT_LENGTHS)
    ]
    folder = working_copy(prepared)
    if MANIFEST not in names:  # the copy must be incomplete too
        (folder / MANIFEST).unlink(missing_ok=True)
        return folder
    with lock(folder), ThreadPoolExecutor(_NUM_THREADS) as threads:
        for file in folder.rglob("[!.]*"):  # deletes files of an older corpus
            if file.is_file() and file.relative_to(folder).as_posix() not in names:
                file.unlink()
        list(threads.map(lambda name: local_file(prepared / name), names))
    return folder
