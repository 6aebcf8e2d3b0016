"""Masking: some tokens of every row are to be told from the others (Devlin et al. 2019, section 3.1).

    reads    START the [MASK] sat on a     mat END        wants   · · cat · · a   · ·
    reads    START the cat    sat on green mat END        wants   · · ·   · · the · ·

Of the places that are to be told, most are hidden behind MASK, some hold a random token and some are left
as they are: a model that never sees MASK afterwards must make something of every token, masked or not.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Int64

from regard.core.errors import RegardError

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
