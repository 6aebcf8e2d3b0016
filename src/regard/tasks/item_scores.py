"""What every task says about its scores: which there are, and how they come from single items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from regard.core.errors import RegardError
from regard.core.names import look_up
from regard.tasks.summed_scores import SummedMetric


class ItemScores:
    """The part of a task that is about scores; a task says `metrics` and `summed`."""

    # name of a score → whether a smaller one is better
    metrics: ClassVar[dict[str, bool]]
    # those of them that are a function of sums over items
    summed: ClassVar[dict[str, SummedMetric]] = {}

    @classmethod
    def item_statistics(
        cls, metric: str, predicted: Sequence[str], answers: Sequence[Sequence[str]]
    ) -> Float[np.ndarray, "items k"]:
        """What every item adds to the sums that `summed_metric(metric).score` turns into the metric."""
        statistics = cls.summed_metric(metric).statistics(predicted, answers)
        return np.array(statistics, dtype=np.float64)

    @classmethod
    def summed_metric(cls, metric: str) -> SummedMetric:
        """The metric as a function of sums over items; one that is none is an error."""
        look_up("metric", metric, cls.metrics)
        if metric not in cls.summed:
            raise RegardError(
                f"The metric '{metric}' is not a function of what was predicted, so it cannot be taken "
                f"item by item. Choose one of: {', '.join(cls.summed)}."
            )
        return cls.summed[metric]

    @classmethod
    def signatures(cls) -> dict[str, str]:
        """How those metrics are computed that have several definitions."""
        return {}
