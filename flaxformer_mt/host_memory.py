"""Memory of the CPU backend: kept for the next step instead of given back after every one.

XLA allocates the buffers of a step anew each time. glibc's malloc takes large blocks straight from
the kernel and returns them at once, so that every step pays for mapping and zeroing all its pages
again: about a quarter of the time of a training step on two cores.
"""

import ctypes
import sys

# <malloc.h>
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4
_LARGEST_INT = 2**31 - 1


def keep_freed_memory() -> bool:
    """Lets glibc's malloc keep what is freed; call it before any other thread allocates.

    No blocks of their own from the kernel, nothing returned to it. Only blocks of more than 64 MB
    still are, in other threads than the first, whose arenas cannot hold them. One arena for all
    (M_ARENA_MAX) could, but threads waited for each other (translating: 6 % slower), and what was
    kept grew with every search of a large model, from 3.5 to 5.8 GB in three.

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
