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
from jaxtyping import Float

from regard.core.batches import TokenInput
from regard.core.errors import RegardError
from regard.core.protocols import TextClassifier, text_attention
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
    text: TokenInput,
) -> LeaveOneOut:
    """Leave-one-out of one unpadded text: an input of one row."""
    from scipy.stats import kendalltau

    length = text.tokens.shape[1]
    importance = token_importance(model, text)[0]
    before = class_probabilities(model, text)[0]
    positions = np.flatnonzero(word_mask(text)[0])
    drops = np.full(length, math.nan)
    if len(positions) < 2:
        return LeaveOneOut(drops, None)
    kept = [np.delete(np.arange(length), position) for position in positions]
    after = classify_subsets(model, text, rows=[0] * len(kept), kept=kept)
    label = before.argmax()
    drops[positions] = before[label] - after[:, label]
    weights, effects = importance[positions], drops[positions]
    if np.ptp(weights) == 0 or np.ptp(effects) == 0:
        return LeaveOneOut(drops, None)
    return LeaveOneOut(drops, float(kendalltau(weights, effects).statistic))


def document_record(
    model: TextClassifier,
    text: TokenInput,
    *,
    texts: Sequence[str],
    labels: Sequence[str],
    title: str,
    reference: str | None = None,
    seed: int = 0,
) -> DocumentRecord:
    """Attention weights, deletion test and leave-one-out of one unpadded text: an input of one row.

    `texts` are its tokens as text, `labels` all labels of the model.
    """
    length = text.tokens.shape[1]
    if len(texts) != length:
        raise RegardError(
            f"The document has {len(texts)} texts for {length} tokens. Give one per token."
        )
    with torch.inference_mode():
        attention = text_attention(model, text)
    if attention is None:
        raise RegardError(
            f"{type(model).__name__} has no attention over its words. Use a model with attention, such as "
            "structured or hierarchical."
        )
    probabilities = class_probabilities(model, text)[0]
    if len(labels) != len(probabilities):
        raise RegardError(
            f"The model has {len(probabilities)} classes, but {len(labels)} labels were given: "
            f"{', '.join(labels)}. Give one per class, in order."
        )
    words = int(word_mask(text).sum())
    deletion = None
    if words >= 2:
        deletion = mean_deletion([deletion_curve(model, text, seed=seed)])
    single = leave_one_out(model, text) if 2 <= words <= MAX_WORDS else None
    numbers = [0] * length if text.segments is None else text.segments[0].tolist()
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
