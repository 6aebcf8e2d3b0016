"""Noising for pre-training: span corruption (T5), `corrupt_span`, and token masking (BERT), `mask_tokens`.

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

from regard.core.batches import SPECIAL_TOKENS, UNKNOWN
from regard.core.errors import RegardError
from regard.data.token_store import TokenStore, flat_positions

IGNORE_INDEX = -1
"""The label of a position or row without a target."""


class Corrupted(NamedTuple):
    """The text with spans replaced by sentinels, and the removed spans."""

    input: list[int]
    target: list[int]


class Spans(NamedTuple):
    """One span per text: the length the text is truncated to, and the span's start and length."""

    kept: Int64[np.ndarray, " texts"]
    start: Int64[np.ndarray, " texts"]
    length: Int64[np.ndarray, " texts"]


class MaskedTokens(NamedTuple):
    """Masked input tokens, and the original tokens as labels; IGNORE_INDEX elsewhere."""

    tokens: Int64[np.ndarray, "rows width"]
    labels: Int64[np.ndarray, "rows width"]


def corrupt_span(
    tokens: Sequence[int],
    *,
    rng: np.random.Generator,
    max_span_fraction: float = 0.5,
    min_span: int = 1,
    full_length_probability: float = 1.0,
    min_kept_fraction: float = 0.25,
) -> Corrupted:
    """Corrupt one span of one text; the options are those of `sample_spans`.

    >>> corrupt_span([7, 8, 9], rng=np.random.default_rng(0), max_span_fraction=1.0, min_span=3)
    Corrupted(input=[3], target=[7, 8, 9])
    """
    kept, start, length = sample_spans(
        np.array([len(tokens)]),
        rng=rng,
        max_span_fraction=max_span_fraction,
        min_span=min_span,
        full_length_probability=full_length_probability,
        min_kept_fraction=min_kept_fraction,
    )
    first, last, text = int(start[0]), int(start[0] + length[0]), list(tokens[: kept[0]])
    return Corrupted([*text[:first], UNKNOWN, *text[last:]], text[first:last])


def fill_span(tokens: Sequence[int], span: Sequence[int]) -> list[int]:
    """The inverse of `corrupt_span`.

    >>> fill_span([4, 3, 6], [5, 5])
    [4, 5, 5, 6]
    """
    if (sentinels := list(tokens).count(UNKNOWN)) != 1:
        raise RegardError(
            f"The input has {sentinels} tokens {SPECIAL_TOKENS[UNKNOWN]}, so the position of the span "
            "is ambiguous. Give a text with one span and without out-of-vocabulary tokens."
        )
    position = list(tokens).index(UNKNOWN)
    return [*tokens[:position], *span, *tokens[position + 1 :]]


def corrupt_store(
    store: TokenStore,
    *,
    seed: int,
    epoch: int,
    max_span_fraction: float = 0.5,
    min_span: int = 1,
    full_length_probability: float = 1.0,
    min_kept_fraction: float = 0.25,
) -> TokenStore:
    """Corrupt one span in every target of a store: the input becomes the source, the span the target.

    A function of the store, (seed, epoch) and the options of `sample_spans`.
    """
    kept, start, length = sample_spans(
        store.target_lengths,
        rng=np.random.default_rng([seed, epoch]),
        max_span_fraction=max_span_fraction,
        min_span=min_span,
        full_length_probability=full_length_probability,
        min_kept_fraction=min_kept_fraction,
    )
    offsets = store.target_offsets[:-1]
    row, within, source_offsets = flat_positions(kept - length + 1)
    after = within > start[row]
    text_position = offsets[row] + within + np.where(after, length[row] - 1, 0)
    sentinel = within == start[row]
    source_tokens = np.full(len(row), UNKNOWN, dtype=np.int32)
    source_tokens[~sentinel] = store.target_tokens[text_position[~sentinel]]
    row, within, target_offsets = flat_positions(length)
    return TokenStore(
        source_tokens=source_tokens,
        source_offsets=source_offsets,
        target_tokens=store.target_tokens[offsets[row] + start[row] + within],
        target_offsets=target_offsets,
    )


def sample_spans(
    lengths: Int64[np.ndarray, " texts"],
    *,
    rng: np.random.Generator,
    max_span_fraction: float,
    min_span: int,
    full_length_probability: float,
    min_kept_fraction: float,
) -> Spans:
    """Sample one span for each text length, uniformly.

    max_span_fraction          maximum span length, as a fraction of the truncated text
    min_span                   minimum span length in tokens, if the text has so many
    full_length_probability    probability that a text is not truncated
    min_kept_fraction          minimum fraction a truncated text keeps, and at least one token
    """
    _check_fraction("max_span_fraction", max_span_fraction)
    _check_fraction("min_kept_fraction", min_kept_fraction)
    if not 0 <= full_length_probability <= 1:
        raise RegardError(
            f"full_length_probability={full_length_probability}: it must be from 0 to 1."
        )
    if min_span < 1:
        raise RegardError(f"min_span={min_span}: a span has at least one token. Use 1 or more.")
    min_kept = np.maximum(np.ceil(min_kept_fraction * lengths), np.minimum(1, lengths))
    # Sampled for every text, truncated or not, so that samples do not depend on other texts.
    truncated = rng.integers(min_kept.astype(np.int64), lengths, endpoint=True)
    kept = np.where(rng.random(len(lengths)) < full_length_probability, lengths, truncated)
    low = np.minimum(min_span, kept)
    high = np.maximum(low, np.floor(max_span_fraction * kept).astype(np.int64))
    length = rng.integers(low, high, endpoint=True)
    return Spans(kept, rng.integers(0, kept - length, endpoint=True), length)


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
    _check_fraction("noise_density", noise_density)
    if not 1 <= mean_span_length < float("inf"):
        raise RegardError(
            f"mean_span_length={mean_span_length}: a span has at least one token. Use 1 or more."
        )
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


def fill_spans(tokens: Sequence[int], target: Sequence[int]) -> list[int]:
    """The inverse of `corrupt_spans`.

    >>> fill_spans([4, 3, 6, 3], [3, 5, 3, 7, 8])
    [4, 5, 6, 7, 8]
    """
    spans: list[list[int]] = []
    for position, token in enumerate(target):
        if token == UNKNOWN:
            spans.append([])
        elif position == 0:
            raise RegardError(f"The target must begin with {SPECIAL_TOKENS[UNKNOWN]}.")
        else:
            spans[-1].append(token)
    if (sentinels := list(tokens).count(UNKNOWN)) != len(spans):
        raise RegardError(
            f"The input has {sentinels} sentinels, but the target {len(spans)} spans. Give both as "
            "`corrupt_spans` returned them."
        )
    remaining = iter(spans)
    return [
        token
        for input_token in tokens
        for token in (next(remaining) if input_token == UNKNOWN else [input_token])
    ]


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
    for name, value in (
        ("mask_fraction", mask_fraction),
        ("mask_replace_prob", mask_replace_prob),
        ("random_replace_prob", random_replace_prob),
    ):
        if not 0 <= value <= 1:
            raise RegardError(f"{name}={value}: it must be from 0 to 1.")
    if mask_replace_prob + random_replace_prob > 1:
        raise RegardError(
            f"mask_replace_prob={mask_replace_prob} and random_replace_prob={random_replace_prob} sum "
            "to more than 1. Use for example 0.8 and 0.1."
        )
    if vocab_size <= mask_id + 1:
        raise RegardError(
            f"vocab_size={vocab_size}: there are no ordinary tokens after mask_id={mask_id}."
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


def _check_fraction(name: str, fraction: float) -> None:
    if not 0 < fraction <= 1:
        raise RegardError(f"{name}={fraction}: it must be above 0 and at most 1, such as 0.25.")
