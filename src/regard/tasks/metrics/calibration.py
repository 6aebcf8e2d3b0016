"""Calibration: reliability diagram, expected calibration error (ECE), Brier score and log loss.

    of the predictions with about 80 % confidence, are 80 % correct?

From the confidence p of each prediction and whether it is correct (c = 1) or not (c = 0):

    expected calibration error   Σ over bins of n_bin / n · |accuracy − mean p|        (Guo et al. 2017)
    Brier score                  mean of (p − c)²                                      (Brier 1950)
    log loss                     mean of −c·ln p − (1 − c)·ln(1 − p), in nats

Bins have equal widths: bin m of M holds (m−1)/M < p ≤ m/M, the first also p = 0. ECE depends on the
number of bins, which is reported with it. Brier score and log loss are those of the binary event "the
prediction is correct", not of the whole distribution over labels. For the log loss alone, probabilities
are clipped to 2⁻⁵² from 0 and 1, since it is infinite for a confident mistake.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from jaxtyping import Bool, Float

from regard.core.errors import RegardError

BINS = 10
EPSILON = float(np.finfo(np.float64).eps)


class ReliabilityBin(NamedTuple):
    """The predictions with low < p ≤ high; the means are None in an empty bin."""

    low: float
    high: float
    items: int
    confidence: float | None
    accuracy: float | None


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Calibration of a classifier; `confidence` is the mean p, `accuracy` a fraction."""

    items: int
    confidence: float
    accuracy: float
    expected_calibration_error: float
    brier_score: float
    log_loss: float
    bins: tuple[ReliabilityBin, ...]

    @classmethod
    def of(
        cls,
        confidence: Float[np.ndarray, " items"],
        correct: Bool[np.ndarray, " items"],
        *,
        bins: int = BINS,
    ) -> Self:
        """From the confidence of each prediction, and whether it is correct."""
        _validate(confidence, bins=bins)
        p, hit = confidence.astype(np.float64), correct.astype(np.float64)
        # Compare with the edges, so that rounding does not move a probability of exactly 0.3.
        edges = np.arange(bins + 1) / bins
        number = np.clip(np.searchsorted(edges, p, side="left") - 1, 0, bins - 1)
        counts = np.bincount(number, minlength=bins)
        p_sums = np.bincount(number, weights=p, minlength=bins)
        hit_sums = np.bincount(number, weights=hit, minlength=bins)
        clipped = np.clip(p, EPSILON, 1 - EPSILON)
        return cls(
            items=len(p),
            confidence=float(p.mean()),
            accuracy=float(hit.mean()),
            # n_bin · |accuracy − mean p| is the difference of the sums.
            expected_calibration_error=float(np.abs(hit_sums - p_sums).sum() / len(p)),
            brier_score=float(np.square(p - hit).mean()),
            log_loss=float(-np.log(np.where(correct, clipped, 1 - clipped)).mean()),
            bins=tuple(
                ReliabilityBin(
                    low=float(edges[index]),
                    high=float(edges[index + 1]),
                    items=int(count),
                    confidence=float(p_sums[index] / count) if count else None,
                    accuracy=float(hit_sums[index] / count) if count else None,
                )
                for index, count in enumerate(counts)
            ),
        )

    def as_json(self) -> dict[str, Any]:
        """All fields as JSON values."""
        return {**asdict(self), "bins": [each._asdict() for each in self.bins]}

    def describe(self) -> str:
        """The results in one line."""
        kind = "overconfident" if self.confidence > self.accuracy else "underconfident"
        gap = 100 * abs(self.confidence - self.accuracy)
        return (
            f"mean confidence {100 * self.confidence:.1f} %, accuracy {100 * self.accuracy:.1f} %: "
            f"{gap:.1f} points {kind}; expected calibration error "
            f"{100 * self.expected_calibration_error:.1f} points ({len(self.bins)} equal bins), "
            f"Brier score {self.brier_score:.3f}, log loss {self.log_loss:.3f}"
        )


def _validate(confidence: Float[np.ndarray, " items"], *, bins: int) -> None:
    if bins < 1:
        raise RegardError(f"bins={bins}: the number of bins must be 1 or more.")
    if not len(confidence):
        raise RegardError("There is nothing to calibrate: no predictions. Give one or more.")
    outside = ~((confidence >= 0) & (confidence <= 1))
    if outside.any():
        item = int(outside.argmax())
        raise RegardError(
            f"Item {item} has the probability {confidence[item]}, which must be from 0 to 1. "
            "Give probabilities, not logits."
        )
