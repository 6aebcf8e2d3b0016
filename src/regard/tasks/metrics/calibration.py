"""Whether a model is as sure as it has reason to be.

    of the predictions made with about 80 % probability, are 80 % right?

From the probability p of each predicted label and whether it was right (r = 1) or not (r = 0):

    expected calibration error   Σ over bins of n_bin / n · |share right − mean p|     (Guo et al. 2017)
    Brier score                  mean of (p − r)²                                      (Brier 1950)
    log loss                     mean of −r·ln p − (1 − r)·ln(1 − p), in nats

Bins have equal widths: bin m of M holds (m−1)/M < p ≤ m/M, the first p = 0 too. The error depends on how
many there are, so that their number is always told with it. Brier score and log loss are those of one
event, "the prediction is right", not of the whole distribution over labels. The log loss of a model that is
wrong and entirely sure would be infinite: for it alone, probabilities are kept 2⁻⁵² away from 0 and 1.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from jaxtyping import Bool, Float

from regard.core.errors import RegardError

BINS = 10
LEAST = float(np.finfo(np.float64).eps)


class ReliabilityBin(NamedTuple):
    """The predictions with low < p ≤ high; of none there is no mean."""

    low: float
    high: float
    items: int
    confidence: float | None
    accuracy: float | None


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """What was found; `confidence` is the mean p, `accuracy` the share that is right."""

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
        right: Bool[np.ndarray, " items"],
        *,
        bins: int = BINS,
    ) -> Self:
        """From the probability of each predicted label, and whether it was the right one."""
        _require(confidence, bins=bins)
        sure, hit = confidence.astype(np.float64), right.astype(np.float64)
        # The edges are compared with, so that a probability of exactly 0.3 is not moved by rounding.
        edges = np.arange(bins + 1) / bins
        number = np.clip(np.searchsorted(edges, sure, side="left") - 1, 0, bins - 1)
        counts = np.bincount(number, minlength=bins)
        sure_sums = np.bincount(number, weights=sure, minlength=bins)
        hit_sums = np.bincount(number, weights=hit, minlength=bins)
        kept = np.clip(sure, LEAST, 1 - LEAST)
        return cls(
            items=len(sure),
            confidence=float(sure.mean()),
            accuracy=float(hit.mean()),
            # n_bin · |share − mean| is the difference of the sums.
            expected_calibration_error=float(np.abs(hit_sums - sure_sums).sum() / len(sure)),
            brier_score=float(np.square(sure - hit).mean()),
            log_loss=float(-np.log(np.where(right, kept, 1 - kept)).mean()),
            bins=tuple(
                ReliabilityBin(
                    low=float(edges[place]),
                    high=float(edges[place + 1]),
                    items=int(count),
                    confidence=float(sure_sums[place] / count) if count else None,
                    accuracy=float(hit_sums[place] / count) if count else None,
                )
                for place, count in enumerate(counts)
            ),
        )

    def as_json(self) -> dict[str, Any]:
        """Everything as a record keeps it."""
        return {**asdict(self), "bins": [each._asdict() for each in self.bins]}

    def describe(self) -> str:
        """What was found, in one line."""
        more = "more" if self.confidence > self.accuracy else "less"
        gap = 100 * abs(self.confidence - self.accuracy)
        return (
            f"{100 * self.confidence:.1f} % sure on average and {100 * self.accuracy:.1f} % right: "
            f"{gap:.1f} points {more} sure than right; expected calibration error "
            f"{100 * self.expected_calibration_error:.1f} points ({len(self.bins)} equal bins), "
            f"Brier score {self.brier_score:.3f}, log loss {self.log_loss:.3f}"
        )


def _require(confidence: Float[np.ndarray, " items"], *, bins: int) -> None:
    if bins < 1:
        raise RegardError(f"bins={bins}: probabilities are put into 1 bin or more.")
    if not len(confidence):
        raise RegardError("There is nothing to calibrate: no item was predicted. Give one or more.")
    outside = ~((confidence >= 0) & (confidence <= 1))
    if outside.any():
        place = int(outside.argmax())
        raise RegardError(
            f"Item {place} has {confidence[place]} as its probability, which must be from 0 to 1. "
            "Give probabilities, not logits."
        )
