"""The files of the task `classify`, read and cut into what is learned from and what is held out.

What is learned from is streamed twice: once for the vocabulary and the labels, once for the tokens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from regard.core.errors import RegardError
from regard.data.bad_rows import BadRows
from regard.data.labelled_rows import LabelledRow
from regard.tasks.class_balance import ClassBalance
from regard.tasks.classify_options import ClassifyOptions
from regard.tasks.classify_rows import Cut, Rows, training_rows
from regard.tasks.held_out import HeldOut, held_out_facts
from regard.tasks.labelled_sources import Source, source_of
from regard.tasks.learned_too import LearnedToo, learned_too_words
from regard.tasks.text_parts import RowSource, part_rows
from regard.tasks.text_vocabularies import TextVocabularies


@dataclass(frozen=True, kw_only=True)
class ClassifyCorpus:
    """Everything read from the files of the task."""

    vocabularies: TextVocabularies
    train: Rows
    dev: HeldOut
    test: HeldOut
    # How many texts of each held-out part stand in the training part too.
    learned_too: dict[str, int]
    # What must be known of where the texts come from.
    notice: str
    cut: Cut
    max_length: int
    bad: BadRows

    @classmethod
    def read(
        cls,
        options: ClassifyOptions,
        *,
        texts: Source,
        vocabularies: TextVocabularies | None = None,
    ) -> Self:
        """Read the files; known `vocabularies` are used again, those of an encoder without labels too."""
        bad = BadRows(skip=options.skip_bad_rows)
        first = bad
        if vocabularies is None or not vocabularies.labels:
            labels: Counter[str] = Counter()
            rows = _counted(part_rows(texts, options, "train", bad), labels)
            if vocabularies is None:
                vocabularies = TextVocabularies.build(
                    options,
                    kind=options.tokens,
                    texts=(row.text for row in rows),
                    min_count=options.min_count,
                )
            for _ in rows:  # whatever was not read for the vocabulary
                pass
            vocabularies = TextVocabularies(text=vocabularies.text, labels=tuple(sorted(labels)))
            first = BadRows(skip=True)  # every later pass meets the same bad rows again
        require_labels(vocabularies.labels, texts.path)
        known = set(vocabularies.labels)
        held_out = {
            part: held_out_texts(_held_out_rows(texts, options, part, bad, known=known))
            for part in ("dev", "test")
        }
        seen = LearnedToo[Any](held_out, lowercase=options.lowercase, text_of=lambda row: row.text)
        rows = part_rows(texts, options, "train", first)
        fitting = _known_rows(rows, known, path=texts.path, bad=bad)
        train, cut = training_rows(seen.watch(fitting), options, vocabularies)
        return cls(
            vocabularies=vocabularies,
            train=train,
            dev=held_out["dev"],
            test=held_out["test"],
            learned_too=seen.counts(),
            notice=getattr(texts, "notice", ""),
            cut=cut,
            max_length=options.max_length,
            bad=bad,
        )

    def facts(self) -> dict[str, Any]:
        """How much there is of each part, and a fingerprint that shows any later change."""
        return {
            "train_texts": len(self.train),
            "train_fingerprint": self.train.fingerprint(),
            **held_out_facts(self.dev, self.test),
            "label_balance": self.balance().as_json(),
            "cut_texts": self.cut.texts,
            "cut_tokens": self.cut.tokens,
            "held_out_sources_in_train": self.learned_too,
            "bad_rows": self.bad.count,
        }

    def describe(self) -> str:
        """How much there is, in one line."""
        return (
            f"{len(self.train):,} texts to learn from, {len(self.dev):,} to develop on, "
            f"{len(self.test):,} to test on; vocabulary of {self.vocabularies.text.size:,}"
            + self.cut.words(self.max_length)
            + learned_too_words(self.learned_too, "texts")
            + f". {self.balance().describe()} {self.notice}".rstrip(" .")
        )

    def balance(self) -> ClassBalance:
        """How many texts of each label are learned from."""
        return ClassBalance.of(self.vocabularies.labels[number] for number in self.train.labels)


def held_out_texts(rows: Iterator[LabelledRow]) -> HeldOut:
    """Texts and the label of each."""
    return HeldOut.of(((row.text, row.label) for row in rows), group=False)


def require_labels(labels: tuple[str, ...], path: Path) -> None:
    """Refuse data in which there is nothing to tell apart."""
    if len(labels) < 2:
        raise RegardError(
            f"'{path}' has {len(labels)} labels in the part that is learned from, but two or more are to "
            "be told apart. Check the columns (--source-column, --target-column) and the format."
        )


def _counted(rows: Iterator[LabelledRow], labels: Counter[str]) -> Iterator[LabelledRow]:
    for row in rows:
        labels[row.label] += 1
        yield row


def _held_out_rows(
    texts: RowSource[LabelledRow],
    options: ClassifyOptions,
    part: str,
    bad: BadRows,
    *,
    known: set[str],
) -> Iterator[LabelledRow]:
    """The rows of a part; a label that is never learned is a bad row."""
    own: str | None = getattr(options, part)
    path = source_of(options, own or options.labels).path
    rows = (
        source_of(options, own).rows(bad=bad)
        if own
        else part_rows(texts, options, part, BadRows(skip=True))
    )
    return _known_rows(rows, known, path=path, bad=bad)


def _known_rows(
    rows: Iterator[LabelledRow], known: set[str], *, path: Path, bad: BadRows
) -> Iterator[LabelledRow]:
    for row in rows:
        if row.label in known:
            yield row
        else:
            reason = f"unknown label: '{row.label}' is not in the part that is learned from"
            bad.report(path=path, line=row.line, reason=reason)
