"""Statistics of several runs are put together whatever labels each of them said."""

from __future__ import annotations

import pytest

from regard.runs.folder import Predictions
from regard.studies.study import _on_items
from regard.tasks.classification.task import Classify

ANSWERS = ["a", "a", "b", "b"]


def said(labels: str) -> Predictions:
    return Predictions(
        sources=tuple("1234"),
        predicted=tuple(labels),
        answers=tuple((label,) for label in ANSWERS),
    )


def test_labels_that_only_some_runs_say() -> None:
    """c is said by one run of the first variant, d by one of the second; no text is of either."""
    predictions = {"first": [said("aabb"), said("aacb")], "second": [said("abdb"), said("aabb")]}
    found = _on_items(predictions, Classify, "macro_f1", lower_is_better=False)
    assert found is not None
    scores = {variant.variant: variant.score for variant in found.variants}
    # Two seeds together. a: 4 of 4 said and wanted; b: 3 of 3 said, 4 wanted; c: said in vain.
    assert scores["first"] == pytest.approx(100 * (1 + 6 / 7 + 0) / 3)
    # a: 3 of 3 said, 4 wanted; b: 3 of 4 said, 4 wanted; d: said in vain.
    assert scores["second"] == pytest.approx(100 * (6 / 7 + 6 / 8 + 0) / 3)
