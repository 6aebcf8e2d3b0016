"""Metrics of predicted numbers: root mean squared error, mean absolute error, Pearson's r."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from regard.tasks.metrics.metric import Metric, RatioMetric, only

ROUNDING = 1e-12  # relative variance below this is rounding


def _numbers(values: Sequence[Any]) -> Float[np.ndarray, " items"]:
    return np.array([float(only(value)) for value in values])


class MAE(RatioMetric):
    """Mean absolute error.

    >>> MAE()([1.0, 4.0], [2.0, 2.0])
    1.5
    """

    name, lower_is_better, digits = "mae", True, 3
    power = 1

    def statistics(
        self, predictions: Sequence[Any], references: Sequence[Any]
    ) -> Float[np.ndarray, "items 2"]:
        errors = np.abs(_numbers(predictions) - _numbers(references)) ** self.power
        return np.stack([errors, np.ones_like(errors)], axis=1)


class RMSE(MAE):
    """Root mean squared error.

    >>> RMSE()([1.0, 9.0], [2.0, 2.0])
    5.0
    """

    name = "rmse"
    power = 2

    def score(self, sums: Float[np.ndarray, "*samples 2"]) -> Float[np.ndarray, "*samples"]:
        return np.asarray(np.sqrt(super().score(sums)))


class PearsonR(Metric):
    """Pearson's correlation of predictions and references; NaN if either is constant.

    >>> round(PearsonR()([1.0, 2.0, 3.0], [2.0, 4.0, 6.0]), 9)
    1.0
    """

    name, digits = "pearson_r", 3

    def statistics(
        self, predictions: Sequence[Any], references: Sequence[Any]
    ) -> Float[np.ndarray, "items 6"]:
        x, y = _numbers(predictions), _numbers(references)
        # Correlation does not depend on the origin; near the mean, squares lose no digits.
        x, y = x - y.mean(), y - y.mean()
        return np.stack([np.ones_like(x), x, y, x * x, y * y, x * y], axis=1)

    def score(self, sums: Float[np.ndarray, "*samples 6"]) -> Float[np.ndarray, "*samples"]:
        count, x, y, xx, yy, xy = np.moveaxis(sums, -1, 0)
        of_x, of_y = count * xx - x * x, count * yy - y * y
        defined = (of_x > ROUNDING * count * xx) & (of_y > ROUNDING * count * yy)
        scale = np.sqrt(np.where(defined, of_x * of_y, 1.0))
        return np.where(defined, (count * xy - x * y) / scale, np.nan)
