"""What a classifier says of texts of which some tokens are left out, many versions at a time.

    a dull film .    without "dull"    →    a film . PAD

Tokens that stay close ranks and keep the numbers of their sentences; none is replaced by padding in the
middle of a text, which a model may read as a word. Versions of like length are read together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float32, Int, Int64
from torch import Tensor

from regard.core.errors import RegardError
from regard.core.special_tokens import END, PAD, START
from regard.core.text_classifier import TextClassifier

PLACES_AT_A_TIME = 16_384
MARKS = (PAD, START, END)


def word_places(
    tokens: Int[Tensor, "batch length"], lengths: Int[Tensor, " batch"]
) -> Bool[np.ndarray, "batch length"]:
    """Where the tokens are words or parts of them: neither padding nor START or END."""
    inside = torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None]
    marks = torch.tensor(MARKS, device=tokens.device)
    return (inside & ~torch.isin(tokens, marks)).numpy(force=True)


def probabilities_of(
    model: TextClassifier,
    tokens: Int[Tensor, "batch length"],
    lengths: Int[Tensor, " batch"],
    segments: Int[Tensor, "batch length"] | None,
) -> Float32[np.ndarray, "batch classes"]:
    """The probability of every class for every row."""
    if getattr(model, "training", False):
        raise RegardError(
            "The model is in training mode, whose dropout would make its answers random. Call "
            "model.eval() first."
        )
    with torch.inference_mode():
        logits = model.classified(tokens, lengths, segments).logits
    return logits.float().softmax(dim=-1).numpy(force=True)


def reread(
    model: TextClassifier,
    tokens: Int[Tensor, "batch length"],
    segments: Int[Tensor, "batch length"] | None,
    *,
    rows: Sequence[int],
    kept: Sequence[Int64[np.ndarray, " _"]],
) -> Float32[np.ndarray, "versions classes"]:
    """The probabilities for each version: the tokens of row `rows[i]` at the places `kept[i]`, in order."""
    sizes = np.array([len(places) for places in kept])
    order = np.argsort(sizes, kind="stable")
    device = tokens.device
    plain = tokens.numpy(force=True)
    numbers = None if segments is None else segments.numpy(force=True)
    said = []
    for chosen in _portions(order, sizes):
        width = int(sizes[chosen].max())
        texts = np.full((len(chosen), width), PAD, dtype=np.int64)
        parts = np.zeros_like(texts)
        for line, version in enumerate(chosen):
            row, places = rows[version], kept[version]
            texts[line, : len(places)] = plain[row, places]
            if numbers is not None:
                parts[line, : len(places)] = numbers[row, places]
        said.append(
            probabilities_of(
                model,
                torch.from_numpy(texts).to(device),
                torch.from_numpy(sizes[chosen]).to(device),
                None if numbers is None else torch.from_numpy(parts).to(device),
            )
        )
    return np.concatenate(said)[np.argsort(order)]


def _portions(
    order: Int64[np.ndarray, " versions"], sizes: Int64[np.ndarray, " versions"]
) -> Iterator[Int64[np.ndarray, " _"]]:
    """Versions in the order of their lengths, so many that padded they fill the places at most."""
    start = 0
    while start < len(order):
        end = start + 1
        while end < len(order) and (end - start + 1) * sizes[order[end]] <= PLACES_AT_A_TIME:
            end += 1
        yield order[start:end]
        start = end
