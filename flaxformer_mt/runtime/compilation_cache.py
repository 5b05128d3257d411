"""Compiled programs kept on disk: a second start reads them instead of compiling them again.

The cache is JAX's own. Its key holds the program, the versions of JAX and of the compiler, the
compiler's flags and the devices: of a CPU the instructions that it has, so that machines with
different ones can share a home directory. An entry that cannot be read is a warning, and the
program is compiled. What is decided here is where it lies, and how large it may grow.
"""

import contextlib
import os
from pathlib import Path
from typing import Any

import jax

MOST_BYTES = 1 << 29
"""As many as a thousand searches of a small model."""


def keep_programs() -> None:
    """Lets JAX keep all that it compiles from now on, in the user's cache folder.

    To be called when the processes of a run are connected. It does nothing where the user has said
    otherwise (see `cli.ABOUT_CACHE`), where that folder cannot be written to, and in a run of
    several processes: they may have to compile a program together (on GPUs they do), and would wait
    for ever for one that has found it in its own cache.
    """
    settings: Any = jax.config  # whose names are not declared
    decided = settings.jax_compilation_cache_dir is not None
    if decided or not settings.jax_enable_compilation_cache or jax.process_count() > 1:
        return
    try:
        folder = user_cache()
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # RuntimeError: nobody's home
        return
    if not os.access(folder, os.W_OK):
        return
    make_room(folder)
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)  # many a little is much


def user_cache() -> Path:
    """Where the programs lie; raises RuntimeError for a user without a home directory."""
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches, "flaxformer_mt", "programs")


def make_room(folder: Path, most_bytes: int = MOST_BYTES) -> None:
    """Deletes what was not read for the longest time, until the rest has `most_bytes` at most.

    Not by `jax_compilation_cache_max_size`, which takes a file lock for every program (not every
    file system has them), needs another package for it, and writes no more entries once a run was
    killed while it wrote one.
    """
    with contextlib.suppress(OSError):  # another run may be deleting the same
        files = [path for path in folder.rglob("*") if path.is_file()]
        files.sort(key=lambda path: max(path.stat().st_atime, path.stat().st_mtime), reverse=True)
        total = 0
        for path in files:
            total += path.stat().st_size
            if total > most_bytes:
                path.unlink()
