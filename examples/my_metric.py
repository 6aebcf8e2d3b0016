"""Length error: how many words the prediction is longer or shorter than the nearest reference, on average.

    regard train translate --train-file pairs.tsv --plugin examples/my_metric.py:LengthError \
        --set "task.metrics=['length_error']"
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regard.tasks.metrics import Metric


class LengthError(Metric):
    """Mean absolute difference of the lengths in words; 0 is best."""

    name = "length_error"
    unit = "words"
    lower_is_better = True

    def statistics(
        self, predictions: Sequence[str], references: Sequence[Sequence[str]]
    ) -> np.ndarray:
        rows = [
            (min(abs(len(text.split()) - len(right.split())) for right in correct), 1)
            for text, correct in zip(predictions, references, strict=True)
        ]
        return np.array(rows, dtype=np.float64)

    def score(self, sums: np.ndarray) -> np.ndarray:
        return sums[..., 0] / sums[..., 1]
