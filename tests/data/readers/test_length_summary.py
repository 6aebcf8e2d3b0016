"""Figures of lengths that can be checked by counting on fingers."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from regard.data.readers.describe import Bin, LengthSummary, histogram, quantile


def test_figures_by_hand() -> None:
    summary = LengthSummary.of(Counter([1, 2, 2, 3, 7]))
    assert (summary.minimum, summary.median, summary.maximum) == (1, 2, 7)
    assert summary.mean == 3.0
    assert summary.quantile_95 == 7


def test_a_quantile_is_a_length_that_occurs() -> None:
    counts = Counter(range(1, 101))
    assert quantile(counts, share=0.95) == 95
    assert quantile(counts, share=0.5) == 50
    assert quantile(Counter({5: 1}), share=0.99) == 5


@pytest.mark.parametrize(
    "lengths",
    [[1], [3, 3], list(range(1, 13)), list(range(1, 14)), list(range(50)), [*range(300), 9_999]],
)
def test_bins_hold_every_length_once(lengths: list[int]) -> None:
    bins = histogram(Counter(lengths))
    assert sum(each.texts for each in bins) == len(lengths)
    assert bins[0].low == min(lengths)
    assert bins[-1].high == max(lengths)
    assert len(bins) <= 13
    for left, right in pairwise(bins):
        assert left.low <= left.high == right.low - 1


def test_one_long_text_does_not_flatten_the_histogram() -> None:
    bins = histogram(Counter([1, 2, 3, 4] * 100 + [5000]))
    assert bins == (Bin(1, 1, 100), Bin(2, 2, 100), Bin(3, 3, 100), Bin(4, 4, 100), Bin(5, 5000, 1))
