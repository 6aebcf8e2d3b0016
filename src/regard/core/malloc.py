"""What becomes of memory that tensors give back: kept for the next, or returned to the system.

glibc hands large freed blocks back at once, so the next large tensor is made of fresh pages, each of
which costs a fault and a clearing: on a CPU that can take longer than the arithmetic. A process that
trains allocates the same sizes over and over, and is better off keeping them. A process that measures
memory wants the opposite: freed blocks that stay around would count as used.
"""

from __future__ import annotations

import ctypes

# Names and numbers of glibc's malloc.h.
M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3
M_MMAP_MAX = -4
LARGEST = 2**31 - 1
OWN_PAGES_FROM = 1 << 16


def keep_freed_memory() -> bool:
    """Let this process keep what it frees, for good; whether the C library could be told so.

    It then stays as large as its peak, and settles after the first few rounds of the same work.
    Nothing is computed differently.
    """
    return _told((M_MMAP_MAX, 0), (M_TRIM_THRESHOLD, LARGEST))


def return_freed_memory() -> bool:
    """Let this process return every freed block of 64 KiB or more at once; whether it could be told so."""
    return _told((M_MMAP_THRESHOLD, OWN_PAGES_FROM))


def _told(*settings: tuple[int, int]) -> bool:
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        # Another C library: nothing to set, and nothing lost.
        return False
    return all(mallopt(name, value) for name, value in settings)
