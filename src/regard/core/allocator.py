"""Keeping memory that tensors give back, instead of returning it to the system.

glibc hands large freed blocks back at once, so the next large tensor is made of fresh pages, each of
which costs a fault and a clearing: on a CPU that can take longer than the arithmetic. A process that
trains allocates the same sizes over and over, and is better off keeping them.
"""

from __future__ import annotations

import ctypes

# Names and numbers of glibc's malloc.h.
M_TRIM_THRESHOLD = -1
M_MMAP_MAX = -4
LARGEST = 2**31 - 1


def keep_freed_memory() -> bool:
    """Let this process keep what it frees, for good; whether the C library could be told so.

    It then stays as large as its peak, and settles after the first few rounds of the same work.
    Nothing is computed differently.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        # Another C library: nothing to set, and nothing lost.
        return False
    return bool(mallopt(M_MMAP_MAX, 0) and mallopt(M_TRIM_THRESHOLD, LARGEST))
