"""Work that can be traced, predicted and measured: a name, and how to make it ready to run.

`prepare` builds what the work needs and returns the run itself, which may be called many times. Nothing
is built before `prepare` is called, so that it can be called among fake tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Run = Callable[[], object]
# forward: without gradients; train: forward and backward; decode: one token more.
Mode = Literal["forward", "train", "decode"]
MODES: tuple[Mode, ...] = ("forward", "train", "decode")


@dataclass(frozen=True)
class Workload:
    """What is priced."""

    name: str
    mode: Mode
    prepare: Callable[[], Run]
