"""Seconds and bytes of a traced run, from what its operators take on a calibrated machine."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from regard.costs.calibration import Calibration
from regard.costs.trace import Trace, Workload, trace

CALLS = "calls"


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What a run will take; `by_kind` says where its time goes, most first."""

    seconds: float
    peak_bytes: int
    by_kind: dict[str, float]


def predict(trace: Trace, calibration: Calibration) -> Prediction:
    """Add up the times of the operators, and what calling them takes."""
    by_kind = calibration.by_kind(trace)
    by_kind[CALLS] = by_kind.pop("view")
    ordered = sorted(by_kind.items(), key=lambda item: -item[1])
    return Prediction(
        seconds=sum(by_kind.values()), peak_bytes=trace.peak_bytes, by_kind=dict(ordered)
    )


# The price of work at a length: counted, predicted, and for long sequences extended from shorter
# ones.
#
# Mechanisms that go through a sequence block by block call thousands of operators at a few thousand
# positions; tracing them would take longer than running. Their counts are polynomials of the
# length, of degree 2 at most, beyond a few blocks: three shorter lengths give all of them. Their
# time goes on growing with the operations as it did between the last two.


# Up to here, everything is traced as it is.
TRACED_LENGTH = 1024
# This many calls at half that length are taken for a loop over blocks.
MANY_CALLS = 400


@dataclass(frozen=True, kw_only=True)
class Price:
    """What a run takes: counts, bytes, and seconds where the machine is calibrated."""

    products: float
    operations: float
    moved_bytes: float
    peak_bytes: float
    seconds: float | None


class PriceByLength:
    """Prices of the same work at any length; no length is traced twice."""

    def __init__(self, make: Callable[[int], Workload], calibration: Calibration | None) -> None:
        self.make = make
        self.calibration = calibration
        self._traces: dict[int, Trace] = {}
        self._prices: dict[int, Price] = {}

    def at(self, length: int) -> Price:
        """What a run at this length takes."""
        if length not in self._prices:
            long = length > TRACED_LENGTH and self._is_loop()
            self._prices[length] = self._extended(length) if long else self._traced(length)
        return self._prices[length]

    def _is_loop(self) -> bool:
        return self._trace(TRACED_LENGTH // 2).num_calls >= MANY_CALLS

    def _trace(self, length: int) -> Trace:
        if length not in self._traces:
            self._traces[length] = trace(self.make(length))
        return self._traces[length]

    def _traced(self, length: int) -> Price:
        return price_of(self._trace(length), self.calibration)

    def _extended(self, length: int) -> Price:
        lengths = (TRACED_LENGTH // 4, TRACED_LENGTH // 2, TRACED_LENGTH)
        short = [self._traced(each) for each in lengths]
        counts = {
            name: max(
                parabola(lengths, tuple(getattr(each, name) for each in short), length),
                getattr(short[-1], name),
            )
            for name in ("products", "operations", "moved_bytes", "peak_bytes")
        }
        seconds = None
        if self.calibration is not None:
            operations = tuple(each.operations for each in short)
            times = tuple(each.seconds or 0.0 for each in short)
            seconds = extended_time(operations, times, counts["operations"])
        return Price(**counts, seconds=seconds)


def price(workload: Workload, calibration: Calibration | None) -> Price:
    """What one run takes."""
    return price_of(trace(workload), calibration)


def price_of(traced: Trace, calibration: Calibration | None) -> Price:
    """What a traced run takes."""
    return Price(
        products=float(traced.products),
        operations=float(traced.operations),
        moved_bytes=float(traced.moved_bytes),
        peak_bytes=float(traced.peak_bytes),
        seconds=None if calibration is None else predict(traced, calibration).seconds,
    )


def price_at(
    make: Callable[[int], Workload], length: int, calibration: Calibration | None
) -> Price:
    """What a run at this length takes, whatever the length."""
    return PriceByLength(make, calibration).at(length)


def parabola(lengths: tuple[int, ...], figures: tuple[float, ...], length: int) -> float:
    """The parabola through three points, at another."""
    total = 0.0
    for place, (here, figure) in enumerate(zip(lengths, figures, strict=True)):
        share = 1.0
        for other_place, other in enumerate(lengths):
            if other_place != place:
                share *= (length - other) / (here - other)
        total += share * figure
    return total


def extended_time(
    operations: tuple[float, ...], seconds: tuple[float, ...], more_operations: float
) -> float:
    """The time of more operations, at what the last ones took; it never falls."""
    rate = (seconds[-1] - seconds[-2]) / (operations[-1] - operations[-2])
    return seconds[-1] + max(0.0, rate) * (more_operations - operations[-1])


# From which length on one kind of work is quicker than another.


# Half an octave apart but for the last: in the logarithms times are nearly straight in between.
LENGTHS = (32, 45, 64, 91, 128, 181, 256, 362, 512, 724, 1024, 1448, 2048, 2896, 4096, 8192)


def crossover(
    slower_later: Callable[[int], float],
    quicker_later: Callable[[int], float],
    lengths: Sequence[int] = LENGTHS,
) -> int | None:
    """The length from which the second is quicker for good; None if it is not within these lengths.

    If it is the quicker already at the shortest, that one is the answer.
    """
    ratios = [slower_later(length) / quicker_later(length) for length in lengths]
    if ratios[-1] < 1:
        return None
    last = max((place for place, ratio in enumerate(ratios) if ratio < 1), default=None)
    if last is None:
        return lengths[0]
    low, high = lengths[last], lengths[last + 1]
    share = math.log(1 / ratios[last]) / math.log(ratios[last + 1] / ratios[last])
    return round(low * (high / low) ** share)
