"""Known patterns of self-attention heads, and how much of each a head has: from 0 to 1.

    previous_token   position i attends to i − 1
    first_token      position i > 0 attends to position 0: an attention sink (Xiao et al. 2024)
    same_token       position i attends to other occurrences of its own token
    induction        position i attends to what followed earlier occurrences of its token, so that a
                     sequence that is seen again can be continued (Olsson et al. 2022)
    diagonal         position i attends to itself

A score is the share of |W| in a row that goes where the pattern says, averaged over the rows where the
pattern is possible. Weights may be negative: rows of |W| are normalised to a sum of 1.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.core.errors import RegardError
from regard.core.records.look import HeadScores
from regard.explain.trace import AttentionCall

PATTERNS: dict[str, str] = {
    "previous_token": "attends to the position before",
    "first_token": "attends to the first position (sink)",
    "same_token": "attends to other occurrences of the same token",
    "induction": "attends to what followed earlier occurrences of the token",
    "diagonal": "attends to its own position",
}


@torch.no_grad()
def score_patterns(
    calls: Iterable[AttentionCall],
    tokens: Int[Tensor, "batch length"] | None = None,
    *,
    lengths: Int[Tensor, " batch"] | None = None,
) -> tuple[HeadScores, ...]:
    """The scores of every head of self-attention with as many positions as `tokens`; heads count from "1".

    tokens    what stands at every position; without them, as of images, patterns of tokens are left out
    lengths   of the rows, without padding

    A pattern that no row can have is left out, such as same_token in a text without repetition.
    """
    found = []
    for call in calls:
        if call.role != "self" or (tokens is not None and call.num_keys != tokens.shape[1]):
            continue
        if tokens is not None and len(tokens) != len(call.value):
            raise RegardError(
                f"score_patterns got tokens of {len(tokens)} rows, but the layer '{call.name}' was called "
                f"with {len(call.value)}. Pass the tokens of the traced call."
            )
        shares = F.normalize(call.weights().abs(), p=1, dim=-1)
        patterns = _pattern_masks(shares, tokens, call.is_causal)
        is_row = _rows(shares, lengths)
        scores = {name: _score(shares, each & is_row) for name, each in patterns.items()}
        found += [
            HeadScores(
                layer=call.name,
                head=str(head + 1),
                scores={
                    name: each[head].item() for name, each in scores.items() if each is not None
                },
            )
            for head in range(call.num_heads)
        ]
    return tuple(found)


Pattern = Bool[Tensor, "_batch queries keys"]


def _pattern_masks(
    shares: Float[Tensor, "batch heads queries keys"],
    tokens: Int[Tensor, "batch keys"] | None,
    is_causal: bool,
) -> dict[str, Pattern]:
    """Where each pattern attends to, by query; a query without such a key is not counted."""
    position = torch.arange(shares.shape[3], device=shares.device)
    distance = (position[:, None] - position)[None]
    found = {"previous_token": distance == 1, "first_token": (distance > 0) & (position == 0)}
    if tokens is not None:
        is_same = tokens[:, :, None] == tokens[:, None, :]
        found["same_token"] = is_same & ((distance > 0) if is_causal else (distance != 0))
        # Key j + 1 if token j is the query's; of "a a" that is the query itself, which is no induction.
        after = torch.zeros_like(is_same)
        after[:, :, 1:] = is_same[:, :, :-1]
        found["induction"] = after & (distance > 0)
    found["diagonal"] = distance == 0
    return {name: found[name] for name in PATTERNS if name in found}


def _rows(
    shares: Float[Tensor, "batch heads queries keys"], lengths: Int[Tensor, " batch"] | None
) -> Bool[Tensor, "_batch queries 1"]:
    position = torch.arange(shares.shape[2], device=shares.device)
    if lengths is None:
        return torch.ones_like(position, dtype=torch.bool)[None, :, None]
    return (position < lengths[:, None])[:, :, None]


def _score(
    shares: Float[Tensor, "batch heads queries keys"], pattern: Pattern
) -> Float[Tensor, " heads"] | None:
    """The mean over the queries with such a place of the share that goes there."""
    pattern = pattern.expand(shares.shape[0], -1, -1)
    is_counted = pattern.any(dim=2)
    if not is_counted.any():
        return None
    there = (shares * pattern[:, None]).sum(dim=3)
    return there.sum(dim=(0, 2)) / is_counted.sum()
