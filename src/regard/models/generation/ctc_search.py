"""Decoding of CTC log-probabilities: the best path, and prefix beam search.

A path has one token or blank per frame; repeats are merged, then blanks are dropped (Graves et al. 2006):

    a a – a b b –   →   a a b

Many paths give one output. `best_path` takes the most probable path; `prefix_beam_search` sums over the
paths of each output.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.core.batches import PAD
from regard.core.device import float64_on
from regard.core.protocols import Hypothesis

# No target holds padding, so that its id is free for the blank, and no token's id moves.
BLANK = PAD
MINUS_INFINITY = float("-inf")


def best_path(
    log_probabilities: Float[Tensor, "batch frames vocabulary"], lengths: Int[Tensor, " batch"]
) -> list[Hypothesis]:
    """Greedy decoding: the most probable token of every frame; scores are log p of that path."""
    best, path = log_probabilities.max(dim=-1)
    is_frame = torch.arange(path.shape[1], device=path.device) < lengths[:, None]
    before = F.pad(path[:, :-1], (1, 0), value=BLANK)
    kept = is_frame & (path != BLANK) & (path != before)
    scores = best.masked_fill(~is_frame, 0.0).sum(dim=1).tolist()
    return [
        Hypothesis(tuple(row[emits].tolist()), score)
        for row, emits, score in zip(path, kept, scores, strict=True)
    ]


class Prefixes(NamedTuple):
    """The most probable outputs of every row so far, best first; unused ones have log p = −∞.

    The paths of a prefix end in a blank or in its last token: a repeated token extends only the former.
    """

    tokens: Int[Tensor, "batch beams frames"]  # BLANK after the last
    counts: Int[Tensor, "batch beams"]
    in_blank: Float[Tensor, "batch beams"]
    in_token: Float[Tensor, "batch beams"]

    @classmethod
    def empty(cls, like: Float[Tensor, "batch frames vocabulary"], *, beam_size: int) -> Self:
        """The empty prefix of each row."""
        batch, frames, _ = like.shape
        tokens = torch.full((batch, beam_size, frames), BLANK, device=like.device)
        impossible = like.new_full((batch, beam_size), MINUS_INFINITY)
        in_blank = impossible.clone()
        in_blank[:, 0] = 0.0
        return cls(tokens, torch.zeros_like(tokens[:, :, 0]), in_blank, impossible)

    @property
    def total(self) -> Float[Tensor, "batch beams"]:
        """log p of each prefix."""
        return torch.logaddexp(self.in_blank, self.in_token)

    def last(self) -> Int[Tensor, "batch beams"]:
        """The last token of each prefix; BLANK if it is empty."""
        index = (self.counts - 1).clamp(min=0)
        return self.tokens.gather(2, index[:, :, None])[:, :, 0]

    def is_parent(self) -> Bool[Tensor, "batch beams beams"]:
        """Whether prefix i is prefix j without its last token."""
        index = (self.counts - 1).clamp(min=0)[:, :, None]
        parents = self.tokens.scatter(2, index, BLANK)
        same = (self.tokens[:, :, None] == parents[:, None]).all(dim=-1)
        # An unused prefix may be a copy of another one, which must not count twice.
        return same & ((self.counts > 0) & (self.total > MINUS_INFINITY))[:, None]


def prefix_beam_search(
    log_probabilities: Float[Tensor, "batch frames vocabulary"],
    lengths: Int[Tensor, " batch"],
    *,
    beam_size: int,
) -> list[Hypothesis]:
    """The best outputs by log p, summed over paths that stay among the best `beam_size` prefixes.

    Frame by frame, as Hannun et al. (2014), algorithm 1, without a language model; all rows at once.
    """
    scores = log_probabilities.to(float64_on(log_probabilities.device))
    prefixes = Prefixes.empty(scores, beam_size=beam_size)
    for frame in range(int(lengths.max())):
        extended = _extend(prefixes, scores[:, frame])
        is_frame = (frame < lengths)[:, None]
        prefixes = Prefixes(
            torch.where(is_frame[:, :, None], extended.tokens, prefixes.tokens),
            *(
                torch.where(is_frame, *both)
                for both in zip(extended[1:], prefixes[1:], strict=True)
            ),
        )
    totals, best = prefixes.total.max(dim=1)
    rows = torch.arange(len(best), device=best.device)
    tokens, counts = prefixes.tokens[rows, best].tolist(), prefixes.counts[rows, best].tolist()
    return [
        Hypothesis(tuple(row[:count]), total)
        for row, count, total in zip(tokens, counts, totals.tolist(), strict=True)
    ]


def _extend(prefixes: Prefixes, scores: Float[Tensor, "batch vocabulary"]) -> Prefixes:
    """The best prefixes after one more frame: each stays, or one token longer."""
    beams, vocabulary = prefixes.counts.shape[1], scores.shape[1]
    total, last = prefixes.total, prefixes.last()
    in_blank = total + scores[:, BLANK, None]
    in_token = prefixes.in_token + scores.gather(1, last)
    # A token after itself needs a blank between.
    longer = total[:, :, None] + scores[:, None]
    repeated = prefixes.in_blank + scores.gather(1, last)
    longer = longer.scatter(2, last[:, :, None], repeated[:, :, None])
    longer[:, :, BLANK] = MINUS_INFINITY
    # Where a longer prefix is in the beam already, its paths join those of the one that is there.
    is_parent, tokens = prefixes.is_parent(), last[:, None].expand(-1, beams, -1)
    joining = longer.gather(2, tokens).masked_fill(~is_parent, MINUS_INFINITY)
    in_token = torch.logaddexp(in_token, joining.logsumexp(dim=1))
    joined = torch.zeros_like(joining).masked_fill(is_parent, MINUS_INFINITY)
    longer = longer.scatter_add(2, tokens, joined)

    choices = torch.cat([torch.logaddexp(in_blank, in_token), longer.flatten(1)], dim=1)
    _, chosen = choices.topk(beams, dim=1)
    stays, extension = chosen < beams, (chosen - beams).clamp(min=0)
    beam = torch.where(stays, chosen, extension // vocabulary)
    token = torch.where(stays, BLANK, extension % vocabulary)
    counts = prefixes.counts.gather(1, beam)
    of_beam = beam[:, :, None].expand(-1, -1, prefixes.tokens.shape[2])
    kept = prefixes.tokens.gather(1, of_beam)
    # A prefix that stays keeps its last place as it is.
    place = torch.where(stays, kept.shape[2] - 1, counts)[:, :, None]
    added = torch.where(stays, kept[:, :, -1], token)[:, :, None]
    return Prefixes(
        tokens=kept.scatter(2, place, added),
        counts=counts + ~stays,
        in_blank=in_blank.gather(1, beam).masked_fill(~stays, MINUS_INFINITY),
        in_token=torch.where(
            stays, in_token.gather(1, beam), longer.flatten(1).gather(1, extension)
        ),
    )
