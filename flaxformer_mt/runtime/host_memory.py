"""Memory of the CPU backend: kept for the next step instead of given back after every one.

XLA allocates the buffers of a step anew each time. glibc's malloc takes large blocks straight from
the kernel and returns them at once, so that every step pays for mapping and zeroing all its pages
again (`benchmarks/README.md` has the numbers).
"""

import ctypes
import sys

# <malloc.h>
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -2, -4, -8
_NEVER = -1
_HEAP = 64 * 2**20
"""What an arena consists of: it can hold no larger block (that of the first thread can)."""


def keep_freed_memory() -> bool:
    """Lets glibc's malloc keep what is freed, from now on and in all threads.

    It takes no blocks of their own from the kernel, and returns nothing. Blocks of more than 64 MB
    are still taken and returned each time in all threads but the first: their arenas cannot hold
    them (see `share_freed_memory`, and what `search_batch` returns).

    Returns:
      Whether it could be done: not on another C library than glibc (macOS, Windows, musl).
    """
    return (
        _set_malloc(_M_MMAP_MAX, 0)
        and _set_malloc(_M_TRIM_THRESHOLD, _NEVER)
        and _set_malloc(_M_TOP_PAD, _HEAP)  # or an arena returns a heap in which nothing is used
    )


def share_freed_memory() -> bool:
    """Lets all threads that start from now on take memory from one arena, the first thread's.

    For training: its blocks have more than 64 MB, and only that arena can hold them. Not for a
    process that translates: its threads would wait for each other (5 to 9 % of the time of a search
    of many sentences).

    Returns:
      Whether it could be done, as above.
    """
    return _set_malloc(_M_ARENA_MAX, 1)


def _set_malloc(name: int, value: int) -> bool:
    if sys.platform != "linux":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and mallopt(name, value) == 1
