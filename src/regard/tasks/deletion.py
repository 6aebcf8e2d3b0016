"""The deletion test: does the label hang on the words that attention gave most weight?

The words with most weight are left out, as many at random, and as many with least weight. If weights say
what counted, the first lowers the probability of the label that was said more than the second, and the
third less (Jain and Wallace 2019 ask whether they do; ERASER calls the first comprehensiveness, DeYoung
et al. 2020). Any text with words left out is unlike those learned from, so the fall after leaving out
random words is what the others are held against.

    shares 10 % of 30 words  →  the 3 words of each order are left out; a text keeps one word at least

A text's random orders are drawn from the seed and its own tokens: they do not depend on its batch. Equal
weights are ordered at random too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Int64
from torch import Tensor

from regard.core.deletion_record import require_shares
from regard.core.errors import RegardError
from regard.core.text_classifier import TextClassifier
from regard.tasks.rereading import probabilities_of, reread, word_places

SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)


@dataclass(frozen=True, kw_only=True)
class Changes:
    """What one order of leaving out did to each text, a row a draw; `top` and `least` have one.

    A fall is the probability of the label before minus after; a flip is another label.
    """

    falls: Float[np.ndarray, "texts draws shares"]
    flips: Bool[np.ndarray, "texts draws shares"]


@dataclass(frozen=True, kw_only=True)
class DeletionResult:
    """The texts of one batch: their words, how many were left out, and what that did.

    `labels` are those said of the whole texts, `probability` is that of each.
    """

    shares: tuple[float, ...]
    words: Int64[np.ndarray, " texts"]
    removed: Int64[np.ndarray, "texts shares"]
    labels: Int64[np.ndarray, " texts"]
    probability: Float[np.ndarray, " texts"]
    top: Changes
    random: Changes
    least: Changes


def deletion_curve(
    model: TextClassifier,
    tokens: Int[Tensor, "batch length"],
    lengths: Int[Tensor, " batch"],
    segments: Int[Tensor, "batch length"] | None,
    *,
    shares: tuple[float, ...] = SHARES,
    draws: int = 5,
    seed: int = 0,
) -> DeletionResult:
    """What leaving out each of the `shares` of the words does, with `draws` random orders a text."""
    require_shares(shares)
    if draws < 1:
        raise RegardError(f"The deletion test was given draws={draws}; give 1 or more.")
    importance = importance_of(model, tokens, lengths, segments)
    before = probabilities_of(model, tokens, lengths, segments)
    labels = before.argmax(axis=1)
    is_word = word_places(tokens, lengths)
    removed = np.array([[_count(share, int(row.sum())) for share in shares] for row in is_word])

    num_orders = 2 + draws
    rows: list[int] = []
    kept: list[Int64[np.ndarray, " _"]] = []
    # Which version answers for a text, an order and a share: shares of a short text may be the same.
    version = np.zeros((len(is_word), num_orders, len(shares)), dtype=np.int64)
    all_lengths = lengths.tolist()
    for row, places in enumerate(map(np.flatnonzero, is_word)):
        entropy = [seed, *tokens[row, : all_lengths[row]].tolist()]
        generator = np.random.default_rng(entropy)
        counts, which = np.unique(removed[row], return_inverse=True)
        for number, order in enumerate(_orders(importance[row], places, draws, generator)):
            version[row, number] = len(kept) + which
            everything = np.arange(all_lengths[row])
            kept += [np.delete(everything, order[:count]) for count in counts]
            rows += [row] * len(counts)
    after = reread(model, tokens, segments, rows=rows, kept=kept)[version]

    texts = np.arange(len(labels))
    probability = before[texts, labels].astype(np.float64)
    label_after = np.take_along_axis(after, labels[:, None, None, None], axis=-1)[..., 0]
    # Without anything left out nothing changes, whatever rounding says.
    nothing = (removed == 0)[:, None]
    falls = np.where(nothing, 0.0, probability[:, None, None] - label_after)
    flips = (after.argmax(axis=-1) != labels[:, None, None]) & ~nothing
    return DeletionResult(
        shares=shares,
        words=is_word.sum(axis=1),
        removed=removed,
        labels=labels,
        probability=probability,
        top=Changes(falls=falls[:, :1], flips=flips[:, :1]),
        random=Changes(falls=falls[:, 2:], flips=flips[:, 2:]),
        least=Changes(falls=falls[:, 1:2], flips=flips[:, 1:2]),
    )


def importance_of(
    model: TextClassifier,
    tokens: Int[Tensor, "batch length"],
    lengths: Int[Tensor, " batch"],
    segments: Int[Tensor, "batch length"] | None,
) -> Float[np.ndarray, "batch length"]:
    """The weight of every token as one number (`TextReading.importance`)."""
    with torch.inference_mode():
        reading = model.reading(tokens, lengths, segments)
        if reading is None:
            raise RegardError(
                f"{type(model).__name__} has no attention over its words, so there is nothing to test: "
                "leaving words out by weight needs weights. Train one that weighs words, such as "
                "structured or hierarchical."
            )
        places = torch.zeros_like(tokens) if segments is None else segments
        return reading.importance(places).numpy(force=True)


def _count(share: float, words: int) -> int:
    """How many of so many words a share is: rounded up, but one word stays.

    >>> [_count(0.1, words) for words in (1, 2, 10, 11, 30)]
    [0, 1, 1, 2, 3]
    """
    # A share of 0.1 is a little more than a tenth; that is no reason for one word more.
    return max(0, min(math.ceil(share * words - 1e-9), words - 1))


def _orders(
    importance: Float[np.ndarray, " length"],
    places: Int64[np.ndarray, " words"],
    draws: int,
    generator: np.random.Generator,
) -> list[Int64[np.ndarray, " words"]]:
    """The places of words in the order of leaving out: most weight first, least first, the draws."""
    shuffled = generator.permutation(places)
    rising = shuffled[np.argsort(importance[shuffled], kind="stable")]
    return [rising[::-1], rising, *(generator.permutation(places) for _ in range(draws))]
