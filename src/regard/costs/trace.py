"""What a piece of work does, operator by operator, without doing it.

It runs on fake tensors, which have shapes and no numbers: a model of any size is traced in the time its
Python takes. Work that asks for the value of a number cannot run so, and is traced while it really runs.
"""

from __future__ import annotations

from collections import Counter as Tally
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedFakeTensorException,
)
from torch.overrides import TorchFunctionMode

from regard.core.counter import Counter
from regard.costs.operator_calls import OperatorCall, describe
from regard.costs.workload import Mode, Workload

CANNOT_FAKE = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
)


@dataclass(frozen=True, kw_only=True)
class Trace:
    """Counts of one run, and its operators with how often each was called in these sizes.

    `recorded_calls` of them were recorded for gradients. `python_calls` are the calls of Python that led to
    them; one may run a thousand operators, as that of a recurrent layer does. `peak_bytes` is beyond
    what was there before the run: inputs and parameters. `name` and `mode` are the workload's.
    """

    name: str
    mode: Mode
    calls: Tally[OperatorCall]
    recorded_calls: int
    python_calls: int
    products: int
    functions: int
    arithmetic: int
    moved_bytes: int
    peak_bytes: int

    @property
    def operations(self) -> int:
        """Products, functions and arithmetic together."""
        return self.products + self.functions + self.arithmetic

    @property
    def num_calls(self) -> int:
        """How many operators were called, views included."""
        return self.calls.total()


class Recorder(Counter):
    """A counter that also keeps what kind of work each operator was."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Tally[OperatorCall] = Tally()
        self.recorded_calls = 0

    def count(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        super().count(func, args, kwargs, output)
        self.calls[describe(func, args, kwargs, output)] += 1
        # Backward, and inside a function with a backward of its own, nothing is recorded.
        self.recorded_calls += torch.is_grad_enabled()


class PythonCalls(TorchFunctionMode):
    """Counts the calls of Python in which a recorder saw an operator; those within others are not."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder = recorder
        self.count = 0

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        before = self.recorder.calls.total()
        result = func(*args, **(kwargs or {}))
        self.count += self.recorder.calls.total() > before
        return result


def trace(workload: Workload, *, really: bool = False) -> Trace:
    """Record one run of the workload, on fake tensors if it can be done and unless `really`."""
    if not really:
        try:
            with FakeTensorMode(allow_non_fake_inputs=True):
                return _recorded(workload)
        except CANNOT_FAKE:
            pass
    return _recorded(workload)


def _recorded(workload: Workload) -> Trace:
    with torch.random.fork_rng(devices=[]):
        ready = workload.prepare()
    with Recorder() as recorder, PythonCalls(recorder) as python:
        ready()
    return Trace(
        name=workload.name,
        mode=workload.mode,
        calls=recorder.calls,
        recorded_calls=recorder.recorded_calls if workload.mode == "train" else 0,
        python_calls=python.count,
        products=recorder.products,
        functions=recorder.functions,
        arithmetic=recorder.arithmetic,
        moved_bytes=recorder.moved_bytes,
        peak_bytes=recorder.peak_bytes,
    )
