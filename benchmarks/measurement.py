"""Time and peak memory of calls.

Timings on a shared machine drift, so calls to compare are alternated and only ratios of medians are
reported.
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
class Measurement:
    """A benchmark result and the threshold it must meet."""

    label: str
    value: float
    threshold: float
    larger_is_better: bool
    detail: str = ""

    @property
    def passed(self) -> bool:
        """Whether the value meets the threshold."""
        if self.larger_is_better:
            return self.value >= self.threshold
        return self.value <= self.threshold

    def __str__(self) -> str:
        sign = "≥" if self.larger_is_better else "≤"
        verdict = "ok  " if self.passed else "MISS"
        required = f"required {sign} {self.threshold:<6g}"
        return f"{verdict}  {self.label:<58} {self.value:7.2f}   {required} {self.detail}"


def at_most(label: str, value: float, threshold: float) -> Measurement:
    """A measurement that must not exceed the threshold."""
    return Measurement(label=label, value=value, threshold=threshold, larger_is_better=False)


def median_seconds(calls: Sequence[Call], *, repeats: int) -> list[float]:
    """Median time of each call; the calls alternate, `repeats` times after one warm-up."""
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
    """A call of `function(*inputs)` and its backward pass to all inputs and parameters."""
    leaves = [*inputs, *parameters]
    gradient = torch.randn_like(function(*inputs))

    def call() -> None:
        torch.autograd.grad(function(*inputs), leaves, gradient)

    return call


def peak_elements(call: Call) -> int:
    """Peak number of tensor elements that a call allocates."""
    with Counter() as counter:
        call()
    return counter.peak_memory


def random_leaf(*shape: int) -> Tensor:
    """A random tensor that requires a gradient."""
    return torch.randn(*shape, requires_grad=True)
