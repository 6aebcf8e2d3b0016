"""What is in a file of pairs: rows, lengths, characters and words, repetitions, bad rows.

The file is read once, row by row. What is remembered grows with the number of different words and with
eight bytes of hash a row, not with the text.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from regard.data.readers.pairs import PairSource
from regard.data.readers.text_file import BadRows

# How long the texts of a corpus are, from how many there are of each length.


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


SHOWN = 10


@dataclass(frozen=True, kw_only=True)
class SideDescription:
    """One side of the pairs: its lengths, and what it is made of, most common first."""

    characters: LengthSummary
    words: LengthSummary
    distinct_characters: int
    distinct_words: int
    common_characters: tuple[tuple[str, int], ...]
    common_words: tuple[tuple[str, int], ...]

    def as_json(self) -> dict[str, Any]:
        """All figures by name."""
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
    """A file of pairs in figures. `repeated_pairs` counts rows whose pair stood there before."""

    name: str
    format: str
    rows: int
    distinct_sources: int
    repeated_pairs: int
    source: SideDescription
    target: SideDescription
    bad: BadRows

    def as_json(self) -> dict[str, Any]:
        """All figures by name."""
        return {
            "name": self.name,
            "format": self.format,
            "rows": self.rows,
            "distinct_sources": self.distinct_sources,
            "repeated_pairs": self.repeated_pairs,
            "source": self.source.as_json(),
            "target": self.target.as_json(),
            "bad_rows": self.bad.as_json(),
        }

    def as_text(self) -> str:
        """The figures for a terminal, with a histogram of lengths for each side."""
        sides = {"source": self.source, "target": self.target}
        lines = [
            f"{self.name} ({self.format})",
            "",
            f"rows              {self.rows:>10,}",
            f"distinct sources  {self.distinct_sources:>10,}",
            f"repeated pairs    {self.repeated_pairs:>10,}",
            f"bad rows          {self.bad.count:>10,}",
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
            many_words = side.words.maximum > 1
            unit = "words" if many_words else "characters"
            lines += [
                "",
                f"{name}: {counted(side.distinct_characters, 'character')}: "
                f"{shown(side.common_characters)}",
                f"{name}: {counted(side.distinct_words, 'word')}: {shown(side.common_words)}",
                "",
                f"{name} length in {unit}",
                *(side.words if many_words else side.characters).bars(),
            ]
        if self.bad.count:
            lines += ["", self.bad.summary()]
        return "\n".join(lines)


def describe_pairs(source: PairSource) -> Description:
    """Read a file of pairs and describe it; bad rows are counted, not refused."""
    bad = BadRows(skip=True)
    sides = (SideCount(), SideCount())
    rows = 0
    sources: set[int] = set()
    pairs: set[int] = set()
    for row in source.rows(bad=bad):
        rows += 1
        sources.add(hashed(row.source))
        pairs.add(hashed(f"{row.source}\0{row.target}"))
        for side, text in zip(sides, (row.source, row.target), strict=True):
            side.add(text)
    names = [source.path] if source.target_path is None else [source.path, source.target_path]
    return Description(
        name=", ".join(str(name) for name in names),
        format=source.format_name,
        rows=rows,
        distinct_sources=len(sources),
        repeated_pairs=rows - len(pairs),
        source=sides[0].described(),
        target=sides[1].described(),
        bad=bad,
    )


class SideCount:
    """What is counted of one side while it is read."""

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

    def described(self) -> SideDescription:
        """The counts, summed up."""
        return SideDescription(
            characters=LengthSummary.of(self.character_lengths),
            words=LengthSummary.of(self.word_lengths),
            distinct_characters=len(self.characters),
            distinct_words=len(self.words),
            common_characters=most_common(self.characters),
            common_words=most_common(self.words),
        )


def most_common(counts: Counter[str]) -> tuple[tuple[str, int], ...]:
    """The most frequent, equals in the order of their code points."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(ordered[:SHOWN])


def shown(common: tuple[tuple[str, int], ...]) -> str:
    """Tokens with their counts, in one line; a space shows as ␣."""
    return ", ".join(f"{'␣' if token == ' ' else token} {count:,}" for token, count in common)


def counted(number: int, thing: str) -> str:
    """A number of different things, such as "1 distinct word"."""
    return f"{number:,} distinct {thing}{'' if number == 1 else 's'}"


def hashed(text: str) -> int:
    """Eight bytes that stand for a text."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
