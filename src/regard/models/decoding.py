"""From source sentences to target sentences: greedy search, and the one way in to beam search.

Greedy search says the likeliest next token until that is END. Sentences are decoded together, and
those that are finished leave the batch. What a sentence becomes does not depend on its neighbours.
A large batch is dealt out to threads.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from regard.core.errors import RegardError
from regard.core.sequence_model import Hypothesis, SequenceModel
from regard.core.special_tokens import END, START
from regard.models.beam import beam_search
from regard.models.next_tokens import likeliest
from regard.models.side_by_side import side_by_side
from regard.models.uncached import Uncached

# Rows leave the batch, which takes a copy, once a part as large as this is finished.
FINISHED_SHARE = 0.125
# Fewer rows are not worth a thread of their own.
LEAST_ROWS_A_THREAD = 16


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
    max_length       tokens said at most, END counted; 2 × source length + 10 unless given, and never
                     more than the model can take
    cached           False runs the whole prefix again for every token: the same result, slowly
    """
    _require_options(model, beam_size, length_penalty, max_length)
    steps: Any = model if cached else Uncached(model)

    @torch.inference_mode()
    def search(rows: Tensor) -> list[Hypothesis]:
        lengths = source_lengths[rows]
        limits = 2 * lengths + 10 if max_length is None else torch.full_like(lengths, max_length)
        most = model.target_limits(lengths)
        if most is not None:
            limits = limits.minimum(most)
            _require_room(lengths, most)
        state = steps.start(source[rows, : int(lengths.max())], lengths)
        if beam_size == 1:
            return _greedy(steps, state, limits, length_penalty=length_penalty)
        return beam_search(steps, state, limits, beam_size=beam_size, length_penalty=length_penalty)

    if not len(source):
        return []
    dealt = deal(source_lengths)
    found: list[Hypothesis | None] = [None] * len(source)
    results = side_by_side([partial(search, rows) for rows in dealt])
    for rows, hypotheses in zip(dealt, results, strict=True):
        for row, one in zip(rows.tolist(), hypotheses, strict=True):
            found[row] = one
    return [one for one in found if one is not None]


def deal(lengths: Int[Tensor, " batch"]) -> list[Int[Tensor, " _"]]:
    """The row numbers of each thread's share: about as many tokens for each, long and short alike."""
    hands = min(torch.get_num_threads(), len(lengths) // LEAST_ROWS_A_THREAD)
    if hands < 2 or lengths.device.type != "cpu":
        return [torch.arange(len(lengths), device=lengths.device)]
    order = lengths.argsort(stable=True)
    return [order[hand::hands] for hand in range(hands)]


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


def _require_room(source_lengths: Tensor, most: Tensor) -> None:
    if int(most.min()) < 1:
        row = int(most.argmin())
        raise RegardError(
            f"A source of {int(source_lengths[row]) - 1} tokens fills all places that the model has "
            "(max_length), so it can say nothing after it. Give a shorter text, or train a model with a "
            "larger max_length."
        )


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
