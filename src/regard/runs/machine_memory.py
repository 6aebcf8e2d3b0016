"""How much memory this machine has, and how much of it is free."""

from __future__ import annotations

import os
from pathlib import Path

MEMORY_BOOK = Path("/proc/meminfo")


def machine_bytes() -> int:
    """All of it."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def free_bytes() -> int:
    """What a new process could take without swapping; all of it where the system does not say."""
    try:
        lines = MEMORY_BOOK.read_text(encoding="utf-8").splitlines()
    except OSError:
        return machine_bytes()
    found = (line for line in lines if line.startswith("MemAvailable:"))
    return next((int(line.split()[1]) * 1024 for line in found), machine_bytes())
