"""Explaining the predictions of a text classifier: attention weights with faithfulness checks, or a tree.

run = regard.load("runs/documents")
explain_text(run, text)                           word and sentence weights, leave-one-out, deletion test
parse_tree(run, text)                             the tree of a recursive autoencoder
find_phrases(run, texts).nearest("a good film")   nearest phrases by their encodings
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from regard.core.batches import TokenInput
from regard.core.errors import RegardError
from regard.core.protocols import text_attention
from regard.core.records.attention import TreeRecord
from regard.core.records.document import DocumentRecord
from regard.data.preprocessor import Truncation
from regard.explain.media_classifier import explain_recording
from regard.models.autoencoders.recursive import (
    Phrases,
    RecursiveAutoencoder,
    collect_phrases,
    tree_records,
)
from regard.runs.load import TrainedRun
from regard.tasks.classification.leave_one_out import document_record
from regard.tasks.task import device_of


def explain_input(
    run: TrainedRun, source: Any, *, name: str, reference: str | None = None
) -> DocumentRecord | None:
    """The attention behind the class of a text, or of a recording; None for a model without attention."""
    given = source.strip() if isinstance(source, str) else source
    encoded = run.preprocessor.encode_inputs([given]).collate_inputs(np.arange(1))
    with torch.inference_mode():
        if text_attention(run.model, encoded.to(device_of(run.model))) is None:
            return None
    if run.preprocessor.has_pictures:
        return explain_recording(run, source, name=name, reference=reference)
    return explain_text(run, source, reference=reference)


def explain_text(
    run: TrainedRun, text: str, *, reference: str | None = None, seed: int = 0
) -> DocumentRecord:
    """Attention weights of words and sentences, leave-one-out effects and the deletion test of one text."""
    texts = _encode(run, [text])
    model: Any = run.model
    record = document_record(
        model,
        texts,
        texts=_token_texts(run, texts)[0],
        labels=run.preprocessor.target.labels,
        title=text.strip(),
        reference=reference,
        seed=seed,
    )
    cut = run.preprocessor.truncation([text.strip()])
    return replace(record, truncated_tokens=cut.tokens)


class TruncationCounter:
    """Counts the texts or recordings of a stream that exceed the maximum length."""

    def __init__(self, run: TrainedRun) -> None:
        self._run = run
        self._cut = Truncation()

    def add(self, texts: Iterable[str]) -> None:
        """Count further texts; blank ones are not counted."""
        given = [text.strip() for text in texts if text.strip()]
        self._cut = self._cut.combined_with(self._run.preprocessor.truncation(given))

    def summary(self) -> str:
        """One line about what was truncated; empty if nothing was."""
        note: str = self._run.preprocessor.truncation_note(self._cut)
        return note


def builds_trees(run: TrainedRun) -> bool:
    """Whether the model builds a tree over a text."""
    return isinstance(run.model, RecursiveAutoencoder)


def parse_tree(run: TrainedRun, text: str) -> TreeRecord:
    """The tree that a recursive autoencoder builds over a text, with the prediction at each node."""
    model = _tree_model(run)
    encoded = _encode(run, [text])
    (record,) = tree_records(
        model,
        encoded,
        words=_token_texts(run, encoded),
        classes=run.preprocessor.target.labels,
    )
    return record


def find_phrases(run: TrainedRun, texts: Iterable[str]) -> Phrases:
    """The phrases of texts with their recursive-autoencoder encodings, for nearest-phrase search."""
    model = _tree_model(run)
    encoded = _encode(run, list(texts))
    words = _token_texts(run, encoded)
    return collect_phrases(model, encoded, words=words)


def _tree_model(run: TrainedRun) -> RecursiveAutoencoder:
    if not isinstance(run.model, RecursiveAutoencoder):
        raise RegardError(
            f"The model '{run.spec.model}' of the run '{run.folder.path}' builds no trees. Train "
            "one that does: regard train classify --recipe classify-trees."
        )
    return run.model


def _encode(run: TrainedRun, texts: Sequence[str]) -> TokenInput:
    """The padded input of texts."""
    if not run.is_classifier:
        raise RegardError(
            f"The run '{run.folder.path}' has the task '{run.spec.task}', not a classification task. Use a "
            "classifier, or run.alignment(text)."
        )
    if not texts or not all(text.strip() for text in texts):
        raise RegardError("A text is empty. Give at least one word.")
    examples = run.preprocessor.encode_inputs([text.strip() for text in texts])
    encoded: TokenInput = examples.collate_inputs(np.arange(len(texts)))
    return encoded.to(device_of(run.model))


def _token_texts(run: TrainedRun, texts: TokenInput) -> list[list[str]]:
    """The strings of the tokens of each text."""
    return [
        run.preprocessor.input.tokens_of(row[:length])
        for row, length in zip(texts.tokens.tolist(), texts.lengths.tolist(), strict=True)
    ]
