"""How the model of a run that says labels read a text: weights of words and sentences, or a tree.

run = regard.load("runs/documents")
document_of(run, text)                          weights, and what leaving words out does
tree_of(run, text)                              of a recursive autoencoder
phrases_in(run, texts).nearest("a good film")   what it holds for alike
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.core.errors import RegardError
from regard.core.records.attention import TreeRecord
from regard.core.records.document import DocumentRecord
from regard.models.autoencoders.recursive import (
    Phrases,
    RecursiveAutoencoder,
    phrases_of,
    tree_records,
)
from regard.runs.load import TrainedRun
from regard.tasks.classification.corpus import Cut, cut_of, text_rows
from regard.tasks.classification.leave_one_out import document_record


def document_of(
    run: TrainedRun, text: str, *, right: str | None = None, seed: int = 0
) -> DocumentRecord:
    """What each word and sentence counted for the label, and the deletion test; `right` if it is known."""
    tokens, lengths, segments = _read(run, [text])
    model: Any = run.model
    record = document_record(
        model,
        tokens[0],
        segments[0],
        texts=_written(run, tokens, lengths)[0],
        labels=run.vocabularies.labels,
        title=text.strip(),
        right=right,
        seed=seed,
    )
    cut = cut_of([text.strip()], run.vocabularies, run.spec.task_options)
    return replace(record, cut_tokens=cut.tokens)


class CutTexts:
    """Counts, while texts pass by, how many of them a classifier does not read to their end."""

    def __init__(self, run: TrainedRun) -> None:
        self._run = run
        self._cut = Cut()

    def watch(self, texts: Iterable[str]) -> Iterator[str]:
        """The texts, unchanged; blank ones are read by no model."""
        for text in texts:
            if self._run.labels_texts and text.strip():
                options = self._run.spec.task_options
                more = cut_of([text.strip()], self._run.vocabularies, options)
                self._cut = self._cut.with_more(more)
            yield text

    def words(self) -> str:
        """A line about those that passed; empty where none was cut off."""
        return self._cut.words(self._run.spec.task_options.max_length) if self._cut.texts else ""


def makes_trees(run: TrainedRun) -> bool:
    """Whether the model joins the words of a text into a tree."""
    return isinstance(run.model, RecursiveAutoencoder)


def tree_of(run: TrainedRun, text: str) -> TreeRecord:
    """The tree that a recursive autoencoder builds over a text, and what it says of each node."""
    model = _tree_model(run)
    tokens, lengths, _ = _read(run, [text])
    (record,) = tree_records(
        model,
        tokens,
        lengths,
        words=_written(run, tokens, lengths),
        classes=run.vocabularies.labels,
    )
    return record


def phrases_in(run: TrainedRun, texts: Iterable[str]) -> Phrases:
    """The phrases that a recursive autoencoder joins in these texts, to find like ones among."""
    model = _tree_model(run)
    tokens, lengths, _ = _read(run, list(texts))
    return phrases_of(model, tokens, lengths, words=_written(run, tokens, lengths))


def _tree_model(run: TrainedRun) -> RecursiveAutoencoder:
    if not isinstance(run.model, RecursiveAutoencoder):
        raise RegardError(
            f"The model '{run.spec.model}' of the run '{run.folder.path}' joins no words into trees. "
            "Train one that does: regard train classify --recipe classify-trees."
        )
    return run.model


def _read(run: TrainedRun, texts: Sequence[str]) -> tuple[Tensor, Tensor, Tensor]:
    """Padded tokens, how many each text has, and the sentence of each."""
    if not run.labels_texts:
        raise RegardError(
            f"The run '{run.folder.path}' learned the task '{run.spec.task}', which says no labels. "
            "Look at one that does, or use run.alignment(text)."
        )
    if not texts or not all(text.strip() for text in texts):
        raise RegardError("There is nothing to look at: a text is empty. Give a word or more.")
    rows = text_rows([text.strip() for text in texts], run.vocabularies, run.spec.task_options)
    tokens, lengths, segments = (
        torch.from_numpy(array) for array in rows.padded(np.arange(len(rows)))
    )
    return tokens, lengths, segments


def _written(run: TrainedRun, tokens: Tensor, lengths: Tensor) -> list[list[str]]:
    """How each token is written."""
    return [
        run.vocabularies.text.tokens_of(row[:length])
        for row, length in zip(tokens.tolist(), lengths.tolist(), strict=True)
    ]
