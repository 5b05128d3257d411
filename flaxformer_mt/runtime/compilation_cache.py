"""Location and size limit of JAX's persistent compilation cache.

The key of an entry contains the program, the versions of JAX and of the compiler, the compiler's
flags, and the devices (for a CPU, its instruction set), so different machines can share a home
directory. JAX warns about an unreadable entry and compiles the program.
"""

import contextlib
import os
from pathlib import Path
from typing import Any

import jax

from flaxformer_mt.storage.paths import cache_folder

MAX_BYTES = 1 << 29
"""Enough for about a thousand compiled searches of a small model."""


def keep_programs() -> None:
    """Makes JAX write all programs that it compiles from now on to the user's cache folder.

    Call it after `processes.connect`. It does nothing if the user has configured JAX's cache (see
    `cli.ABOUT_CACHE`), if the folder is not writable, or if the run has several processes. On GPUs,
    processes may compile a program together. If one process found the program in its cache, the
    others would wait for it forever.
    """
    settings: Any = jax.config  # its attributes are not declared
    decided = settings.jax_compilation_cache_dir is not None
    if decided or not settings.jax_enable_compilation_cache or jax.process_count() > 1:
        return
    try:
        folder = cache_folder("programs")
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # also if the user has no home directory
        return
    if not os.access(folder, os.W_OK):
        return
    delete_oldest(folder)
    jax.config.update("jax_compilation_cache_dir", str(folder))
    # Also caches short compilations, because there are many.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def delete_oldest(folder: Path, max_bytes: int = MAX_BYTES) -> None:
    """Deletes the least recently used files until at most `max_bytes` are left.

    JAX's own limit, `jax_compilation_cache_max_size`, needs another package and file locks. After a
    run was killed during a write, it stops writing entries.
    """
    with contextlib.suppress(OSError):  # another run may delete the same files
        files = [path for path in folder.rglob("*") if path.is_file()]
        files.sort(key=lambda path: max(path.stat().st_atime, path.stat().st_mtime), reverse=True)
        total = 0
        for path in files:
            total += path.stat().st_size
            if total > max_bytes:
                path.unlink()
