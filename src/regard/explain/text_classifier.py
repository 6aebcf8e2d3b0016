"""Explaining the predictions of a text classifier: attention weights with faithfulness checks, or a tree.

run = regard.load("runs/documents")
explain_text(run, text)                           word and sentence weights, leave-one-out, deletion test
parse_tree(run, text)                             the tree of a recursive autoencoder
find_phrases(run, texts).nearest("a good film")   nearest phrases by their encodings
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
    collect_phrases,
    tree_records,
)
from regard.runs.load import TrainedRun
from regard.tasks.classification.corpus import Truncation, count_truncation, encode_texts
from regard.tasks.classification.leave_one_out import document_record


def explain_text(
    run: TrainedRun, text: str, *, reference: str | None = None, seed: int = 0
) -> DocumentRecord:
    """Attention weights of words and sentences, leave-one-out effects and the deletion test of one text."""
    tokens, lengths, segments = _encode(run, [text])
    model: Any = run.model
    record = document_record(
        model,
        tokens[0],
        segments[0],
        texts=_token_texts(run, tokens, lengths)[0],
        labels=run.vocabularies.labels,
        title=text.strip(),
        reference=reference,
        seed=seed,
    )
    cut = count_truncation([text.strip()], run.vocabularies, run.spec.task_options)
    return replace(record, truncated_tokens=cut.tokens)


class TruncationCounter:
    """Counts the texts of a stream that exceed the maximum length of a classifier."""

    def __init__(self, run: TrainedRun) -> None:
        self._run = run
        self._cut = Truncation()

    def count(self, texts: Iterable[str]) -> Iterator[str]:
        """Yield the texts unchanged; blank texts are not counted."""
        for text in texts:
            if self._run.is_classifier and text.strip():
                options = self._run.spec.task_options
                more = count_truncation([text.strip()], self._run.vocabularies, options)
                self._cut = self._cut.combined_with(more)
            yield text

    def summary(self) -> str:
        """One line about the truncated texts; empty if there are none."""
        return self._cut.describe(self._run.spec.task_options.max_length) if self._cut.texts else ""


def builds_trees(run: TrainedRun) -> bool:
    """Whether the model builds a tree over a text."""
    return isinstance(run.model, RecursiveAutoencoder)


def parse_tree(run: TrainedRun, text: str) -> TreeRecord:
    """The tree that a recursive autoencoder builds over a text, with the prediction at each node."""
    model = _tree_model(run)
    tokens, lengths, _ = _encode(run, [text])
    (record,) = tree_records(
        model,
        tokens,
        lengths,
        words=_token_texts(run, tokens, lengths),
        classes=run.vocabularies.labels,
    )
    return record


def find_phrases(run: TrainedRun, texts: Iterable[str]) -> Phrases:
    """The phrases of texts with their recursive-autoencoder encodings, for nearest-phrase search."""
    model = _tree_model(run)
    tokens, lengths, _ = _encode(run, list(texts))
    return collect_phrases(model, tokens, lengths, words=_token_texts(run, tokens, lengths))


def _tree_model(run: TrainedRun) -> RecursiveAutoencoder:
    if not isinstance(run.model, RecursiveAutoencoder):
        raise RegardError(
            f"The model '{run.spec.model}' of the run '{run.folder.path}' builds no trees. Train "
            "one that does: regard train classify --recipe classify-trees."
        )
    return run.model


def _encode(run: TrainedRun, texts: Sequence[str]) -> tuple[Tensor, Tensor, Tensor]:
    """Padded tokens, lengths and sentence segments of texts."""
    if not run.is_classifier:
        raise RegardError(
            f"The run '{run.folder.path}' has the task '{run.spec.task}', not a classification task. Use a "
            "classifier, or run.alignment(text)."
        )
    if not texts or not all(text.strip() for text in texts):
        raise RegardError("A text is empty. Give at least one word.")
    rows = encode_texts([text.strip() for text in texts], run.vocabularies, run.spec.task_options)
    tokens, lengths, segments = (
        torch.from_numpy(array) for array in rows.padded(np.arange(len(rows)))
    )
    return tokens, lengths, segments


def _token_texts(run: TrainedRun, tokens: Tensor, lengths: Tensor) -> list[list[str]]:
    """The strings of the tokens of each text."""
    return [
        run.vocabularies.text.tokens_of(row[:length])
        for row, length in zip(tokens.tolist(), lengths.tolist(), strict=True)
    ]
