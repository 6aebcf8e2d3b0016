"""Comparisons as the records that a page shows."""

from __future__ import annotations

from regard.core.study_record import PairVerdict
from regard.studies.item_comparison import ItemComparison
from regard.studies.seed_comparison import SeedComparison, SeedPair


def seed_verdicts(comparison: SeedComparison) -> list[PairVerdict]:
    """Every pair of methods; where no claim may be made there is no interval that would read as one."""
    return [
        PairVerdict(
            holds_for="method",
            first=pair.first,
            second=pair.second,
            difference=pair.difference,
            low=pair.interval.low if pair.interval and _claims(pair) else None,
            high=pair.interval.high if pair.interval and _claims(pair) else None,
            adjusted_p=pair.holm_p,
            detectable=pair.detectable if _claims(pair) else None,
            verdict=pair.verdict,
            words=pair.in_words(),
        )
        for pair in comparison.pairs
    ]


def _claims(pair: SeedPair) -> bool:
    return pair.verdict != "these runs only"


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
