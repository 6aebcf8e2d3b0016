"""How much one symbol of a string can change what a model says, by the length of the string."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from regard.core.special_tokens import END, START
from regard.data.vocabulary import FIRST_TOKEN
from regard.models import build_model

BITS = (FIRST_TOKEN, FIRST_TOKEN + 1)
TRIED = 16  # places at which the symbol is changed, evenly spread


def untrained(name: str, *, seed: int, attention_gain: float = 1.0, **options: Any) -> Any:
    """A model of two symbols and two classes with weights as drawn, in float64.

    `attention_gain` multiplies what queries and keys are made with, so that attention is less even.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model: Any = build_model(name, vocabulary=FIRST_TOKEN + 2, classes=2, **options)
    for layer in getattr(model, "blocks", ()):
        projection = layer.attention.projection
        widths = projection.sizes.query_width + projection.sizes.key_width
        with torch.no_grad():
            projection.linear.weight[:widths] *= attention_gain
    return model.double().eval()


def largest_change(model: Any, *, length: int, strings: int = 4) -> float:
    """The greatest change of any score by one symbol of a random string; the mean over some strings."""
    generator = torch.Generator().manual_seed(length)
    places = sorted({round(place) for place in np.linspace(0, length - 1, TRIED).tolist()})
    changes = []
    for _ in range(strings):
        rows = torch.randint(0, 2, (1, length), generator=generator).repeat(len(places) + 1, 1)
        rows[range(1, len(rows)), places] ^= 1
        ends = torch.ones(len(rows), 1, dtype=torch.int64)
        tokens = torch.cat([START * ends, torch.tensor(BITS)[rows], END * ends], dim=1)
        with torch.inference_mode():
            logits = model.classified(tokens, torch.full((len(rows),), length + 2)).logits
        changes.append(float((logits[1:] - logits[:1]).abs().max()))
    return sum(changes) / strings


def slope(xs: Sequence[int], ys: Sequence[float]) -> float:
    """The power p of the best y ∝ xᵖ.

    >>> round(slope([1, 2, 4], [8.0, 2.0, 0.5]), 6)
    -2.0
    """
    return float(np.polyfit(np.log(xs), np.log(ys), 1)[0])
