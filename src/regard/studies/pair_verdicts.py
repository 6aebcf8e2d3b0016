"""Comparisons as the records that a page shows."""

from __future__ import annotations

from regard.core.study_record import PairVerdict
from regard.studies.item_comparison import ItemComparison
from regard.studies.seed_comparison import SeedComparison


def seed_verdicts(comparison: SeedComparison) -> list[PairVerdict]:
    """Every pair of methods."""
    return [
        PairVerdict(
            holds_for="method",
            first=pair.first,
            second=pair.second,
            difference=pair.difference,
            low=pair.interval.low if pair.interval else None,
            high=pair.interval.high if pair.interval else None,
            adjusted_p=pair.holm_p,
            detectable=pair.detectable,
            verdict=pair.verdict,
            words=pair.in_words(),
        )
        for pair in comparison.pairs
    ]


def item_verdicts(comparison: ItemComparison) -> list[PairVerdict]:
    """Every pair of sets of models."""
    return [
        PairVerdict(
            holds_for="models",
            first=pair.first,
            second=pair.second,
            difference=pair.difference,
            low=pair.interval.low if pair.interval else None,
            high=pair.interval.high if pair.interval else None,
            adjusted_p=pair.holm_p,
            detectable=None,
            verdict=pair.verdict,
            words=pair.in_words(),
        )
        for pair in comparison.pairs
    ]
