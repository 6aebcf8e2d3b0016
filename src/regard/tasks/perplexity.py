"""Perplexity: among how many equally likely tokens a model is left to guess, on average."""

from __future__ import annotations

import math

MOST_NATS = 700.0  # e to more than this is no number any more


def perplexity(nats: float) -> float:
    """Of a mean loss in nats a token.

    >>> round(perplexity(math.log(8)), 6)
    8.0
    """
    return math.exp(min(nats, MOST_NATS))
