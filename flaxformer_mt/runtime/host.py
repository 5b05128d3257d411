"""The machine of this process: its CPUs, and its malloc settings.

Malloc settings make the CPU backend reuse freed memory in the next step. XLA allocates all buffers
in each step. By default, glibc's malloc maps large blocks with mmap and unmaps them when they are
freed. So each step maps and zeroes all its pages again (`benchmarks/tried.md` has the numbers).
Only commands may call these functions.
"""

import ctypes
import os
import sys

# <malloc.h>
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -2, -4, -8
_NEVER = -1
_HEAP = 64 * 2**20
"""Size of a heap in bytes, which bounds the blocks of all arenas except the main arena."""


def allowed_cpus() -> list[int]:
    """Returns the ids of the CPUs that this process may use (see `taskset`)."""
    if hasattr(os, "sched_getaffinity"):  # Linux
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def num_cpus() -> int:
    """Returns the number of CPUs, which is also JAX's number of threads."""
    return len(allowed_cpus())


def keep_freed_memory() -> None:
    """Makes glibc's malloc keep freed memory, from now on and in all threads.

    In other threads than the main thread, blocks of more than 64 MB are still mapped and unmapped
    each time, because their arenas cannot hold them (see `share_freed_memory`).
    """
    _set_malloc(_M_MMAP_MAX, 0)
    _set_malloc(_M_TRIM_THRESHOLD, _NEVER)
    _set_malloc(_M_TOP_PAD, _HEAP)  # so that an arena does not return an unused heap


def share_freed_memory() -> None:
    """Makes all threads that start from now on use the main arena.

    Training needs this, because only the main arena can hold its blocks of more than 64 MB.
    Translation must not use it: its threads would wait for each other (5 to 9 % of the time of a
    large search).
    """
    _set_malloc(_M_ARENA_MAX, 1)


def _set_malloc(name: int, value: int) -> None:
    """Sets a value of `mallopt`. Does nothing without glibc (macOS, Windows, musl)."""
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(name, value)
