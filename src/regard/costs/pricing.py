"""The price of work at a length: counted, predicted, and for long sequences extended from shorter ones.

Mechanisms that go through a sequence block by block call thousands of operators at a few thousand
positions; tracing them would take longer than running. Their figures are polynomials of the length, of
degree 2 at most, beyond a few blocks: three shorter lengths give all of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from regard.costs.calibration import Calibration
from regard.costs.prediction import predict
from regard.costs.trace import trace
from regard.costs.workload import Workload

# Up to here, everything is traced as it is.
TRACED_LENGTH = 1024
# More calls than this are taken for a loop over blocks.
FEW_CALLS = 400


@dataclass(frozen=True, kw_only=True)
class Price:
    """What a run takes: counts, bytes, and seconds where the machine is calibrated."""

    products: float
    operations: float
    moved_bytes: float
    peak_bytes: float
    seconds: float | None

    def measures(self) -> tuple[float, ...]:
        """The figures in their order, without time."""
        return (self.products, self.operations, self.moved_bytes, self.peak_bytes)


def price(workload: Workload, calibration: Calibration | None) -> Price:
    """What one run takes."""
    traced = trace(workload)
    return Price(
        products=traced.products,
        operations=traced.operations,
        moved_bytes=traced.moved_bytes,
        peak_bytes=traced.peak_bytes,
        seconds=None if calibration is None else predict(traced, calibration).seconds,
    )


def price_at(
    make: Callable[[int], Workload], length: int, calibration: Calibration | None
) -> Price:
    """What a run at this length takes, whatever the length."""
    if length <= TRACED_LENGTH or trace(make(TRACED_LENGTH // 2)).num_calls < FEW_CALLS:
        return price(make(length), calibration)
    lengths = (TRACED_LENGTH // 4, TRACED_LENGTH // 2, TRACED_LENGTH)
    prices = [price(make(short), calibration) for short in lengths]
    products, operations, moved, peak = (
        _extended(lengths, figures, length)
        for figures in zip(*(each.measures() for each in prices), strict=True)
    )
    seconds = None
    if calibration is not None:
        seconds = _extended(lengths, tuple(each.seconds or 0.0 for each in prices), length)
    return Price(
        products=products,
        operations=operations,
        moved_bytes=moved,
        peak_bytes=peak,
        seconds=seconds,
    )


def _extended(lengths: tuple[int, ...], figures: tuple[float, ...], length: int) -> float:
    """The parabola through three points, at another; never less than a straight line back would be."""
    total = 0.0
    for place, (here, figure) in enumerate(zip(lengths, figures, strict=True)):
        share = 1.0
        for other_place, other in enumerate(lengths):
            if other_place != place:
                share *= (length - other) / (here - other)
        total += share * figure
    return max(total, figures[-1])
