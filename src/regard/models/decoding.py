"""From source sentences to target sentences: greedy search, and the one way in to beam search.

Greedy search says the likeliest next token until that is END. Sentences are decoded together, and
those that are finished leave the batch. What a sentence becomes does not depend on its neighbours.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from regard.core.errors import RegardError
from regard.core.sequence_model import Hypothesis, SequenceModel
from regard.core.special_tokens import END, START
from regard.models.beam import beam_search
from regard.models.next_tokens import likeliest
from regard.models.uncached import Uncached

# Rows leave the batch, which takes a copy, once a part as large as this is finished.
FINISHED_SHARE = 0.125


@torch.inference_mode()
def decode(
    model: SequenceModel,
    source: Int[Tensor, "batch source_length"],
    source_lengths: Int[Tensor, " batch"],
    *,
    beam_size: int = 1,
    length_penalty: float = 1.0,
    max_length: int | None = None,
    cached: bool = True,
) -> list[Hypothesis]:
    """The best sequence found for every row of the source, in the order of the rows.

    beam_size        hypotheses followed at once; 1 is greedy
    length_penalty   a hypothesis of n tokens, END counted, is ranked by log p / n^length_penalty
    max_length       tokens said at most, END counted; 2 × source length + 10 unless given
    cached           False runs the whole prefix again for every token: the same result, slowly
    """
    _require_options(model, beam_size, length_penalty, max_length)
    if not len(source):
        return []
    limits = 2 * source_lengths + 10
    if max_length is not None:
        limits = torch.full_like(source_lengths, max_length)
    steps: Any = model if cached else Uncached(model)
    state = steps.start(source, source_lengths)
    if beam_size == 1:
        return _greedy(steps, state, limits, length_penalty=length_penalty)
    return beam_search(steps, state, limits, beam_size=beam_size, length_penalty=length_penalty)


def _greedy(
    steps: Any, state: Any, limits: Int[Tensor, " batch"], *, length_penalty: float
) -> list[Hypothesis]:
    """`steps` is anything with `step`; `limits` are the most tokens each row may say."""
    device = limits.device
    longest = int(limits.max())
    said = torch.full((len(limits), longest), END, device=device)
    totals = torch.zeros(len(limits), dtype=torch.float64, device=device)
    counts = limits.clone()
    rows = torch.arange(len(limits), device=device)
    going = torch.ones_like(rows, dtype=torch.bool)
    token = torch.full_like(rows, START)
    for length in range(1, longest + 1):
        logits, state = steps.step(state, token)
        best = likeliest(logits, count=1)
        token = best.token[:, 0]
        said[rows, length - 1] = token
        totals[rows] += best.log_probability[:, 0].masked_fill(~going, 0.0)
        counts[rows[going & (token == END)]] = length
        going &= (token != END) & (limits[rows] > length)
        left = int(going.sum())
        if not left:
            break
        if left <= (1 - FINISHED_SHARE) * len(rows):
            index = going.nonzero()[:, 0]
            rows, going, token = rows[index], going[index], token[index]
            state = state.select(index)
    scores = totals / counts.double() ** length_penalty
    return [
        hypothesis(tokens[:count], score)
        for tokens, count, score in zip(
            said.tolist(), counts.tolist(), scores.tolist(), strict=True
        )
    ]


def hypothesis(said: list[int], score: float) -> Hypothesis:
    """What was said, up to its END if it has one."""
    return Hypothesis(tuple(said[:-1] if said[-1] == END else said), score)


def _require_options(
    model: object, beam_size: object, length_penalty: object, max_length: object
) -> None:
    for name, size in (("beam_size", beam_size), ("max_length", max_length)):
        if size is None and name == "max_length":
            continue
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise RegardError(
                f"decode was given {name}={size!r}; it must be a whole number, 1 or more."
            )
    if (
        isinstance(length_penalty, bool)
        or not isinstance(length_penalty, int | float)
        or not 0 <= length_penalty < float("inf")
    ):
        raise RegardError(
            f"decode was given length_penalty={length_penalty!r}; it must be a number, 0 or more: "
            "0 ranks by log p, 1 by log p a token."
        )
    if getattr(model, "training", False):
        raise RegardError(
            "decode was given a model in training mode, whose dropout would make the result random. "
            "Call model.eval() first."
        )
