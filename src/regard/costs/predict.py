"""Predict time and memory of a workload from its trace and the machine's calibration.

`EstimateByLength` estimates a workload at any sequence length. Mechanisms that loop over chunks call
thousands of operators on long sequences, and tracing would take longer than running: their counts are
extrapolated as quadratic polynomials through three shorter lengths, and time along with the FLOPs.
`crossover` finds the length from which one workload costs less than another.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from regard.costs.calibration import Calibration
from regard.costs.trace import Trace, Workload, trace

CALLS = "calls"


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """Predicted time and peak memory of a run; `by_kind` is the time by operator kind, longest first."""

    seconds: float
    peak_bytes: int
    by_kind: dict[str, float]


def predict(trace: Trace, calibration: Calibration) -> Prediction:
    """Sum the times of the operators and the call overheads."""
    by_kind = calibration.by_kind(trace)
    by_kind[CALLS] = by_kind.pop("view")
    ordered = sorted(by_kind.items(), key=lambda item: -item[1])
    return Prediction(
        seconds=sum(by_kind.values()), peak_bytes=trace.peak_bytes, by_kind=dict(ordered)
    )


TRACED_LENGTH = 1024
# A workload with this many operator calls at half that length is a loop over chunks.
MANY_CALLS = 400


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Estimated FLOPs, memory traffic and peak memory of a run; `seconds` is None without a calibration."""

    matmul_flops: float
    flops: float
    traffic_bytes: float
    peak_bytes: float
    seconds: float | None


class EstimateByLength:
    """Estimates of one workload at any sequence length. Traces are cached.

    Up to `traced_length`, every workload is traced.
    """

    def __init__(
        self,
        make: Callable[[int], Workload],
        calibration: Calibration | None,
        *,
        traced_length: int = TRACED_LENGTH,
    ) -> None:
        self.make = make
        self.calibration = calibration
        self.traced_length = traced_length
        self._traces: dict[int, Trace] = {}
        self._estimates: dict[int, Estimate] = {}

    def at(self, length: int) -> Estimate:
        """Estimate a run at this length."""
        if length not in self._estimates:
            extrapolate = length > self.traced_length and self._is_loop()
            self._estimates[length] = (
                self._extrapolated(length) if extrapolate else self._traced(length)
            )
        return self._estimates[length]

    def _is_loop(self) -> bool:
        return self._trace(self.traced_length // 2).num_calls >= MANY_CALLS

    def _trace(self, length: int) -> Trace:
        if length not in self._traces:
            self._traces[length] = trace(self.make(length))
        return self._traces[length]

    def _traced(self, length: int) -> Estimate:
        return estimate_trace(self._trace(length), self.calibration)

    def _extrapolated(self, length: int) -> Estimate:
        lengths = (self.traced_length // 4, self.traced_length // 2, self.traced_length)
        short = [self._traced(each) for each in lengths]
        counts = {
            name: max(
                quadratic(lengths, tuple(getattr(each, name) for each in short), length),
                getattr(short[-1], name),
            )
            for name in ("matmul_flops", "flops", "traffic_bytes", "peak_bytes")
        }
        seconds = None
        if self.calibration is not None:
            flops = tuple(each.flops for each in short)
            times = tuple(each.seconds or 0.0 for each in short)
            seconds = extrapolated_time(flops, times, counts["flops"])
        return Estimate(**counts, seconds=seconds)


def estimate(workload: Workload, calibration: Calibration | None) -> Estimate:
    """Estimate one run."""
    return estimate_trace(trace(workload), calibration)


def estimate_trace(traced: Trace, calibration: Calibration | None) -> Estimate:
    """Estimate a traced run."""
    return Estimate(
        matmul_flops=float(traced.matmul_flops),
        flops=float(traced.flops),
        traffic_bytes=float(traced.traffic_bytes),
        peak_bytes=float(traced.peak_bytes),
        seconds=None if calibration is None else predict(traced, calibration).seconds,
    )


def quadratic(lengths: tuple[int, ...], values: tuple[float, ...], length: int) -> float:
    """Evaluate the quadratic polynomial through three points."""
    total = 0.0
    for i, (here, value) in enumerate(zip(lengths, values, strict=True)):
        weight = 1.0
        for j, other in enumerate(lengths):
            if j != i:
                weight *= (length - other) / (here - other)
        total += weight * value
    return total


def extrapolated_time(
    flops: tuple[float, ...], seconds: tuple[float, ...], more_flops: float
) -> float:
    """Linear extrapolation by FLOPs from the last two points; never decreasing."""
    rate = (seconds[-1] - seconds[-2]) / (flops[-1] - flops[-2])
    return seconds[-1] + max(0.0, rate) * (more_flops - flops[-1])


# Half an octave apart except for the last: log time is nearly linear in log length in between.
LENGTHS = (32, 45, 64, 91, 128, 181, 256, 362, 512, 724, 1024, 1448, 2048, 2896, 4096, 8192)


def crossover(
    baseline: Callable[[int], float],
    candidate: Callable[[int], float],
    lengths: Sequence[int] = LENGTHS,
) -> int | None:
    """The length from which the candidate costs less than the baseline up to the longest; None if none.

    The shortest length if the candidate costs less everywhere.
    """
    cheaper: tuple[int, float] | None = None  # the shortest length so far, and its ratio
    for length in reversed(lengths):  # the longest first: often few have to be estimated
        ratio = baseline(length) / candidate(length)
        if ratio < 1:
            if cheaper is None:
                return None
            longer, above = cheaper
            share = math.log(1 / ratio) / math.log(above / ratio)
            return round(length * (longer / length) ** share)
        cheaper = (length, ratio)
    return lengths[0]
