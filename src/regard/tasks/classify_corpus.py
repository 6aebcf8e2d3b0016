"""The files of the task `classify`, read and cut into what is learned from and what is held out.

What is learned from is streamed twice: once for the vocabulary and the labels, once for the tokens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

from regard.data.bad_rows import BadRows
from regard.data.labelled_rows import LabelledRow
from regard.tasks.class_balance import ClassBalance
from regard.tasks.classify_labels import known_rows, require_labels, require_repeated
from regard.tasks.classify_options import ClassifyOptions
from regard.tasks.classify_rows import Cut, Rows, cut_of, training_rows
from regard.tasks.held_out import HeldOut, held_out_facts
from regard.tasks.labelled_sources import Source, source_of
from regard.tasks.learned_too import LearnedToo, learned_too_words
from regard.tasks.text_parts import RowSource, part_rows
from regard.tasks.text_vocabularies import TextVocabularies

FIX = "Give texts with that label to learn from too, fix the line"


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
    # How much of each part is left out because a text is too long.
    cuts: dict[str, Cut]
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
            require_repeated(labels, texts.path)
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
        fitting = known_rows(rows, known, path=texts.path, bad=bad, hint=FIX)
        train, cut = training_rows(seen.watch(fitting), options, vocabularies)
        return cls(
            vocabularies=vocabularies,
            train=train,
            dev=held_out["dev"],
            test=held_out["test"],
            learned_too=seen.counts(),
            notice=getattr(texts, "notice", ""),
            cuts={"train": cut} | held_out_cuts(held_out, vocabularies, options),
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
            "cut_texts": {part: cut.texts for part, cut in self.cuts.items()},
            "cut_tokens": {part: cut.tokens for part, cut in self.cuts.items()},
            "held_out_sources_in_train": self.learned_too,
            "bad_rows": self.bad.count,
        }

    def describe(self) -> str:
        """How much there is, in one line."""
        return (
            f"{len(self.train):,} texts to learn from, {len(self.dev):,} to develop on, "
            f"{len(self.test):,} to test on; vocabulary of {self.vocabularies.text.size:,}"
            + "".join(
                f"; of the {part} part, {words}"
                for part, cut in self.cuts.items()
                if (words := cut.words(self.max_length))
            )
            + learned_too_words(self.learned_too, "texts")
            + f". {self.balance().describe()} {self.notice}".rstrip(" .")
        )

    def balance(self) -> ClassBalance:
        """How many texts of each label are learned from."""
        return ClassBalance.of(self.vocabularies.labels[number] for number in self.train.labels)


def held_out_texts(rows: Iterator[LabelledRow]) -> HeldOut:
    """Texts and the label of each."""
    return HeldOut.of(((row.text, row.label) for row in rows), group=False)


def held_out_cuts(
    held_out: dict[str, HeldOut], vocabularies: TextVocabularies, options: ClassifyOptions
) -> dict[str, Cut]:
    """How much of each held-out part is left out."""
    return {part: cut_of(texts.sources, vocabularies, options) for part, texts in held_out.items()}


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
    if own:
        rows = source_of(options, own).rows(bad=bad)
        return known_rows(rows, known, path=path, bad=bad, hint=FIX)
    rows = part_rows(texts, options, part, BadRows(skip=True))
    share = f"task.{part}_share={getattr(options, f'{part}_share')}"
    hint = (
        f"It fell to the {part} part, which is drawn from the file: give more texts with that label, "
        f"lower {share}, or give a file of its own with --{part}"
    )
    # Without texts to test on a run is still one.
    return known_rows(rows, known, path=path, bad=bad, hint=hint, required=part == "dev")
