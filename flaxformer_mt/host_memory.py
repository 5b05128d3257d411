"""Memory of the CPU backend: kept for the next step instead of given back after every one.

XLA allocates the buffers of a step anew each time. glibc's malloc takes large blocks straight from
the kernel and returns them at once, so that every step pays for mapping and zeroing all its pages
again: with all blocks kept, about a quarter less time for a training step on two cores.
"""

import ctypes
import sys

# <malloc.h>
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4
_LARGEST_INT = 2**31 - 1


def keep_freed_memory() -> bool:
    """Lets glibc's malloc keep what is freed, from now on and in all threads.

    It takes no blocks of their own from the kernel, and returns nothing. Blocks of more than 64 MB
    are still taken and returned each time in all threads but the first: their arenas cannot hold
    them. One arena for all threads (M_ARENA_MAX) could, but they waited for each other (6 % of the
    time of a search), and it grew with every search of a large model: 3.5, 4.6, 5.8 GB.

    Returns:
      Whether it could be done: not on another C library than glibc (macOS, Windows, musl).
    """
    if sys.platform != "linux":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    settings = ((_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, _LARGEST_INT))
    return all(mallopt(name, value) == 1 for name, value in settings)
