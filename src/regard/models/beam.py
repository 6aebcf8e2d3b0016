"""Beam search: the `beam_size` best beginnings of every sentence are followed side by side.

    1  every beginning is continued with every token; the best of all of them, as many as there are
       places in the beam, are kept
    2  a kept one that ends in END is finished, and its place in the beam closes
    3  a sentence is done when no place is open, or when none of its beginnings could still become
       better than its best finished one, however long it grew

Finished ones are ranked by log p / length^length_penalty. With one place this is greedy search. A beginning
that reaches the limit unfinished counts only where nothing was finished. As in greedy search, what
is done leaves the batch.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from regard.core.sequence_model import Hypothesis
from regard.core.special_tokens import END, START
from regard.models.next_tokens import likeliest

NEVER = float("-inf")


def beam_search(
    steps: Any,
    state: Any,
    limits: Int[Tensor, " batch"],
    *,
    beam_size: int,
    length_penalty: float,
) -> list[Hypothesis]:
    """`steps` is anything with `step`; `limits` are the most tokens each sentence may have."""
    found = Found(limits, length_penalty=length_penalty)
    device, sentences = limits.device, len(limits)
    places = torch.arange(beam_size, device=device)
    open_places = torch.full((sentences,), beam_size, device=device)
    # One entry a beginning that is followed; those of a sentence stand together, best first.
    sentence = torch.arange(sentences, device=device)
    place = torch.zeros_like(sentence)
    total = torch.zeros(sentences, dtype=torch.float64, device=device)
    said = torch.empty((sentences, 0), dtype=torch.long, device=device)
    token = torch.full_like(sentence, START)
    for length in range(1, int(limits.max()) + 1):
        logits, state = steps.step(state, token)
        candidates = likeliest(logits, count=beam_size)
        count = candidates.token.shape[1]
        grid = total.new_full((sentences, beam_size, count), NEVER)
        grid[sentence, place] = candidates.log_probability + total[:, None]
        entry = torch.zeros((sentences, beam_size), dtype=torch.long, device=device)
        entry[sentence, place] = torch.arange(len(sentence), device=device)
        best, where = grid.flatten(1).topk(beam_size, dim=1)
        parent = entry.gather(1, where // count)
        token_grid = candidates.token[parent, where % count]

        kept = (places < open_places[:, None]) & (best > NEVER)
        ended = kept & (token_grid == END)
        open_places -= ended.sum(dim=1)
        found.finish(said, best, parent, ended, length=length)
        going = kept & ~ended
        at_limit = (limits == length)[:, None] & going
        if at_limit.any():
            found.cut(said, best, parent, token_grid, at_limit, length=length)
            going &= ~at_limit
        going &= found.could_be_beaten(best.masked_fill(~going, NEVER).amax(dim=1))[:, None]

        sentence, column = going.nonzero(as_tuple=True)
        if not len(sentence):
            break
        place = (going.cumsum(dim=1) - 1)[sentence, column]
        index = parent[sentence, column]
        total, token = best[sentence, column], token_grid[sentence, column]
        said = torch.cat([said[index], token[:, None]], dim=1)
        if len(index) != len(logits) or not torch.equal(
            index, torch.arange(len(index), device=device)
        ):
            state = state.select(index)
    return found.hypotheses()


class Found:
    """The best hypothesis of every sentence so far."""

    def __init__(self, limits: Int[Tensor, " batch"], *, length_penalty: float) -> None:
        self.length_penalty = length_penalty
        self.tokens: list[list[int]] = [[] for _ in limits]
        self.scores = torch.full_like(limits, NEVER, dtype=torch.float64)
        # The score of a beginning can rise only by what its total is divided by.
        self.greatest_divisor = limits.double() ** length_penalty

    def finish(
        self, said: Tensor, totals: Tensor, parent: Tensor, ended: Tensor, *, length: int
    ) -> None:
        """Take those of the grid (sentence, place) that ended, if they are the best so far."""
        if not ended.any():
            return
        scores = totals.masked_fill(~ended, NEVER) / length**self.length_penalty
        best, column = scores.max(dim=1)
        better = (best > self.scores).nonzero()[:, 0]
        self.scores[better] = best[better]
        beginnings = said[parent[better, column[better]]].tolist()
        for sentence, tokens in zip(better.tolist(), beginnings, strict=True):
            self.tokens[sentence] = tokens

    def cut(
        self,
        said: Tensor,
        totals: Tensor,
        parent: Tensor,
        tokens: Tensor,
        at_limit: Tensor,
        *,
        length: int,
    ) -> None:
        """Take the best of those at the limit, for sentences where nothing was finished."""
        scores = totals.masked_fill(~at_limit, NEVER) / length**self.length_penalty
        best, column = scores.max(dim=1)
        for sentence in ((self.scores == NEVER) & (best > NEVER)).nonzero()[:, 0].tolist():
            place = int(column[sentence])
            beginning = said[parent[sentence, place]].tolist()
            self.tokens[sentence] = [*beginning, int(tokens[sentence, place])]
            self.scores[sentence] = best[sentence]

    def could_be_beaten(self, totals: Tensor) -> Tensor:
        """Whether a beginning of this total, one a sentence, may yet become the best."""
        return totals / self.greatest_divisor > self.scores

    def hypotheses(self) -> list[Hypothesis]:
        """One a sentence, in order."""
        return [
            Hypothesis(tuple(tokens), score)
            for tokens, score in zip(self.tokens, self.scores.tolist(), strict=True)
        ]
