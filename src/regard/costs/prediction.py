"""Seconds and bytes of a traced run, from what its operators take on a calibrated machine."""

from __future__ import annotations

from collections import Counter as Tally
from dataclasses import dataclass

from regard.costs.calibration import Calibration
from regard.costs.operator_calls import OperatorCall
from regard.costs.trace import Trace


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What a run will take; `by_kind` says where its time goes."""

    seconds: float
    peak_bytes: int
    by_kind: dict[str, float]


def predict(trace: Trace, calibration: Calibration) -> Prediction:
    """Add up the times of the operators."""
    by_kind: Tally[str] = Tally()
    for call, times in trace.calls.items():
        by_kind[call.kind] += times * seconds_of(call, calibration)  # type: ignore[assignment]
    overhead = calibration.training_call_seconds if trace.trains else calibration.call_seconds
    by_kind["calls"] += trace.num_calls * overhead  # type: ignore[assignment]
    seconds = {kind: float(spent) for kind, spent in by_kind.most_common()}
    return Prediction(seconds=sum(seconds.values()), peak_bytes=trace.peak_bytes, by_kind=seconds)


def seconds_of(call: OperatorCall, calibration: Calibration) -> float:
    """What one operator takes."""
    if call.kind == "view":
        return calibration.view_seconds
    return calibration.tables[call.kind].at(call.sizes)
