"""How long the texts of a corpus are, from how many there are of each length."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

MOST_BINS = 12
BAR_WIDTH = 40


class Bin(NamedTuple):
    """How many texts have a length from `low` to `high`, both included."""

    low: int
    high: int
    texts: int


@dataclass(frozen=True, kw_only=True)
class LengthSummary:
    """The usual figures of a distribution of lengths. Quantiles are lengths that occur."""

    minimum: int
    median: int
    mean: float
    quantile_95: int
    maximum: int
    histogram: tuple[Bin, ...]

    @classmethod
    def of(cls, counts: Counter[int]) -> Self:
        """The summary of `counts`: length → number of texts; there is at least one."""
        total = counts.total()
        return cls(
            minimum=min(counts),
            median=quantile(counts, share=0.5),
            mean=sum(length * count for length, count in counts.items()) / total,
            quantile_95=quantile(counts, share=0.95),
            maximum=max(counts),
            histogram=histogram(counts),
        )

    def as_json(self) -> dict[str, Any]:
        """The figures by name; the histogram as a list of [low, high, texts]."""
        return {
            "min": self.minimum,
            "median": self.median,
            "mean": self.mean,
            "quantile_95": self.quantile_95,
            "max": self.maximum,
            "histogram": [list(each) for each in self.histogram],
        }

    def bars(self) -> list[str]:
        """The histogram for a terminal, one line a bin.

        >>> print("\\n".join(LengthSummary.of(Counter({1: 2, 2: 4})).bars()))
        1  ████████████████████                      2
        2  ████████████████████████████████████████  4
        """
        labels = [
            f"{each.low}" if each.low == each.high else f"{each.low}–{each.high}"
            for each in self.histogram
        ]
        width = max(len(label) for label in labels)
        most = max(each.texts for each in self.histogram)
        return [
            f"{label:>{width}}  {bar(each.texts / most):<{BAR_WIDTH}}  {each.texts:,}"
            for label, each in zip(labels, self.histogram, strict=True)
        ]


def quantile(counts: Counter[int], *, share: float) -> int:
    """The smallest length that at least `share` of the texts do not exceed."""
    wanted = share * counts.total()
    seen = 0
    for length in sorted(counts):
        seen += counts[length]
        if seen >= wanted:
            return length
    return max(counts)


def histogram(counts: Counter[int]) -> tuple[Bin, ...]:
    """Equal bins up to the length 99 % do not exceed, and one bin for the few beyond it."""
    low, most, highest = min(counts), quantile(counts, share=0.99), max(counts)
    width = -(-(most - low + 1) // MOST_BINS)
    edges = [*range(low, most + 1, width)]
    last = edges[-1] + width - 1
    ends = [edge + width - 1 for edge in edges]
    if highest > last:
        edges.append(last + 1)
        ends.append(highest)
    ends[-1] = max(min(ends[-1], highest), edges[-1])
    return tuple(
        Bin(start, end, sum(count for length, count in counts.items() if start <= length <= end))
        for start, end in zip(edges, ends, strict=True)
    )


def bar(share: float) -> str:
    """A bar of blocks; anything above nothing shows at least a sliver."""
    eighths = max(round(share * BAR_WIDTH * 8), 1 if share else 0)
    return "█" * (eighths // 8) + ("", *"▏▎▍▌▋▊▉")[eighths % 8]
