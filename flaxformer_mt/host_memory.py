"""Memory of the CPU backend: kept for the next step instead of given back after every one.

XLA allocates the buffers of a step anew each time. glibc's malloc takes blocks of that size
straight from the kernel and returns them at once, so that every step pays for mapping and zeroing
all its pages again: about a quarter of the time of a training step on two cores.
"""

import ctypes
import sys

# <malloc.h>
_M_TRIM_THRESHOLD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -4, -8
_LARGEST_INT = 2**31 - 1


def keep_freed_memory() -> bool:
    """Lets glibc's malloc keep what is freed; call it before any other thread allocates.

    One arena, because only the main one can hold large blocks; no blocks of their own from the
    kernel; nothing returned to it.

    Returns:
      Whether it could be done: not on another C library than glibc (macOS, Windows, musl).
    """
    if sys.platform != "linux":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    settings = ((_M_ARENA_MAX, 1), (_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, _LARGEST_INT))
    return all(mallopt(name, value) == 1 for name, value in settings)
