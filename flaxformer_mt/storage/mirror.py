"""Files that grow, in a bucket: it cannot append, so a folder of this machine is copied there."""

import math
import tempfile
import time
from pathlib import Path

from upath import UPath

from flaxformer_mt.storage.paths import AnyPath, file_sizes, upload


class Mirror:
    """A folder whose files are copied to a bucket as often as `copy` says.

    If the target is a folder of this machine, it is that folder, and nothing is copied.
    """

    def __init__(self, target: AnyPath, *names: str) -> None:
        """Copies the files with these names, if they exist, from the bucket first."""
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
        """Copies the files that have grown, unless it did so in the last `every` seconds."""
        if not isinstance(self._target, UPath) or time.monotonic() < self._time + every:
            return
        sizes = file_sizes(self.folder)
        upload(self.folder, self._target, [n for n in sizes if self._copied.get(n) != sizes[n]])
        self._copied, self._time = sizes, time.monotonic()

    def close(self) -> None:
        """Copies the rest, and removes the temporary folder."""
        if isinstance(self._target, UPath):
            self.copy()
            self._temporary.cleanup()
