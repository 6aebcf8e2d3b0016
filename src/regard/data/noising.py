"""Span corruption: part of a text is cut out, and what is left asks for it (Raffel et al. 2020).

    a b c d e f     one gap:       shown  a b ? f           hidden  c d e
    a b c d e f     several gaps:  shown  a ? c d ?         hidden  ? b ? e f

Where something is missing stands UNKNOWN, written ? here, so no vocabulary needs a token of its own
for it. With one gap, a text may first be cut short, so that texts also end where they did not.
Raffel et al. number their gaps; here they are told apart by their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int64

from regard.core.batches import SPECIAL_TOKENS, UNKNOWN
from regard.core.errors import RegardError
from regard.data.token_store import TokenStore, flat_places


class Corrupted(NamedTuple):
    """What is left of a text, and what was taken out of it."""

    shown: list[int]
    hidden: list[int]


class Cuts(NamedTuple):
    """For every text: how many tokens are kept, where its gap begins, and how many the gap takes."""

    kept: Int64[np.ndarray, " texts"]
    start: Int64[np.ndarray, " texts"]
    taken: Int64[np.ndarray, " texts"]


def corrupt(
    tokens: Sequence[int],
    *,
    rng: np.random.Generator,
    longest_share: float = 0.5,
    shortest: int = 1,
    keep_whole: float = 1.0,
    shortest_kept_share: float = 0.25,
) -> Corrupted:
    """One text with one gap; the options are those of `drawn_cuts`.

    >>> corrupt([7, 8, 9], rng=np.random.default_rng(0), longest_share=1.0, shortest=3)
    Corrupted(shown=[3], hidden=[7, 8, 9])
    """
    kept, start, taken = drawn_cuts(
        np.array([len(tokens)]),
        rng=rng,
        longest_share=longest_share,
        shortest=shortest,
        keep_whole=keep_whole,
        shortest_kept_share=shortest_kept_share,
    )
    first, last, text = int(start[0]), int(start[0] + taken[0]), list(tokens[: kept[0]])
    return Corrupted([*text[:first], UNKNOWN, *text[last:]], text[first:last])


def put_together(shown: Sequence[int], span: Sequence[int]) -> list[int]:
    """The text that `corrupt` made these two of.

    >>> put_together([4, 3, 6], [5, 5])
    [4, 5, 5, 6]
    """
    if (gaps := list(shown).count(UNKNOWN)) != 1:
        raise RegardError(
            f"What is shown has {gaps} tokens {SPECIAL_TOKENS[UNKNOWN]}, so it does not say where the "
            "span belongs. Give a text with one gap, of a vocabulary that knows all of it."
        )
    gap = list(shown).index(UNKNOWN)
    return [*shown[:gap], *span, *shown[gap + 1 :]]


def corrupted_store(
    store: TokenStore,
    *,
    seed: int,
    epoch: int,
    longest_share: float = 0.5,
    shortest: int = 1,
    keep_whole: float = 1.0,
    shortest_kept_share: float = 0.25,
) -> TokenStore:
    """Every target of a store with one gap: what is shown is the source, what is hidden the target.

    A function of the store, (seed, epoch) and the options of `drawn_cuts` alone.
    """
    kept, start, taken = drawn_cuts(
        store.target_lengths,
        rng=np.random.default_rng([seed, epoch]),
        longest_share=longest_share,
        shortest=shortest,
        keep_whole=keep_whole,
        shortest_kept_share=shortest_kept_share,
    )
    firsts = store.target_offsets[:-1]
    row, within, source_offsets = flat_places(kept - taken + 1)
    after = within > start[row]
    text_place = firsts[row] + within + np.where(after, taken[row] - 1, 0)
    gap = within == start[row]
    source_tokens = np.full(len(row), UNKNOWN, dtype=np.int32)
    source_tokens[~gap] = store.target_tokens[text_place[~gap]]
    row, within, target_offsets = flat_places(taken)
    return TokenStore(
        source_tokens=source_tokens,
        source_offsets=source_offsets,
        target_tokens=store.target_tokens[firsts[row] + start[row] + within],
        target_offsets=target_offsets,
    )


def drawn_cuts(
    lengths: Int64[np.ndarray, " texts"],
    *,
    rng: np.random.Generator,
    longest_share: float,
    shortest: int,
    keep_whole: float,
    shortest_kept_share: float,
) -> Cuts:
    """Where texts of these lengths are cut; all choices are uniform.

    longest_share         a gap takes at most this share of what is kept, if that is `shortest` or more
    shortest              a gap takes at least so many tokens, if the text has them
    keep_whole            the probability that a text is not cut short
    shortest_kept_share   a text that is cut short keeps at least this share, and at least one token
    """
    _check_share("longest_share", longest_share)
    _check_share("shortest_kept_share", shortest_kept_share)
    if not 0 <= keep_whole <= 1:
        raise RegardError(
            f"keep_whole={keep_whole}: it is a probability. Use a number from 0 to 1."
        )
    if shortest < 1:
        raise RegardError(f"shortest={shortest}: a gap takes at least one token. Use 1 or more.")
    least = np.maximum(np.ceil(shortest_kept_share * lengths), np.minimum(1, lengths))
    # Drawn for every text, cut short or not, so that one text's length does not move the next one's.
    shortened = rng.integers(least.astype(np.int64), lengths, endpoint=True)
    kept = np.where(rng.random(len(lengths)) < keep_whole, lengths, shortened)
    low = np.minimum(shortest, kept)
    high = np.maximum(low, np.floor(longest_share * kept).astype(np.int64))
    taken = rng.integers(low, high, endpoint=True)
    return Cuts(kept, rng.integers(0, kept - taken, endpoint=True), taken)


def corrupt_spans(
    tokens: Sequence[int], *, share: float, mean_length: float, rng: np.random.Generator
) -> Corrupted:
    """Several gaps that do not touch, which take `share` of the tokens, rounded, and at least one.

    There are as many gaps as make them `mean_length` tokens long on average, rounded.
    """
    _check_share("share", share)
    if not 1 <= mean_length < float("inf"):
        raise RegardError(
            f"mean_length={mean_length}: a gap takes one token or more. Use 1 or more."
        )
    if UNKNOWN in tokens:
        raise RegardError(
            f"The text has {SPECIAL_TOKENS[UNKNOWN]} in it, which would be taken for a gap. Use a "
            "vocabulary that knows all of it, or leave the text out."
        )
    if not tokens:
        return Corrupted([], [])
    taken = max(1, round(share * len(tokens)))
    left = len(tokens) - taken
    gaps = min(max(1, round(taken / mean_length)), taken, left + 1)
    # Something stands between two gaps; before the first and after the last there may be nothing.
    between = _parts(left + 2, gaps + 1, rng=rng)
    between[[0, -1]] -= 1
    shown, hidden, place = list[int](), list[int](), 0
    for kept, cut in zip(between, [*_parts(taken, gaps, rng=rng), 0], strict=True):
        shown += tokens[place : place + kept]
        if cut:
            shown.append(UNKNOWN)
            hidden += [UNKNOWN, *tokens[place + kept : place + kept + cut]]
        place += kept + cut
    return Corrupted(shown, hidden)


def put_spans_together(shown: Sequence[int], hidden: Sequence[int]) -> list[int]:
    """The text that `corrupt_spans` made these two of.

    >>> put_spans_together([4, 3, 6, 3], [3, 5, 3, 7, 8])
    [4, 5, 6, 7, 8]
    """
    spans: list[list[int]] = []
    for place, token in enumerate(hidden):
        if token == UNKNOWN:
            spans.append([])
        elif place == 0:
            raise RegardError(f"What was hidden must begin with {SPECIAL_TOKENS[UNKNOWN]}.")
        else:
            spans[-1].append(token)
    if (gaps := list(shown).count(UNKNOWN)) != len(spans):
        raise RegardError(
            f"What is shown has {gaps} gaps, but {len(spans)} spans were hidden. Give both as "
            "`corrupt_spans` made them."
        )
    following = iter(spans)
    return [
        token
        for shown_token in shown
        for token in (next(following) if shown_token == UNKNOWN else [shown_token])
    ]


def _parts(total: int, parts: int, *, rng: np.random.Generator) -> Int64[np.ndarray, " parts"]:
    """`total` as a sum of numbers that are 1 or more, each such sum as likely as any other."""
    cuts = np.sort(rng.choice(total - 1, size=parts - 1, replace=False)) + 1
    return np.diff(cuts, prepend=0, append=total)


def _check_share(name: str, share: float) -> None:
    if not 0 < share <= 1:
        raise RegardError(f"{name}={share}: a share is above 0 and at most 1. Use such as 0.25.")


# Masking: some tokens of every row are to be told from the others (Devlin et al. 2019, section
# 3.1).
#
# reads    START the [MASK] sat on a     mat END        wants   · · cat · · a   · · reads    START
# the cat    sat on green mat END        wants   · · ·   · · the · ·
#
# Of the places that are to be told, most are hidden behind MASK, some hold a random token and some
# are left as they are: a model that never sees MASK afterwards must make something of every token,
# masked or not.


NOTHING = -1
"""What is wanted where nothing is to be told."""


class MaskedRows(NamedTuple):
    """What is read, and what is to be told; NOTHING where nothing is."""

    tokens: Int64[np.ndarray, "rows width"]
    wanted: Int64[np.ndarray, "rows width"]


def masked_rows(
    tokens: Int64[np.ndarray, "rows width"],
    *,
    rng: np.random.Generator,
    mask: int,
    vocabulary: int,
    share: float = 0.15,
    hidden: float = 0.8,
    random: float = 0.1,
) -> MaskedRows:
    """Choose `share` of the ordinary tokens of each row, rounded, and at least one if there are any.

    Ordinary are the tokens after `mask`: neither it nor the special ones before it are ever chosen or
    put in. Of the chosen, about `hidden` become `mask`, `random` any ordinary token, the rest stay.
    """
    for name, value in (("share", share), ("hidden", hidden), ("random", random)):
        if not 0 <= value <= 1:
            raise RegardError(f"{name}={value}: it is a share. Use a number from 0 to 1.")
    if hidden + random > 1:
        raise RegardError(
            f"hidden={hidden} and random={random} are together more than all. Use such as 0.8 and 0.1."
        )
    if vocabulary <= mask + 1:
        raise RegardError(
            f"vocabulary={vocabulary} has no tokens after mask={mask}: there is nothing to be told."
        )
    ordinary = tokens > mask
    counts = ordinary.sum(axis=1, keepdims=True)
    chosen_counts = np.where(counts > 0, np.maximum(1, np.rint(share * counts)), 0)
    # A random order of the ordinary places of each row; the first so many of it are chosen.
    keys = np.where(ordinary, rng.random(tokens.shape), np.inf)
    ranks = keys.argsort(axis=1).argsort(axis=1)
    chosen = ranks < chosen_counts
    fate = rng.random(tokens.shape)
    replaced = np.where(fate < hidden, mask, rng.integers(mask + 1, vocabulary, tokens.shape))
    return MaskedRows(
        np.where(chosen & (fate < hidden + random), replaced, tokens),
        np.where(chosen, tokens, NOTHING),
    )
