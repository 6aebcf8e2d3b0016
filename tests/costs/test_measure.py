"""Peak memory, measured in a child process that may be killed."""

from __future__ import annotations

import os
import signal
from functools import partial

from regard.costs.measure import peaks_in_child
from regard.costs.trace import Run, Workload

MEBIBYTE = 1 << 20


def growing(mebibytes: int) -> Workload:
    def prepare() -> Run:
        return lambda: bytes(bytearray(b"1") * (mebibytes * MEBIBYTE))

    return Workload("growing", "forward", prepare)


def killed() -> Workload:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def test_after_a_killed_child_another_continues() -> None:
    small, gone, large = peaks_in_child([partial(growing, 1), killed, partial(growing, 40)])
    assert gone == "killed, probably out of memory"
    assert isinstance(large, int)
    assert isinstance(small, int)
    assert small < 40 * MEBIBYTE < large
