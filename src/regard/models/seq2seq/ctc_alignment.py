"""CTC alignment of a known output to the frames: its best path, and the posterior of its tokens.

The paths of an output y₁ … y_n run through 2n + 1 states, one per frame, from one of the first two to one
of the last two (Graves et al. 2006, section 4.1):

    blank y₁ blank y₂ … y_n blank      a state is kept, or left for the next one; a blank may be skipped
                                       between two different tokens

`forced_alignment` finds the best path (Viterbi), `token_posteriors` sums over all (forward–backward), both
in log space.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.core.normalise import softmax_over_keys
from regard.models.generation.ctc_search import BLANK, MINUS_INFINITY

NO_TOKEN = -1  # of a frame that is a blank or padding


def min_frames(
    tokens: Int[Tensor, "batch tokens"], counts: Int[Tensor, " batch"]
) -> Int[Tensor, " batch"]:
    """The fewest frames that have a path: one per token, and a blank between equal neighbours.

    >>> min_frames(torch.tensor([[5, 5, 4]]), torch.tensor([3]))
    tensor([4])
    """
    position = torch.arange(tokens.shape[1], device=tokens.device)[1:]
    repeated = (tokens[:, 1:] == tokens[:, :-1]) & (position < counts[:, None])
    return counts + repeated.sum(dim=1)


class Trellis(NamedTuple):
    """The states of each row's output, and their log-probabilities in every frame.

    can_skip   whether a state is also entered from the one before the last
    is_final   the last two states, in which a path ends
    """

    scores: Float[Tensor, "batch frames states"]
    can_skip: Bool[Tensor, "batch states"]
    is_final: Bool[Tensor, "batch states"]
    lengths: Int[Tensor, " batch"]

    @classmethod
    def of(
        cls,
        log_probabilities: Float[Tensor, "batch frames vocabulary"],
        lengths: Int[Tensor, " batch"],
        tokens: Int[Tensor, "batch tokens"],
        counts: Int[Tensor, " batch"],
    ) -> Trellis:
        """The trellis of the first `counts` tokens of each row, in its first `lengths` frames."""
        frames, blanks = log_probabilities.shape[1], torch.full_like(tokens, BLANK)
        states = F.pad(torch.stack([blanks, tokens], dim=2).flatten(1), (0, 1), value=BLANK)
        two_before = F.pad(states, (2, 0), value=BLANK)[:, :-2]
        number = torch.arange(states.shape[1], device=states.device)
        last = 2 * counts[:, None]
        return cls(
            scores=log_probabilities.gather(2, states[:, None].expand(-1, frames, -1)),
            can_skip=(states != BLANK) & (states != two_before),
            is_final=(number <= last) & (number >= last - 1),
            lengths=lengths,
        )

    def first(self) -> Float[Tensor, "batch states"]:
        """log p of each state in the first frame: a path starts in one of the first two."""
        number = torch.arange(self.scores.shape[2], device=self.scores.device)
        return self.scores[:, 0].masked_fill(number > 1, MINUS_INFINITY)

    def before(self, values: Float[Tensor, "batch states"]) -> Float[Tensor, "3 batch states"]:
        """The values of the states that each state is entered from: itself, and the two before."""
        one, two = (F.pad(values, (by, 0), value=MINUS_INFINITY)[:, :-by] for by in (1, 2))
        return torch.stack([values, one, two.masked_fill(~self.can_skip, MINUS_INFINITY)])

    def after(self, values: Float[Tensor, "batch states"]) -> Float[Tensor, "3 batch states"]:
        """The values of the states that each state is left for: itself, and the two after."""
        skipped = values.masked_fill(~self.can_skip, MINUS_INFINITY)
        one, two = (
            F.pad(shifted, (0, by), value=MINUS_INFINITY)[:, by:]
            for by, shifted in ((1, values), (2, skipped))
        )
        return torch.stack([values, one, two])


class ForcedAlignment(NamedTuple):
    """The index of the token of each frame, or NO_TOKEN, on the best path, and log p of that path.

    Without a path, all frames have NO_TOKEN, and log p is −∞.
    """

    tokens: Int[Tensor, "batch frames"]
    log_probability: Float[Tensor, " batch"]


def forced_alignment(
    log_probabilities: Float[Tensor, "batch frames vocabulary"],
    lengths: Int[Tensor, " batch"],
    tokens: Int[Tensor, "batch tokens"],
    counts: Int[Tensor, " batch"],
) -> ForcedAlignment:
    """Which frame belongs to which of the first `counts` tokens of each row, on the best path (Viterbi)."""
    trellis = Trellis.of(log_probabilities, lengths, tokens, counts)
    best, steps, ends = trellis.first(), [], [trellis.first()]
    for frame in range(1, log_probabilities.shape[1]):
        best, step = trellis.before(best).max(dim=0)
        best = best + trellis.scores[:, frame]
        steps.append(step)
        ends.append(best)
    rows = torch.arange(len(lengths), device=lengths.device)
    final = torch.stack(ends, dim=1)[rows, lengths - 1]
    log_probability, state = final.masked_fill(~trellis.is_final, MINUS_INFINITY).max(dim=1)
    path = [state]
    for frame in range(len(steps), 0, -1):
        left = steps[frame - 1].gather(1, state[:, None])[:, 0]
        state = torch.where(frame < lengths, state - left, state)
        path.append(state)
    states = torch.stack(path[::-1], dim=1)
    position = torch.arange(states.shape[1], device=states.device)
    is_token = (states % 2 == 1) & (position < lengths[:, None])
    is_token &= (log_probability > MINUS_INFINITY)[:, None]
    return ForcedAlignment(torch.where(is_token, states // 2, NO_TOKEN), log_probability)


def token_posteriors(
    log_probabilities: Float[Tensor, "batch frames vocabulary"],
    lengths: Int[Tensor, " batch"],
    tokens: Int[Tensor, "batch tokens"],
    counts: Int[Tensor, " batch"],
) -> Float[Tensor, "batch tokens frames"]:
    """For each token, its distribution over frames: p(the path is in the token's state | the output).

    Divided by its sum, the expected number of frames of the token. Zeros beyond `counts`, and in rows
    without a path.
    """
    trellis = Trellis.of(log_probabilities, lengths, tokens, counts)
    frames = log_probabilities.shape[1]
    # log p of all paths up to a state in a frame, and, backwards, of all from there to the end.
    forward = [trellis.first()]
    for frame in range(1, frames):
        forward.append(trellis.before(forward[-1]).logsumexp(dim=0) + trellis.scores[:, frame])
    final = torch.zeros_like(forward[0]).masked_fill(~trellis.is_final, MINUS_INFINITY)
    ahead, backward = torch.full_like(final, MINUS_INFINITY), []
    for frame in range(frames - 1, -1, -1):
        ahead = torch.where((lengths - 1 == frame)[:, None], final, ahead)
        backward.append(ahead)
        ahead = trellis.after(ahead + trellis.scores[:, frame]).logsumexp(dim=0)
    both = torch.stack(forward, dim=2) + torch.stack(backward[::-1], dim=2)
    of_tokens = both[:, 1::2]
    return softmax_over_keys(of_tokens, of_tokens > MINUS_INFINITY)
