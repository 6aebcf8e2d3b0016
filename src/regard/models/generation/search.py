"""From source sentences to target sentences: greedy search, and the one way in to beam search.

Greedy search says the likeliest next token until that is END. Sentences are decoded together, and
those that are finished leave the batch. What a sentence becomes does not depend on its neighbours.
A large batch is dealt out to threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple, Self, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.core.batches import END, PAD, START
from regard.core.errors import RegardError
from regard.core.mechanism import Step, select_rows
from regard.core.protocols import Hypothesis, SequenceModel

# Which tokens may come next, and how likely each is.


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


# Beam search: the `beam_size` best beginnings of every sentence are followed side by side.
#
# 1  every beginning is continued with every token; the best of all of them, as many as there are
# places in the beam, are kept 2  a kept one that ends in END is finished, and its place in the beam
# closes 3  a sentence is done when no place is open, or when none of its beginnings could still
# become better than its best finished one, however long it grew
#
# Finished ones are ranked by log p / length^length_penalty. With one place this is greedy search. A
# beginning that reaches the limit unfinished counts only where nothing was finished. As in greedy
# search, what is done leaves the batch.


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


# Decoding without a memory: every step runs the whole prefix again, as training does.
#
# Slow, and the reference that a model's own `start` and `step` are held to.


class Prefix(NamedTuple):
    """The state: the source and all tokens so far."""

    source: Int[Tensor, "batch source_length"]
    source_lengths: Int[Tensor, " batch"]
    given: Int[Tensor, "batch taken"]

    @property
    def position(self) -> Int[Tensor, " batch"]:
        """How many target tokens each row has taken in."""
        return torch.full_like(self.source_lengths, self.given.shape[1])

    def select(self, index: Int[Tensor, " rows"]) -> Self:
        """The state whose row r is this state's row index[r]."""
        return select_rows(self, index)


class Uncached:
    """The decoding faces of a model, made of its training faces."""

    def __init__(self, model: SequenceModel) -> None:
        self.model = model

    def start(
        self, source: Int[Tensor, "batch source_length"], source_lengths: Int[Tensor, " batch"]
    ) -> Prefix:
        """The state before any target token."""
        return Prefix(source, source_lengths, source[:, :0])

    def step(self, state: Prefix, token: Int[Tensor, " batch"]) -> Step:
        """The logits (batch, target_vocabulary) after one more token, and the new state."""
        state = state._replace(given=torch.cat([state.given, token[:, None]], dim=1))
        hidden = self.model.hidden(*state)
        return Step(self.model.logits(hidden[:, -1]), state)


# Independent pieces of work at the same time, each in a thread with one of torch's threads to
# itself.
#
# A step of decoding is many small operations. Two threads that share each of them wait for one
# another at every one; two threads with half of the sentences each wait once, at the end.


Result = TypeVar("Result")


def side_by_side(jobs: Sequence[Callable[[], Result]]) -> list[Result]:
    """What the jobs return, in their order; the first error, if there is one."""
    if len(jobs) == 1:
        return [jobs[0]()]
    threads = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(
            len(jobs), initializer=torch.set_num_threads, initargs=(1,)
        ) as pool:
            return [running.result() for running in [pool.submit(job) for job in jobs]]
    finally:
        # What a thread sets is also what new threads begin with.
        torch.set_num_threads(threads)


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
