"""Leave-one-out: the effect of each single word on the prediction, compared with its attention weight.

Kendall's tau (tau-b, which allows for ties) is 1 if the weights rank the words like their effects, 0 if
unrelated and −1 if reversed (Jain and Wallace 2019, section 4.1). The deletion test (`deletion.py`)
removes many words at once. `document_record` collects both for one text.
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
    class_probabilities,
    classify_subsets,
    deletion_curve,
    mean_deletion,
    token_importance,
    word_mask,
)

# Leave-one-out classifies one subset per word, so it is skipped for longer texts.
MAX_WORDS = 300


class LeaveOneOut(NamedTuple):
    """The drop in probability of the predicted label without each token; NaN for START and END.

    `tau` compares drops with weights; None with fewer than two words or without variation.
    """

    drops: Float[np.ndarray, " length"]
    tau: float | None


def leave_one_out(
    model: TextClassifier,
    tokens: Int[Tensor, " length"],
    segments: Int[Tensor, " length"] | None,
) -> LeaveOneOut:
    """Leave-one-out of one unpadded text."""
    from scipy.stats import kendalltau

    row, lengths = tokens[None], torch.tensor([len(tokens)], device=tokens.device)
    sentence_ids = None if segments is None else segments[None]
    importance = token_importance(model, row, lengths, sentence_ids)[0]
    before = class_probabilities(model, row, lengths, sentence_ids)[0]
    positions = np.flatnonzero(word_mask(row, lengths)[0])
    drops = np.full(len(tokens), math.nan)
    if len(positions) < 2:
        return LeaveOneOut(drops, None)
    kept = [np.delete(np.arange(len(tokens)), position) for position in positions]
    after = classify_subsets(model, row, sentence_ids, rows=[0] * len(kept), kept=kept)
    label = before.argmax()
    drops[positions] = before[label] - after[:, label]
    weights, effects = importance[positions], drops[positions]
    if np.ptp(weights) == 0 or np.ptp(effects) == 0:
        return LeaveOneOut(drops, None)
    return LeaveOneOut(drops, float(kendalltau(weights, effects).statistic))


def document_record(
    model: TextClassifier,
    tokens: Int[Tensor, " length"],
    segments: Int[Tensor, " length"] | None = None,
    *,
    texts: Sequence[str],
    labels: Sequence[str],
    title: str,
    reference: str | None = None,
    seed: int = 0,
) -> DocumentRecord:
    """Attention weights, deletion test and leave-one-out of one unpadded text.

    `texts` are its tokens as text, `labels` all labels of the model.
    """
    if len(texts) != len(tokens):
        raise RegardError(
            f"The document has {len(texts)} texts for {len(tokens)} tokens. Give one per token."
        )
    row, lengths = tokens[None], torch.tensor([len(tokens)], device=tokens.device)
    sentence_ids = None if segments is None else segments[None]
    with torch.inference_mode():
        attention = model.text_attention(row, lengths, sentence_ids)
    if attention is None:
        raise RegardError(
            f"{type(model).__name__} has no attention over its words. Use a model with attention, such as "
            "structured or hierarchical."
        )
    probabilities = class_probabilities(model, row, lengths, sentence_ids)[0]
    if len(labels) != len(probabilities):
        raise RegardError(
            f"The model has {len(probabilities)} classes, but {len(labels)} labels were given: "
            f"{', '.join(labels)}. Give one per class, in order."
        )
    words = int(word_mask(row, lengths).sum())
    deletion = None
    if words >= 2:
        deletion = mean_deletion([deletion_curve(model, row, lengths, sentence_ids, seed=seed)])
    single = leave_one_out(model, tokens, segments) if 2 <= words <= MAX_WORDS else None
    numbers = [0] * len(tokens) if segments is None else segments.tolist()
    sentences = attention.sentences
    return DocumentRecord(
        tokens=tuple(texts),
        segments=tuple(numbers),
        hops=tuple(map(tuple, attention.tokens[0].tolist())),
        # Padded to more sentences than the text has.
        sentence_weights=None
        if sentences is None
        else tuple(sentences[0, : max(numbers) + 1].tolist()),
        label=labels[int(probabilities.argmax())],
        probabilities=dict(zip(labels, probabilities.tolist(), strict=True)),
        title=title,
        reference=reference,
        deletion=deletion,
        drops=None
        if single is None
        else tuple(None if math.isnan(drop) else drop for drop in single.drops.tolist()),
        kendall_tau=None if single is None else single.tau,
    )
