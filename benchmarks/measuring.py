"""Timing several things side by side, and the memory a call takes.

Timings on a shared machine drift, so rivals are run alternately and only ratios of medians are reported.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.core.counter import Counter

Call = Callable[[], object]


@dataclass(frozen=True)
class Finding:
    """One figure beside the bar it has to clear."""

    what: str
    figure: float
    bar: float
    larger_is_better: bool
    detail: str = ""

    @property
    def holds(self) -> bool:
        """Whether the bar is cleared."""
        return self.figure >= self.bar if self.larger_is_better else self.figure <= self.bar

    def __str__(self) -> str:
        sign = "≥" if self.larger_is_better else "≤"
        verdict = "ok  " if self.holds else "MISS"
        return f"{verdict}  {self.what:<58} {self.figure:7.2f}   bar {sign} {self.bar:<6g} {self.detail}"


def median_seconds(calls: Sequence[Call], *, repeats: int) -> list[float]:
    """The median time of each call, all of them run in turn `repeats` times after one warm-up."""
    for call in calls:
        call()
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(repeats):
        for call, record in zip(calls, times, strict=True):
            start = time.perf_counter()
            call()
            record.append(time.perf_counter() - start)
    return [statistics.median(record) for record in times]


def forward_and_backward(
    function: Callable[..., Tensor], inputs: Sequence[Tensor], parameters: Sequence[Tensor] = ()
) -> Call:
    """A call that runs `function(*inputs)` and back to every input and parameter."""
    leaves = [*inputs, *parameters]
    gradient = torch.randn_like(function(*inputs))

    def call() -> None:
        torch.autograd.grad(function(*inputs), leaves, gradient)

    return call


def peak_numbers(call: Call) -> int:
    """How many numbers a call holds at its peak beyond what existed before it."""
    with Counter() as counter:
        call()
    return counter.peak_memory


def draw(*shape: int) -> Tensor:
    """A random leaf that takes a gradient."""
    return torch.randn(*shape, requires_grad=True)
