"""Checkpoints in buckets. A bucket cannot rename, so the last file marks a complete checkpoint.

The first process of a run writes a checkpoint with Orbax to a temporary local folder, and copies
the files. To read a checkpoint, each process copies the files it needs to a temporary folder.
"""

import shutil
import tempfile
import threading
import uuid
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import orbax.checkpoint as ocp
from orbax.checkpoint.options import MultiprocessingOptions
from upath import UPath

from flaxformer_mt.config import CONFIG_FILE
from flaxformer_mt.runtime.processes import broadcast_from_first, is_first
from flaxformer_mt.storage.paths import AnyPath, download, file_sizes, remove_tree, upload

COMMITTED = "commit_success.txt"
"""The last file of a checkpoint in a bucket. Its text is unique. The name is Orbax's."""
FIRST_PROCESS = MultiprocessingOptions(primary_host=0, active_processes={0})
"""Makes Orbax write in the first process without waiting for the others."""


def is_complete(checkpoint: AnyPath) -> bool:
    """Returns whether a checkpoint exists and is complete."""
    if isinstance(checkpoint, Path):  # Orbax renames complete checkpoints
        return checkpoint.is_dir()
    return (checkpoint / COMMITTED).exists()


def remove_checkpoint(checkpoint: AnyPath) -> None:
    """Removes a checkpoint. In a bucket, removes `COMMITTED` first, so that nobody reads a part."""
    if isinstance(checkpoint, UPath):
        (checkpoint / COMMITTED).unlink(missing_ok=True)
    remove_tree(checkpoint)


def publish(folder: Path, target: UPath) -> None:
    """Copies a local checkpoint to a bucket, and replaces an older one there."""
    remove_checkpoint(target)
    upload(folder, target, (name for name in file_sizes(folder) if name != COMMITTED))
    target.fs.pipe_file((target / COMMITTED).path, uuid.uuid4().hex.encode())


def publish_workdir(folder: Path, target: UPath) -> None:
    """Copies a workdir or another folder to a bucket. Copies config.json last: readers need it."""
    for checkpoint in folder.glob("checkpoints/*"):
        (checkpoint / COMMITTED).write_text(uuid.uuid4().hex)
    remove_tree(target)
    upload(folder, target, sorted(file_sizes(folder), key=lambda name: name == CONFIG_FILE))


def readable(checkpoint: AnyPath, items: Collection[str]) -> Path:
    """Returns a local folder with these items of a checkpoint."""
    if isinstance(checkpoint, Path):
        return checkpoint
    folder = _folder_of_copies(f"{checkpoint} {(checkpoint / COMMITTED).read_text()}")
    for item in items:
        if not (folder / item).is_dir():
            download(checkpoint / item, folder / f"{item}.partial").rename(folder / item)
    return folder


class _TemporaryFolder:
    """A folder that is deleted with this object."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="flaxformer_mt."))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


_copies = threading.local()


def _folder_of_copies(checkpoint: str) -> Path:
    """Returns the folder for copies from a checkpoint. Removes this thread's other copies."""
    folders: dict[str, _TemporaryFolder] = _copies.__dict__
    if checkpoint not in folders:
        folders.clear()
        folders[checkpoint] = _TemporaryFolder()
    return folders[checkpoint].path


class UploadingManager:
    """Writes checkpoints with Orbax to a local folder, and copies each to a bucket.

    It has the methods of `ocp.CheckpointManager` that a run needs. All processes of a run must call
    all of them; the first process writes. `steps` are the existing checkpoints, ascending. `kept`
    returns the steps to keep, and `seal` adds the checksums to a written checkpoint.
    """

    def __init__(
        self,
        directory: UPath,
        steps: Sequence[int],
        *,
        kept: Callable[[Sequence[int]], Collection[int]],
        seal: Callable[[Path], None],
    ):
        self._directory, self._steps = directory, list(steps)
        self._kept, self._seal = kept, seal
        self._folder = tempfile.TemporaryDirectory(prefix="flaxformer_mt.")
        self._orbax = None
        if is_first():
            self._orbax = ocp.CheckpointManager(
                self._folder.name,
                options=ocp.CheckpointManagerOptions(
                    create=False,
                    max_to_keep=1,
                    async_options=ocp.AsyncOptions(post_finalization_callback=self._publish),
                    multiprocessing_options=FIRST_PROCESS,
                ),
            )

    def save(self, step: int, *, args: Any, metrics: Mapping[str, float]) -> None:
        """Starts to write a checkpoint, unless this step or a newer one exists.

        The arrays must be on devices of this process.
        """
        if self._steps and step <= self._steps[-1]:
            return
        self._steps.append(step)
        if self._orbax:
            self._orbax.save(step, args=args)

    def all_steps(self) -> Sequence[int]:
        """Returns the steps of the checkpoints, ascending."""
        return tuple(self._steps)

    def latest_step(self) -> int | None:
        """Returns the newest step."""
        return self._steps[-1] if self._steps else None

    def delete(self, step: int) -> None:
        """Removes a checkpoint from the bucket."""
        self._steps.remove(step)
        if is_first():
            remove_checkpoint(self._directory / str(step))

    def wait_until_finished(self) -> None:
        """Waits until the last checkpoint is in the bucket. Raises the error of a failed write."""
        failure = None
        try:
            if self._orbax:
                self._orbax.wait_until_finished()
        except Exception as error:
            failure = error
        if broadcast_from_first(failure is not None):
            raise failure or OSError("the first process could not write it; see its message")
        for step in set(self._steps) - set(self._kept(self._steps)):
            self.delete(step)

    def close(self) -> None:
        """Stops the threads and removes the local folder."""
        if self._orbax:
            self._orbax.close()
        self._folder.cleanup()

    def _publish(self) -> None:
        """Adds checksums to the checkpoint that Orbax is about to rename, and copies it."""
        step = self._steps[-1]
        (written,) = Path(self._folder.name).glob(f"{step}{ocp.utils.TMP_DIR_SUFFIX}*")
        self._seal(written)
        publish(written, self._directory / str(step))
