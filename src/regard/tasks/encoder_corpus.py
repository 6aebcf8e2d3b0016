"""The files of the task `encoder`, read and cut into what is learned from and what is held out.

What is learned from is streamed twice: once for the vocabulary, once for the tokens. Held-out documents
are kept as texts, since they are scored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from regard.core.errors import RegardError
from regard.data.bad_rows import BadRows
from regard.data.documents import Document, DocumentFile
from regard.data.text_chunks import TextChunks
from regard.tasks.encoder_options import EncoderOptions
from regard.tasks.encoder_rows import KIND, chunked, held_out_documents, require_mask
from regard.tasks.held_out import HeldOut, held_out_facts
from regard.tasks.learned_too import LearnedToo, learned_too_words
from regard.tasks.text_parts import RowSource, part_rows
from regard.tasks.text_vocabularies import TextVocabularies


@dataclass(frozen=True, kw_only=True)
class EncoderCorpus:
    """Everything read from the files of the task."""

    vocabularies: TextVocabularies
    train: TextChunks
    dev: HeldOut
    test: HeldOut
    # How many texts of each held-out part stand in the training part too.
    learned_too: dict[str, int]
    bad: BadRows

    @classmethod
    def read(
        cls,
        options: EncoderOptions,
        *,
        texts: RowSource[Document],
        vocabularies: TextVocabularies | None = None,
    ) -> Self:
        """Read the files; known `vocabularies` are used again, as when a run is resumed."""
        bad = BadRows(skip=options.skip_bad_rows)
        first = bad
        if vocabularies is None:
            rows = part_rows(texts, options, "train", bad)
            vocabularies = TextVocabularies.build(
                options, kind=KIND, texts=(row.text for row in rows)
            )
            first = BadRows(skip=True)  # every later pass meets the same bad rows again
        require_mask(vocabularies.text)
        held_out = {
            part: held_out_documents(
                [row.text for row in _held_out_rows(texts, options, part, bad)],
                options,
                vocabularies.text,
            )
            for part in ("dev", "test")
        }
        seen = LearnedToo[Any](held_out, lowercase=options.lowercase, text_of=lambda row: row.text)
        watched = seen.watch(part_rows(texts, options, "train", first))
        train = chunked((row.text for row in watched), options, vocabularies.text)
        if not len(train):
            raise RegardError(
                "There are no documents to learn from. Give more, or lower "
                f"task.dev_share={options.dev_share} and task.test_share={options.test_share}."
            )
        return cls(
            vocabularies=vocabularies,
            train=train,
            dev=held_out["dev"],
            test=held_out["test"],
            learned_too=seen.counts(),
            bad=bad,
        )

    def facts(self) -> dict[str, Any]:
        """How much there is of each part, and a fingerprint that shows any later change."""
        return {
            "train_documents": len(np.unique(self.train.documents)),
            "train_pieces": len(self.train),
            "train_fingerprint": self.train.fingerprint(),
            **held_out_facts(self.dev, self.test),
            "held_out_sources_in_train": self.learned_too,
            "bad_rows": self.bad.count,
        }

    def describe(self) -> str:
        """How much there is, in one line."""
        facts = self.facts()
        return (
            f"{facts['train_documents']:,} documents to learn from in {len(self.train):,} pieces, "
            f"{len(self.dev):,} to develop on, {len(self.test):,} to test on; vocabulary of "
            f"{self.vocabularies.text.size:,}" + learned_too_words(self.learned_too, "documents")
        )


def _held_out_rows(
    texts: RowSource[Document], options: EncoderOptions, part: str, bad: BadRows
) -> Iterator[Document]:
    own: str | None = getattr(options, part)
    if own:
        return DocumentFile(path=Path(own)).rows(bad=bad)
    return part_rows(texts, options, part, BadRows(skip=True))
