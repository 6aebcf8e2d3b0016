"""What is told of a classifier beside its scores: which labels it mixes up, whether its certainty can be
believed, and whether its label hangs on the words it gave most weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from regard.core.text_classifier import hop_overlap
from regard.tasks.calibration import Calibration
from regard.tasks.classify_rows import Rows
from regard.tasks.confusion import Confusion
from regard.tasks.deletion import deletion_curve
from regard.tasks.mean_deletion import mean_deletion
from regard.tasks.text_batches import beside, plain_batch

# Leaving words out takes some thirty readings of every text. Which texts is drawn: the first of a file are
# often all of one label.
DELETION_TEXTS = 100
TEXTS_AT_A_TIME = 10
OVERLAP_TEXTS = 100


def classify_details(
    model: Any,
    rows: Rows,
    logits: Float[Tensor, "texts classes"],
    *,
    predicted: Sequence[str],
    right: Sequence[str],
    labels: Sequence[str],
    seed: int = 0,
) -> dict[str, Any]:
    """As a record keeps it; the deletion test is of texts that are drawn, where the model weighs words."""
    confidence = logits.double().softmax(dim=-1).amax(dim=-1).numpy()
    known = sorted({*labels, *right}, key=[*labels, *sorted(set(right) - set(labels))].index)
    found: dict[str, Any] = {
        "confusion": Confusion.of(predicted, right, labels=known).as_json(),
        "calibration": Calibration.of(
            confidence,
            np.array([one == other for one, other in zip(predicted, right, strict=True)]),
        ).as_json(),
    }
    chosen = _drawn(np.flatnonzero(_words(rows) >= 2), count=DELETION_TEXTS, seed=seed)
    if len(chosen) and _weighs(model, rows, chosen[:1]):
        batches = (
            beside(model, plain_batch(rows, chosen[start : start + TEXTS_AT_A_TIME]))
            for start in range(0, len(chosen), TEXTS_AT_A_TIME)
        )
        results = [
            deletion_curve(model, batch.tokens, batch.lengths, batch.segments) for batch in batches
        ]
        found["deletion"] = mean_deletion(results).as_plain()
    return found


def overlap_of_hops(model: Any, rows: Rows, *, seed: int = 0) -> dict[str, float]:
    """The mean `hop_overlap` of drawn texts, by that name; nothing of a model without several hops."""
    chosen = _drawn(np.arange(len(rows)), count=OVERLAP_TEXTS, seed=seed)
    if not len(chosen):
        return {}
    batch = beside(model, plain_batch(rows, chosen))
    with torch.inference_mode():
        reading = model.reading(batch.tokens, batch.lengths, batch.segments)
    if reading is None or reading.tokens.shape[1] < 2:
        return {}
    return {"hop_overlap": hop_overlap(reading.tokens).mean().item()}


def _drawn(
    texts: Int64[np.ndarray, " texts"], *, count: int, seed: int
) -> Int64[np.ndarray, " some"]:
    """So many of the texts in their order, all where there are no more; the same for the same seed."""
    if len(texts) <= count:
        return texts
    return np.sort(np.random.default_rng(seed).choice(texts, size=count, replace=False))


def _words(rows: Rows) -> np.ndarray:
    return rows.store.source_lengths


def _weighs(model: Any, rows: Rows, chosen: np.ndarray) -> bool:
    batch = beside(model, plain_batch(rows, chosen))
    with torch.inference_mode():
        return model.reading(batch.tokens, batch.lengths, batch.segments) is not None
