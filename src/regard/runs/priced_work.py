"""What real work takes here, found by tracing it once; what is too large for that, from a part of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from regard.core.pair_batch import PairBatch
from regard.costs.calibration import Calibration
from regard.costs.prediction import predict
from regard.costs.trace import trace
from regard.costs.workload import Mode, Run, Workload


class WorkPrice(NamedTuple):
    """Predicted seconds, bytes at the peak beyond what was there before, and counted operations."""

    seconds: float
    peak_bytes: float
    operations: float


def price_of(run: Run, mode: Mode, calibration: Calibration) -> WorkPrice:
    """What one run takes. It is really run: batches ask for values, which fake tensors do not have."""
    traced = trace(Workload("planned", mode, lambda: run), really=True)
    predicted = predict(traced, calibration)
    return WorkPrice(predicted.seconds, float(traced.peak_bytes), float(traced.operations))


def price_by_rows(price: Callable[[int], WorkPrice], *, rows: int, most: int) -> WorkPrice:
    """The price of `rows` rows; beyond `most`, along the line through that many and half of them.

    Everything is linear in the rows: what does not depend on them, such as the optimiser, is its start.
    """
    if rows <= most or rows < 2:
        return price(rows)
    many = max(2, most)
    few = many // 2
    at_few, at_many = price(few), price(many)
    return WorkPrice(
        *(
            high + (high - low) / (many - few) * (rows - many)
            for low, high in zip(at_few, at_many, strict=True)
        )
    )


def mean_price(prices: list[WorkPrice]) -> WorkPrice:
    """The means of seconds and operations, and the largest peak."""
    seconds, peaks, operations = zip(*prices, strict=True)
    return WorkPrice(sum(seconds) / len(prices), max(peaks), sum(operations) / len(prices))


def first_rows(batch: PairBatch, rows: int) -> PairBatch:
    """So many rows of a batch, padded no longer than they need."""
    source, source_lengths, target, target_lengths = (tensor[:rows] for tensor in batch)
    return PairBatch(
        source=source[:, : int(source_lengths.max())],
        source_lengths=source_lengths,
        target=target[:, : int(target_lengths.max())],
        target_lengths=target_lengths,
    )


def middles(count: int, parts: int) -> list[int]:
    """The places in the middle of equal parts of `count` places; all of them if there are fewer.

    >>> middles(10, 2), middles(3, 6)
    ([2, 7], [0, 1, 2])
    """
    if count <= parts:
        return list(range(count))
    return [(2 * part + 1) * count // (2 * parts) for part in range(parts)]
