"""Descriptive statistics of a file of pairs: lengths, histograms, tokens, duplicates, row errors.

The file is streamed. Memory grows with the number of distinct words and eight bytes of hash per row.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from regard.data.readers.pairs import PairSource
from regard.data.readers.text_file import RowErrors

MAX_BINS = 12
BAR_WIDTH = 40
MOST_COMMON = 10


class Bin(NamedTuple):
    """Number of texts with a length from `low` to `high`, both included."""

    low: int
    high: int
    texts: int


@dataclass(frozen=True, kw_only=True)
class LengthSummary:
    """Summary statistics of a distribution of lengths; quantiles are lengths that occur."""

    minimum: int
    median: int
    mean: float
    quantile_95: int
    maximum: int
    histogram: tuple[Bin, ...]

    @classmethod
    def of(cls, counts: Counter[int]) -> Self:
        """From a non-empty mapping of length → number of texts."""
        total = counts.total()
        return cls(
            minimum=min(counts),
            median=quantile(counts, fraction=0.5),
            mean=sum(length * count for length, count in counts.items()) / total,
            quantile_95=quantile(counts, fraction=0.95),
            maximum=max(counts),
            histogram=histogram(counts),
        )

    def as_json(self) -> dict[str, Any]:
        """The statistics by name; the histogram as a list of [low, high, texts]."""
        return {
            "min": self.minimum,
            "median": self.median,
            "mean": self.mean,
            "quantile_95": self.quantile_95,
            "max": self.maximum,
            "histogram": [list(each) for each in self.histogram],
        }

    def bars(self) -> list[str]:
        """The histogram for a terminal, one line per bin.

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


def quantile(counts: Counter[int], *, fraction: float) -> int:
    """The smallest length that at least `fraction` of the texts do not exceed."""
    target = fraction * counts.total()
    cumulative = 0
    for length in sorted(counts):
        cumulative += counts[length]
        if cumulative >= target:
            return length
    return max(counts)


def histogram(counts: Counter[int]) -> tuple[Bin, ...]:
    """Equal bins up to the 99 % quantile, and one bin beyond it."""
    low, most, highest = min(counts), quantile(counts, fraction=0.99), max(counts)
    width = -(-(most - low + 1) // MAX_BINS)
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


def bar(fraction: float) -> str:
    """A bar of block characters; never empty for a positive fraction."""
    eighths = max(round(fraction * BAR_WIDTH * 8), 1 if fraction else 0)
    return "█" * (eighths // 8) + ("", *"▏▎▍▌▋▊▉")[eighths % 8]


@dataclass(frozen=True, kw_only=True)
class SideDescription:
    """Sources or targets: lengths, and the most common characters and words."""

    characters: LengthSummary
    words: LengthSummary
    distinct_characters: int
    distinct_words: int
    common_characters: tuple[tuple[str, int], ...]
    common_words: tuple[tuple[str, int], ...]

    def as_json(self) -> dict[str, Any]:
        """All statistics by name."""
        return {
            "characters": self.characters.as_json(),
            "words": self.words.as_json(),
            "distinct_characters": self.distinct_characters,
            "distinct_words": self.distinct_words,
            "common_characters": [list(pair) for pair in self.common_characters],
            "common_words": [list(pair) for pair in self.common_words],
        }


@dataclass(frozen=True, kw_only=True)
class Description:
    """Statistics of a file of pairs. `duplicate_pairs` counts rows whose pair occurred before."""

    name: str
    format: str
    rows: int
    distinct_sources: int
    duplicate_pairs: int
    source: SideDescription
    target: SideDescription
    errors: RowErrors

    def as_json(self) -> dict[str, Any]:
        """All statistics by name."""
        return {
            "name": self.name,
            "format": self.format,
            "rows": self.rows,
            "distinct_sources": self.distinct_sources,
            "duplicate_pairs": self.duplicate_pairs,
            "source": self.source.as_json(),
            "target": self.target.as_json(),
            "row_errors": self.errors.as_json(),
        }

    def as_text(self) -> str:
        """The statistics for a terminal, with a histogram of lengths for each side."""
        sides = {"source": self.source, "target": self.target}
        lines = [
            f"{self.name} ({self.format})",
            "",
            f"rows              {self.rows:>10,}",
            f"distinct sources  {self.distinct_sources:>10,}",
            f"duplicate pairs   {self.duplicate_pairs:>10,}",
            f"bad rows          {self.errors.count:>10,}",
            "",
            f"{'length':<18}{'min':>8}{'median':>8}{'mean':>8}{'95 %':>8}{'max':>8}",
        ]
        for name, side in sides.items():
            for unit, figures in (("characters", side.characters), ("words", side.words)):
                lines.append(
                    f"{name + ' ' + unit:<18}{figures.minimum:>8,}{figures.median:>8,}"
                    f"{figures.mean:>8.1f}{figures.quantile_95:>8,}{figures.maximum:>8,}"
                )
        for name, side in sides.items():
            multi_word = side.words.maximum > 1
            unit = "words" if multi_word else "characters"
            lines += [
                "",
                f"{name}: {distinct(side.distinct_characters, 'character')}: "
                f"{format_counts(side.common_characters)}",
                f"{name}: {distinct(side.distinct_words, 'word')}: {format_counts(side.common_words)}",
                "",
                f"{name} length in {unit}",
                *(side.words if multi_word else side.characters).bars(),
            ]
        if self.errors.count:
            lines += ["", self.errors.summary()]
        return "\n".join(lines)


def describe_pairs(source: PairSource) -> Description:
    """Describe a file of pairs; row errors are counted and do not raise."""
    errors = RowErrors(skip=True)
    sides = (SideCounts(), SideCounts())
    rows = 0
    sources: set[int] = set()
    pairs: set[int] = set()
    for row in source.rows(errors=errors):
        rows += 1
        sources.add(hash64(row.source))
        pairs.add(hash64(f"{row.source}\0{row.target}"))
        for side, text in zip(sides, (row.source, row.target), strict=True):
            side.add(text)
    names = [source.path] if source.target_path is None else [source.path, source.target_path]
    return Description(
        name=", ".join(str(name) for name in names),
        format=source.format_name,
        rows=rows,
        distinct_sources=len(sources),
        duplicate_pairs=rows - len(pairs),
        source=sides[0].describe(),
        target=sides[1].describe(),
        errors=errors,
    )


class SideCounts:
    """Counts of one side."""

    def __init__(self) -> None:
        self.character_lengths: Counter[int] = Counter()
        self.word_lengths: Counter[int] = Counter()
        self.characters: Counter[str] = Counter()
        self.words: Counter[str] = Counter()

    def add(self, text: str) -> None:
        """Count one text."""
        words = text.split()
        self.character_lengths[len(text)] += 1
        self.word_lengths[len(words)] += 1
        self.characters.update(text)
        self.words.update(words)

    def describe(self) -> SideDescription:
        """The statistics of these counts."""
        return SideDescription(
            characters=LengthSummary.of(self.character_lengths),
            words=LengthSummary.of(self.word_lengths),
            distinct_characters=len(self.characters),
            distinct_words=len(self.words),
            common_characters=most_common(self.characters),
            common_words=most_common(self.words),
        )


def most_common(counts: Counter[str]) -> tuple[tuple[str, int], ...]:
    """The most frequent, ties by code point."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(ordered[:MOST_COMMON])


def format_counts(common: tuple[tuple[str, int], ...]) -> str:
    """Tokens with their counts in one line; a space shows as ␣."""
    return ", ".join(f"{'␣' if token == ' ' else token} {count:,}" for token, count in common)


def distinct(number: int, thing: str) -> str:
    """Such as "1 distinct word"."""
    return f"{number:,} distinct {thing}{'' if number == 1 else 's'}"


def hash64(text: str) -> int:
    """A 64-bit hash of a text."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
