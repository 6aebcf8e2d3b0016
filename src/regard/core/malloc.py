"""glibc malloc settings: keep freed memory for reuse, or return it to the system.

glibc returns large freed blocks at once, so the next large tensor needs fresh pages, and page faults
can take longer than the arithmetic on a CPU. Training allocates the same sizes over and over and is
faster when freed memory is kept. Memory measurements need the opposite: kept blocks would count as used.
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
    """Keep freed memory in this process from now on; returns whether the C library supports it.

    The process then stays as large as its peak. Results do not change.
    """
    return _mallopt((M_MMAP_MAX, 0), (M_TRIM_THRESHOLD, LARGEST))


def return_freed_memory() -> bool:
    """Return freed blocks of 64 KiB or more at once; returns whether the C library supports it."""
    return _mallopt((M_MMAP_THRESHOLD, OWN_PAGES_FROM))


def _mallopt(*settings: tuple[int, int]) -> bool:
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        # Another C library: nothing to set.
        return False
    return all(mallopt(name, value) for name, value in settings)
