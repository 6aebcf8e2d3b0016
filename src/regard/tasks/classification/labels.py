"""How many texts each label has, and what that means for a score: told before training starts.

3 labels over 10 texts: 'a' is the commonest (60.0 %, the accuracy of always saying it), 'c' the
rarest (10.0 %), 6 times rarer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from regard.core.errors import RegardError
from regard.data.readers.labelled import LabelledRow
from regard.data.readers.text_file import BadRows

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


# Labels that cannot be learned, and what is said of them: too few, one for every text, or only in a
# part that is held out.


# From so many texts on, so large a share of labels that come once cannot be meant.
FEWEST_TEXTS = 10
OWN_SHARE = 0.9
# Labels of so many words in the mean are texts, if half of them differ.
WORDS_OF_A_TEXT = 5
LONGEST_SHOWN = 40
MOST_SHOWN = 5


def require_labels(labels: Collection[str], path: Path) -> None:
    """Refuse data in which there is nothing to tell apart."""
    if len(labels) < 2:
        count = "1 label" if len(labels) == 1 else "no labels"
        raise RegardError(
            f"'{path}' has {count} in the part that is learned from, but two or more are to "
            "be told apart. Check the columns (--source-column, --target-column) and the format."
        )


def require_repeated(counts: Counter[str], path: Path) -> None:
    """Refuse labels that are texts, or numbers of rows: almost every one of them comes once."""
    texts = counts.total()
    if texts < FEWEST_TEXTS:
        return
    words = sum(len(label.split()) * count for label, count in counts.items()) / texts
    are_texts = words >= WORDS_OF_A_TEXT and len(counts) > texts / 2
    if len(counts) >= OWN_SHARE * texts or are_texts:
        raise RegardError(
            f"The {texts:,} texts of '{path}' that are learned from have {len(counts):,} different labels, "
            f"such as '{short_label(next(iter(counts)))}': the label column looks like texts, or like "
            "numbers of rows. Say where the label stands with --target-column, and the text with "
            "--source-column."
        )


def known_rows(
    rows: Iterator[LabelledRow],
    known: Collection[str],
    *,
    path: Path,
    bad: BadRows,
    hint: str,
    required: bool = True,
) -> Iterator[LabelledRow]:
    """The rows whose label is learned; the others are bad ones, and `hint` says what helps.

    If all are bad, that is an error, also where bad rows are left out, unless a row is not `required`.
    """
    found, unknown = False, ""
    for row in rows:
        if row.label in known:
            found = True
            yield row
        else:
            unknown = unknown or short_label(row.label)
            reason = (
                f"unknown label: '{short_label(row.label)}' is not in the part that is learned from"
            )
            bad.report(path=path, line=row.line, reason=reason, hint=hint)
    if unknown and not found and required:
        raise RegardError(
            f"No text that is held out of '{path}' has a label that is learned; the first has '{unknown}'. "
            f"{hint}."
        )


def unknown_labels_note(right: Sequence[str], known: Collection[str]) -> str:
    """A line about texts whose right label the model never learned; empty where there is none.

    >>> unknown_labels_note(["meh", "good"], ["bad", "good"])[:59]
    '1 of 2 texts has a label that the model never learned: meh;'
    """
    unknown = Counter(label for label in right if label not in known)
    if not unknown:
        return ""
    count = unknown.total()
    have = "has a label" if count == 1 else "have labels"
    named = [short_label(label) for label, _ in unknown.most_common(MOST_SHOWN)]
    if len(unknown) > MOST_SHOWN:
        named.append(f"and {len(unknown) - MOST_SHOWN:,} more")
    return (
        f"{count:,} of {len(right):,} texts {have} that the model never learned: {', '.join(named)}; "
        "they count as wrong, and have no loss"
    )


def short_label(label: str) -> str:
    """A label as a message shows it, which is not long even if a text was taken for it.

    >>> short_label("Story tedious story, and no end of it at all")
    'Story tedious story, and no end of it a…'
    """
    return label if len(label) <= LONGEST_SHOWN else f"{label[: LONGEST_SHOWN - 1]}…"
