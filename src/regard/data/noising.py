"""Noising for pre-training: span corruption (T5), and token masking (BERT), `mask_tokens`.

    a b c d e f     one span:       input  a b ? f           target  c d e
    a b c d e f     several spans:  input  a ? c d ?         target  ? b ? e f

Span corruption (Raffel et al. 2020) replaces spans by a sentinel, written ? here, and predicts them. The
sentinel is UNKNOWN, so no vocabulary needs a token of its own for it; where Raffel et al. number their
sentinels, here their order identifies them. With one span, the text may be truncated first.

    input   START the [MASK] sat on a     mat END        labels   · · cat · · a   · ·
    input   START the cat    sat on green mat END        labels   · · ·   · · the · ·

Masking (Devlin et al. 2019, section 3.1) predicts some of the tokens: 80 % of them are replaced by [MASK],
10 % by a random token, and 10 % are unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int64

from regard.core.batches import IGNORE_INDEX, SPECIAL_TOKENS, UNKNOWN
from regard.core.errors import RegardError
from regard.data.examples import Examples, Ragged, flat_positions


class Corrupted(NamedTuple):
    """The text with spans replaced by sentinels, and the removed spans."""

    input: list[int]
    target: list[int]


class MaskedTokens(NamedTuple):
    """Masked input tokens, and the original tokens as labels; IGNORE_INDEX elsewhere."""

    tokens: Int64[np.ndarray, "rows width"]
    labels: Int64[np.ndarray, "rows width"]


def corrupt_texts(
    texts: Ragged,
    *,
    seed: int,
    epoch: int,
    max_span_fraction: float = 0.5,
    full_length_probability: float = 1.0,
    min_kept_fraction: float = 0.25,
) -> Examples:
    """Corrupt one span in every text, uniformly: the rest becomes the input, the span the target.

    max_span_fraction          maximum span length, as a fraction of the truncated text
    full_length_probability    probability that a text is not truncated
    min_kept_fraction          minimum fraction a truncated text keeps, and at least one token

    A function of the texts, the options, and (seed, epoch).
    """
    rng, lengths = np.random.default_rng([seed, epoch]), texts.lengths
    min_kept = np.maximum(np.ceil(min_kept_fraction * lengths), np.minimum(1, lengths))
    # Sampled for every text, truncated or not, so that samples do not depend on other texts.
    truncated = rng.integers(min_kept.astype(np.int64), lengths, endpoint=True)
    kept = np.where(rng.random(len(lengths)) < full_length_probability, lengths, truncated)
    low = np.minimum(1, kept)
    high = np.maximum(low, np.floor(max_span_fraction * kept).astype(np.int64))
    length = rng.integers(low, high, endpoint=True)
    start = rng.integers(0, kept - length, endpoint=True)
    offsets = texts.offsets[:-1]
    row, within, input_offsets = flat_positions(kept - length + 1)
    after = within > start[row]
    position = offsets[row] + within + np.where(after, length[row] - 1, 0)
    sentinel = within == start[row]
    tokens = np.full(len(row), UNKNOWN, dtype=np.int32)
    tokens[~sentinel] = texts.values[position[~sentinel]]
    row, within, target_offsets = flat_positions(length)
    spans = Ragged(texts.values[offsets[row] + start[row] + within], target_offsets)
    return Examples(inputs=Ragged(tokens, input_offsets), targets=spans, end=True)


def corrupt_spans(
    tokens: Sequence[int],
    *,
    noise_density: float,
    mean_span_length: float,
    rng: np.random.Generator,
) -> Corrupted:
    """Corrupt several non-adjacent spans: `noise_density` of the tokens, rounded, and at least one.

    The number of spans follows from `mean_span_length`, rounded.
    """
    if UNKNOWN in tokens:
        raise RegardError(
            f"The text contains {SPECIAL_TOKENS[UNKNOWN]}, which is the sentinel. Use a vocabulary "
            "that covers the text, or leave the text out."
        )
    if not tokens:
        return Corrupted([], [])
    noise = max(1, round(noise_density * len(tokens)))
    rest = len(tokens) - noise
    spans = min(max(1, round(noise / mean_span_length)), noise, rest + 1)
    # Segments between two spans are not empty; the first and the last may be.
    segments = _random_partition(rest + 2, spans + 1, rng=rng)
    segments[[0, -1]] -= 1
    lengths = [*_random_partition(noise, spans, rng=rng), 0]
    inputs, target, position = list[int](), list[int](), 0
    for kept, length in zip(segments, lengths, strict=True):
        inputs += tokens[position : position + kept]
        if length:
            inputs.append(UNKNOWN)
            target += [UNKNOWN, *tokens[position + kept : position + kept + length]]
        position += kept + length
    return Corrupted(inputs, target)


def mask_tokens(
    tokens: Int64[np.ndarray, "rows width"],
    *,
    rng: np.random.Generator,
    mask_id: int,
    vocab_size: int,
    mask_fraction: float = 0.15,
    mask_replace_prob: float = 0.8,
    random_replace_prob: float = 0.1,
) -> MaskedTokens:
    """Select `mask_fraction` of the ordinary tokens of each row, rounded, and at least one if any.

    Ordinary tokens have ids above `mask_id`: neither it nor the special tokens are selected or inserted.
    A selected token becomes `mask_id` with `mask_replace_prob`, a random ordinary token with
    `random_replace_prob`, and is unchanged otherwise.
    """
    if not 0 <= mask_replace_prob <= mask_replace_prob + random_replace_prob <= 1:
        raise RegardError(
            f"mask_replace_prob={mask_replace_prob}, random_replace_prob={random_replace_prob}: they must "
            "be at least 0 and sum to at most 1, such as 0.8 and 0.1."
        )
    ordinary = tokens > mask_id
    counts = ordinary.sum(axis=1, keepdims=True)
    selected_counts = np.where(counts > 0, np.maximum(1, np.rint(mask_fraction * counts)), 0)
    # The first of a random permutation of the ordinary positions of each row.
    keys = np.where(ordinary, rng.random(tokens.shape), np.inf)
    ranks = keys.argsort(axis=1).argsort(axis=1)
    selected = ranks < selected_counts
    uniform = rng.random(tokens.shape)
    random_ids = rng.integers(mask_id + 1, vocab_size, tokens.shape)
    replacement = np.where(uniform < mask_replace_prob, mask_id, random_ids)
    replaced = selected & (uniform < mask_replace_prob + random_replace_prob)
    return MaskedTokens(
        np.where(replaced, replacement, tokens), np.where(selected, tokens, IGNORE_INDEX)
    )


def _random_partition(
    total: int, parts: int, *, rng: np.random.Generator
) -> Int64[np.ndarray, " parts"]:
    """`total` as a sum of `parts` positive integers, uniformly among all such sums."""
    cuts = np.sort(rng.choice(total - 1, size=parts - 1, replace=False)) + 1
    return np.diff(cuts, prepend=0, append=total)
