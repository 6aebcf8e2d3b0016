"""How a classifier read one text, as the record that pictures are drawn from."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from regard.core.document_record import DocumentRecord
from regard.core.errors import RegardError
from regard.core.text_classifier import TextClassifier
from regard.tasks.deletion import deletion_curve
from regard.tasks.leave_one_out import leave_one_out
from regard.tasks.mean_deletion import mean_deletion
from regard.tasks.rereading import probabilities_of, word_places

# A version a word is read for leave-one-out: beyond so many words it takes longer than looking is worth.
MOST_LEFT_OUT = 300


def document_record(
    model: TextClassifier,
    tokens: Int[Tensor, " length"],
    segments: Int[Tensor, " length"] | None = None,
    *,
    texts: Sequence[str],
    labels: Sequence[str],
    title: str,
    right: str | None = None,
    seed: int = 0,
) -> DocumentRecord:
    """Of one text without padding; `texts` are its tokens as people write them, `labels` all there are."""
    if len(texts) != len(tokens):
        raise RegardError(
            f"The document has {len(texts)} texts for {len(tokens)} tokens. Give one a token."
        )
    row, lengths = tokens[None], torch.tensor([len(tokens)], device=tokens.device)
    parts = None if segments is None else segments[None]
    with torch.inference_mode():
        reading = model.reading(row, lengths, parts)
    if reading is None:
        raise RegardError(
            f"{type(model).__name__} has no attention over its words, so there is nothing to look at. "
            "Train one that weighs words, such as structured or hierarchical."
        )
    probabilities = probabilities_of(model, row, lengths, parts)[0]
    if len(labels) != len(probabilities):
        raise RegardError(
            f"The model tells {len(probabilities)} classes apart, and {len(labels)} labels were given: "
            f"{', '.join(labels)}. Give those it learned, in their order."
        )
    words = int(word_places(row, lengths).sum())
    deletion = None
    if words >= 2:
        deletion = mean_deletion([deletion_curve(model, row, lengths, parts, seed=seed)])
    single = leave_one_out(model, tokens, segments) if 2 <= words <= MOST_LEFT_OUT else None
    numbers = [0] * len(tokens) if segments is None else segments.tolist()
    sentences = reading.sentences
    return DocumentRecord(
        tokens=tuple(texts),
        segments=tuple(numbers),
        hops=tuple(map(tuple, reading.tokens[0].tolist())),
        # A model may have room for more sentences than the text has.
        sentences=None if sentences is None else tuple(sentences[0, : max(numbers) + 1].tolist()),
        label=labels[int(probabilities.argmax())],
        probabilities=dict(zip(labels, probabilities.tolist(), strict=True)),
        title=title,
        right=right,
        deletion=deletion,
        falls=None
        if single is None
        else tuple(None if math.isnan(fall) else fall for fall in single.falls.tolist()),
        agreement=None if single is None else single.tau,
    )
