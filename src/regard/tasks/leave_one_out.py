"""What each single word does to the label: the text is read again without it, a version a word.

The deletion test (`deletion.py`) leaves out many words at once, by weight. Here weights are compared with
the words' own effects: Kendall's tau (the form that allows for ties, tau-b) is 1 where weights order the
words as their effects do, 0 where they say nothing about it and −1 where they order them the other way
(Jain and Wallace 2019, section 4.1).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.core.text_classifier import TextClassifier
from regard.tasks.deletion import importance_of
from regard.tasks.rereading import probabilities_of, reread, word_places


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
