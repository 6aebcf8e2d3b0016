"""What each single word does to the label: the text is read again without it, a version a word.

The deletion test (`deletion.py`) leaves out many words at once, by weight. Here weights are compared with
the words' own effects: Kendall's tau (the form that allows for ties, tau-b) is 1 where weights order the
words as their effects do, 0 where they say nothing about it and −1 where they order them the other way
(Jain and Wallace 2019, section 4.1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.core.errors import RegardError
from regard.core.protocols import TextClassifier
from regard.core.records.document import DocumentRecord
from regard.tasks.classification.deletion import (
    deletion_curve,
    importance_of,
    mean_deletion,
    probabilities_of,
    reread,
    word_places,
)


class LeaveOneOut(NamedTuple):
    """By how much leaving out each token lowers the probability of the label; nan for START and END.

    `tau` compares falls with weights; None where there are not two words, or either are all the same.
    """

    falls: Float[np.ndarray, " length"]
    tau: float | None


def leave_one_out(
    model: TextClassifier,
    tokens: Int[Tensor, " length"],
    segments: Int[Tensor, " length"] | None,
) -> LeaveOneOut:
    """Of one text without padding; as many versions are read as it has words."""
    from scipy.stats import kendalltau

    row, lengths = tokens[None], torch.tensor([len(tokens)], device=tokens.device)
    parts = None if segments is None else segments[None]
    importance = importance_of(model, row, lengths, parts)[0]
    before = probabilities_of(model, row, lengths, parts)[0]
    places = np.flatnonzero(word_places(row, lengths)[0])
    falls = np.full(len(tokens), math.nan)
    if len(places) < 2:
        return LeaveOneOut(falls, None)
    kept = [np.delete(np.arange(len(tokens)), place) for place in places]
    after = reread(model, row, parts, rows=[0] * len(kept), kept=kept)
    label = before.argmax()
    falls[places] = before[label] - after[:, label]
    weights, effects = importance[places], falls[places]
    if np.ptp(weights) == 0 or np.ptp(effects) == 0:
        return LeaveOneOut(falls, None)
    return LeaveOneOut(falls, float(kendalltau(weights, effects).statistic))


# How a classifier read one text, as the record that pictures are drawn from.


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
