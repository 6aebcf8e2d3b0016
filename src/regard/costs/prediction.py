"""Seconds and bytes of a traced run, from what its operators take on a calibrated machine."""

from __future__ import annotations

from dataclasses import dataclass

from regard.costs.calibration import Calibration
from regard.costs.trace import Trace

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
