"""Keeping freed memory: what it saves is seen in page faults, in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

FAULTS = """
import resource, sys, torch
from regard.core.malloc import keep_freed_memory
if sys.argv[1] == "keep" and not keep_freed_memory():
    print("unsupported")
    raise SystemExit
# Above 32 MiB glibc never keeps a block of its own accord.
start = torch.zeros(12_000_000)
for _ in range(20):
    start + 1  # the heap settles
rounds = []
for _ in range(11):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    start + 1
    rounds.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
# The middle round: now and then the heap still grows by a tensor.
print(sorted(rounds)[5])
"""


def faults(how: str) -> str:
    command = [sys.executable, "-c", FAULTS, how]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_kept_memory_is_not_faulted_in_again() -> None:
    kept = faults("keep")
    if kept == "unsupported":
        pytest.skip("this C library has no mallopt")
    assert int(kept) < 100
    # Pages may be of any size, so the two are only compared.
    assert int(faults("give back")) > 5 * max(int(kept), 1)
