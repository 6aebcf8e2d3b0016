"""The price of work at a length: counted, predicted, and for long sequences extended from shorter ones.

Mechanisms that go through a sequence block by block call thousands of operators at a few thousand
positions; tracing them would take longer than running. Their counts are polynomials of the length, of
degree 2 at most, beyond a few blocks: three shorter lengths give all of them. Their time goes on growing
with the operations as it did between the last two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from regard.costs.calibration import Calibration
from regard.costs.prediction import predict
from regard.costs.trace import Trace, trace
from regard.costs.workload import Workload

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
