"""Growing files in a bucket. A bucket cannot append, so a local folder is copied there."""

import math
import tempfile
import time
from pathlib import Path

from upath import UPath

from flaxformer_mt.storage.paths import AnyPath, file_sizes, upload


class Mirror:
    """A local folder, `folder`, whose files `copy` copies to a bucket.

    If the target is a local folder, `folder` is the target, and nothing is copied.
    """

    def __init__(self, target: AnyPath, *names: str) -> None:
        """Downloads the files with these names from the bucket, if they exist."""
        self._target = target
        if isinstance(target, Path):
            self.folder = target
            return
        self._temporary = tempfile.TemporaryDirectory(prefix="flaxformer_mt.")
        self.folder = Path(self._temporary.name)
        self._copied: dict[str, int] = {}  # sizes
        self._time = -math.inf
        for name in names:
            if (target / name).is_file():
                target.fs.get_file((target / name).path, str(self.folder / name))

    def copy(self, *, every: float = 0.0) -> None:
        """Copies the files whose sizes changed, at most once in `every` seconds."""
        if not isinstance(self._target, UPath) or time.monotonic() < self._time + every:
            return
        sizes = file_sizes(self.folder)
        upload(self.folder, self._target, [n for n in sizes if self._copied.get(n) != sizes[n]])
        self._copied, self._time = sizes, time.monotonic()

    def close(self) -> None:
        """Copies changed files, and removes the temporary folder."""
        if isinstance(self._target, UPath):
            self.copy()
            self._temporary.cleanup()
