"""Which tokens may come next, and how likely each is."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.core.special_tokens import PAD, START

NEVER_SAID = (PAD, START)
# Finding maxima of pieces is much quicker than finding where a maximum stands.
PIECE = 100


class Candidates(NamedTuple):
    """The likeliest next tokens of every row, best first."""

    log_probability: Float[Tensor, "rows candidates"]
    token: Int[Tensor, "rows candidates"]


def likeliest(logits: Float[Tensor, "rows vocabulary"], *, count: int) -> Candidates:
    """The `count` best tokens of each row, or all there are; PAD and START are never said."""
    log_probabilities = torch.log_softmax(logits, dim=-1)
    for never in NEVER_SAID:
        log_probabilities[:, never] = float("-inf")
    count = min(count, logits.shape[1])
    pieces = logits.shape[1] // PIECE
    if pieces < 2 * count:
        return best_of(log_probabilities, count)
    # The best are in the pieces with the best maxima, or in what is left over at the end.
    end = pieces * PIECE
    cut = log_probabilities[:, :end].unflatten(1, (pieces, PIECE))
    chosen = best_of(cut.amax(dim=-1), count).token
    within = cut.gather(1, chosen[:, :, None].expand(-1, -1, PIECE)).flatten(1)
    found = best_of(torch.cat([within, log_probabilities[:, end:]], dim=1), count)
    in_piece = chosen.gather(1, (found.token // PIECE).clamp(max=count - 1)) * PIECE
    left_over = found.token - count * PIECE
    token = torch.where(left_over < 0, in_piece + found.token % PIECE, left_over + end)
    return found._replace(token=token)


def best_of(values: Float[Tensor, "rows choices"], count: int) -> Candidates:
    """The largest values of each row and where they stand, best first."""
    if count == 1:
        return Candidates(*values.max(dim=-1, keepdim=True))
    return Candidates(*values.topk(count, dim=-1))
