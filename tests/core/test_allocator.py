"""Keeping freed memory: what it saves is seen in page faults, in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

FAULTS = """
import resource, sys, torch
from regard.core.allocator import keep_freed_memory
if sys.argv[1] == "keep" and not keep_freed_memory():
    print("unsupported")
    raise SystemExit
start = torch.zeros(4_000_000)
def work():
    return [start + 1 for _ in range(6)]
for _ in range(20):
    work()  # the heap settles
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    work()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how: str) -> str:
    command = [sys.executable, "-c", FAULTS, how]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_kept_memory_is_not_faulted_in_again() -> None:
    kept = faults("keep")
    if kept == "unsupported":
        pytest.skip("this C library has no mallopt")
    assert int(kept) < 1000
    assert int(kept) < int(faults("give back")) / 5
