"""How many texts each label has, and what that means for a score: told before training starts.

3 labels over 10 texts: 'a' is the commonest (60.0 %, the accuracy of always saying it), 'c' the
rarest (10.0 %), 6 times rarer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

from regard.core.errors import RegardError

# From this ratio on, accuracy alone says little about the rare labels.
UNEVEN = 3.0
EVEN = 1.05  # below it nobody would call one label rarer


@dataclass(frozen=True, kw_only=True)
class ClassBalance:
    """Labels and how many items each has, the commonest first; of equal ones the first in the alphabet."""

    counts: dict[str, int]

    @classmethod
    def of(cls, labels: Iterable[str]) -> Self:
        """From the label of every item."""
        found = Counter(labels)
        if not found:
            raise RegardError("There is nothing to balance: no item has a label. Give one or more.")
        return cls(counts=dict(sorted(found.items(), key=lambda item: (-item[1], item[0]))))

    @property
    def total(self) -> int:
        """How many items there are."""
        return sum(self.counts.values())

    @property
    def commonest(self) -> str:
        """The label that most items have."""
        return next(iter(self.counts))

    @property
    def rarest(self) -> str:
        """The label that fewest items have."""
        return next(reversed(self.counts))

    @property
    def commonest_share(self) -> float:
        """The accuracy of always saying the commonest label, in percent."""
        return 100 * self.counts[self.commonest] / self.total

    @property
    def imbalance_ratio(self) -> float:
        """How many items of the commonest label there are for one of the rarest."""
        return self.counts[self.commonest] / self.counts[self.rarest]

    def describe(self) -> str:
        """One sentence.

        >>> ClassBalance.of("aab").describe()[:57]
        "2 labels over 3 texts: 'a' is the commonest (66.7 %, the "
        """
        labels = f"{len(self.counts):,} labels over {self.total:,} texts"
        if len(self.counts) == 1:
            return f"1 label over {self.total:,} texts: '{self.commonest}', nothing to tell apart."
        if self.imbalance_ratio < EVEN:
            share = f"{self.commonest_share:.1f} %"
            equally = "equally" if self.imbalance_ratio == 1 else "about equally"
            return (
                f"{labels}, all {equally} common: always saying the same one is right in {share}."
            )
        rarest_share = 100 * self.counts[self.rarest] / self.total
        advice = "; look at macro-F1 beside accuracy" if self.imbalance_ratio >= UNEVEN else ""
        return (
            f"{labels}: '{self.commonest}' is the commonest ({self.commonest_share:.1f} %, the accuracy of "
            f"always saying it), '{self.rarest}' the rarest ({rarest_share:.1f} %), "
            f"{self.imbalance_ratio:.3g} times rarer{advice}."
        )

    def as_json(self) -> dict[str, Any]:
        """Everything as a record keeps it."""
        return {
            "counts": self.counts,
            "commonest": self.commonest,
            "commonest_share": self.commonest_share,
            "rarest": self.rarest,
            "imbalance_ratio": self.imbalance_ratio,
        }
