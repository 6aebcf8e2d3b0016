"""Decoding of sequence-to-sequence models: greedy search and beam search, with or without a KV cache.

    hypotheses = decode(model, source, beam_size=4)

Rows are decoded as a batch, and finished rows leave it; a result does not depend on the other rows. On a
CPU, large batches are split over a thread pool.
"""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, NamedTuple, Self

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.core.batches import END, PAD, START, ImageInput, Input
from regard.core.device import float64_on, run_in_thread_pool
from regard.core.errors import RegardError
from regard.core.mechanism import Step
from regard.core.options import NonNegativeFloat, Options, PositiveInt
from regard.core.protocols import (
    Hypothesis,
    NonAutoregressiveModel,
    SequenceModel,
    is_autoregressive,
)

FORBIDDEN_TOKENS = (PAD, START)
MINUS_INFINITY = float("-inf")
# A maximum per block of the vocabulary is much faster to find than a top-k over all of it.
BLOCK_SIZE = 100
# Finished rows are removed from the batch, which copies it, once they are this fraction.
MIN_FINISHED_FRACTION = 0.125
# Maximum number of tokens generated from an image, by default.
IMAGE_LIMIT = 256
# Fewer rows are not worth a thread.
MIN_ROWS_PER_THREAD = 16


class Candidates(NamedTuple):
    """The most probable next tokens of every row, best first."""

    log_probability: Float[Tensor, "rows candidates"]
    token: Int[Tensor, "rows candidates"]


class DecodingOptions(Options):
    """The options of `decode`, which explains them."""

    SECTION: ClassVar[str] = "decode"

    beam_size: PositiveInt = 1
    length_penalty: NonNegativeFloat = 1.0
    max_length: PositiveInt | None = None


def decode(
    model: SequenceModel | NonAutoregressiveModel,
    source: Input,
    *,
    beam_size: int = 1,
    length_penalty: float = 1.0,
    max_length: int | None = None,
    use_cache: bool = True,
) -> list[Hypothesis]:
    """Decode every source row: greedy search, or beam search.

    beam_size        1 is greedy search
    length_penalty   a hypothesis of n tokens, END included, is ranked by log p / n^length_penalty: by
                     log p with 0, by log p per token with 1
    max_length       maximum number of generated tokens, END included; default: 2 × source length + 10,
                     256 for an image; never more than the model supports
    use_cache        False reruns the whole prefix for every token: the same result, slowly

    A model that predicts all tokens at once, such as CTC, decodes itself, with `beam_size` alone.
    """
    DecodingOptions(beam_size=beam_size, length_penalty=length_penalty, max_length=max_length)
    if getattr(model, "training", False):
        raise RegardError(
            "decode got a model in training mode, where dropout makes the result random. Call "
            "model.eval() first."
        )
    either: Any = model  # of the two kinds
    decoder: Any = model if use_cache else WithoutCache(either)

    @torch.inference_mode()
    def search(rows: Tensor) -> list[Hypothesis]:
        part = source.select(rows)
        if not is_autoregressive(model):
            return list(either.decode_sequences(part, beam_size=beam_size))
        limits = _default_limits(part) if max_length is None else torch.full_like(rows, max_length)
        longest = either.target_limits(part)
        if longest is not None:
            limits = limits.minimum(longest)
            _validate_capacity(part, longest)
        state = decoder.start(part)
        if beam_size == 1:
            return _greedy_search(decoder, state, limits, length_penalty=length_penalty)
        return beam_search(
            decoder, state, limits, beam_size=beam_size, length_penalty=length_penalty
        )

    num_rows = source.shape[0]
    if not num_rows:
        return []
    shares = split_rows(_default_limits(source))
    found: list[Hypothesis | None] = [None] * num_rows
    results = run_in_thread_pool([partial(search, rows) for rows in shares])
    for rows, hypotheses in zip(shares, results, strict=True):
        for row, one in zip(rows.tolist(), hypotheses, strict=True):
            found[row] = one
    return [one for one in found if one is not None]


def _default_limits(source: Input) -> Int[Tensor, " batch"]:
    if isinstance(source, ImageInput):
        return torch.full(source.shape[:1], IMAGE_LIMIT, device=source.pixels.device)
    return 2 * source.lengths + 10


def split_rows(lengths: Int[Tensor, " batch"]) -> list[Int[Tensor, " _"]]:
    """Row indices per thread: short and long rows are spread evenly."""
    num_threads = min(torch.get_num_threads(), len(lengths) // MIN_ROWS_PER_THREAD)
    if num_threads < 2 or lengths.device.type != "cpu":
        return [torch.arange(len(lengths), device=lengths.device)]
    order = lengths.argsort(stable=True)
    return [order[thread::num_threads] for thread in range(num_threads)]


def _greedy_search(
    decoder: Any, state: Any, limits: Int[Tensor, " batch"], *, length_penalty: float
) -> list[Hypothesis]:
    """`decoder` has `step`; `limits` are the maximum lengths."""
    device = limits.device
    longest = int(limits.max())
    generated = torch.full((len(limits), longest), END, device=device)
    totals = torch.zeros(len(limits), dtype=float64_on(device), device=device)
    counts = limits.clone()
    rows = torch.arange(len(limits), device=device)
    active = torch.ones_like(rows, dtype=torch.bool)
    token = torch.full_like(rows, START)
    for length in range(1, longest + 1):
        logits, state = decoder.step(state, token)
        best = top_k_tokens(logits, count=1)
        token = best.token[:, 0]
        generated[rows, length - 1] = token
        totals[rows] += best.log_probability[:, 0].masked_fill(~active, 0.0)
        counts[rows[active & (token == END)]] = length
        active &= (token != END) & (limits[rows] > length)
        left = int(active.sum())
        if not left:
            break
        if left <= (1 - MIN_FINISHED_FRACTION) * len(rows):
            index = active.nonzero()[:, 0]
            rows, active, token = rows[index], active[index], token[index]
            state = state.select(index)
    scores = totals / counts.to(totals.dtype) ** length_penalty
    return [
        _without_end(tokens[:count], score)
        for tokens, count, score in zip(
            generated.tolist(), counts.tolist(), scores.tolist(), strict=True
        )
    ]


def _without_end(generated: list[int], score: float) -> Hypothesis:
    return Hypothesis(tuple(generated[:-1] if generated[-1] == END else generated), score)


def beam_search(
    decoder: Any,
    state: Any,
    limits: Int[Tensor, " batch"],
    *,
    beam_size: int,
    length_penalty: float,
) -> list[Hypothesis]:
    """Beam search over a batch of sources.

    1. Every beam is extended by every token; the best extensions are kept, one per open beam.
    2. A kept hypothesis that ends in END is finished, and its beam closes.
    3. A source is done when no beam is open, or no open beam could still beat the best finished one.

    Finished hypotheses are ranked by log p / length^length_penalty. A hypothesis cut at its limit counts
    only if none was finished. `decoder` has `step`; `limits` are the maximum lengths.
    """
    found = BestHypotheses(limits, length_penalty=length_penalty)
    device, num_sources = limits.device, len(limits)
    beams = torch.arange(beam_size, device=device)
    open_beams = torch.full((num_sources,), beam_size, device=device)
    # One row per open beam: its source and its rank there; beams of a source are adjacent, best first.
    source_row = torch.arange(num_sources, device=device)
    beam = torch.zeros_like(source_row)
    total = torch.zeros(num_sources, dtype=float64_on(device), device=device)
    generated = torch.empty((num_sources, 0), dtype=torch.long, device=device)
    token = torch.full_like(source_row, START)
    for length in range(1, int(limits.max()) + 1):
        logits, state = decoder.step(state, token)
        candidates = top_k_tokens(logits, count=beam_size)
        count = candidates.token.shape[1]
        grid = total.new_full((num_sources, beam_size, count), MINUS_INFINITY)
        grid[source_row, beam] = candidates.log_probability + total[:, None]
        row_grid = torch.zeros((num_sources, beam_size), dtype=torch.long, device=device)
        row_grid[source_row, beam] = torch.arange(len(source_row), device=device)
        best, where = grid.flatten(1).topk(beam_size, dim=1)
        parent = row_grid.gather(1, where // count)
        token_grid = candidates.token[parent, where % count]

        kept = (beams < open_beams[:, None]) & (best > MINUS_INFINITY)
        ended = kept & (token_grid == END)
        open_beams -= ended.sum(dim=1)
        found.finish(generated, best, parent, ended, length=length)
        active = kept & ~ended
        at_limit = (limits == length)[:, None] & active
        if at_limit.any():
            found.cut(generated, best, parent, token_grid, at_limit, length=length)
            active &= ~at_limit
        active &= found.can_improve(best.masked_fill(~active, MINUS_INFINITY).amax(dim=1))[:, None]

        source_row, column = active.nonzero(as_tuple=True)
        if not len(source_row):
            break
        beam = (active.cumsum(dim=1) - 1)[source_row, column]
        index = parent[source_row, column]
        total, token = best[source_row, column], token_grid[source_row, column]
        generated = torch.cat([generated[index], token[:, None]], dim=1)
        if len(index) != len(logits) or not torch.equal(
            index, torch.arange(len(index), device=device)
        ):
            state = state.select(index)
    return found.hypotheses()


class BestHypotheses:
    """The best hypothesis of every source so far."""

    def __init__(self, limits: Int[Tensor, " batch"], *, length_penalty: float) -> None:
        self.length_penalty = length_penalty
        self.tokens: list[list[int]] = [[] for _ in limits]
        self.scores = torch.full_like(limits, MINUS_INFINITY, dtype=float64_on(limits.device))
        # log p only falls, so a score can rise only through the length penalty.
        self.max_divisor = limits.to(self.scores.dtype) ** length_penalty

    def finish(
        self, generated: Tensor, totals: Tensor, parent: Tensor, ended: Tensor, *, length: int
    ) -> None:
        """Record hypotheses of the grid (source, beam) that ended, if they are the best so far."""
        if not ended.any():
            return
        scores = totals.masked_fill(~ended, MINUS_INFINITY) / length**self.length_penalty
        best, column = scores.max(dim=1)
        better = (best > self.scores).nonzero()[:, 0]
        self.scores[better] = best[better]
        prefixes = generated[parent[better, column[better]]].tolist()
        for source_row, tokens in zip(better.tolist(), prefixes, strict=True):
            self.tokens[source_row] = tokens

    def cut(
        self,
        generated: Tensor,
        totals: Tensor,
        parent: Tensor,
        tokens: Tensor,
        at_limit: Tensor,
        *,
        length: int,
    ) -> None:
        """Record the best hypothesis at the length limit, for sources without a finished one."""
        scores = totals.masked_fill(~at_limit, MINUS_INFINITY) / length**self.length_penalty
        best, column = scores.max(dim=1)
        unfinished = (self.scores == MINUS_INFINITY) & (best > MINUS_INFINITY)
        for source_row in unfinished.nonzero()[:, 0].tolist():
            beam = int(column[source_row])
            prefix = generated[parent[source_row, beam]].tolist()
            self.tokens[source_row] = [*prefix, int(tokens[source_row, beam])]
            self.scores[source_row] = best[source_row]

    def can_improve(self, totals: Tensor) -> Tensor:
        """Whether the best open beam of each source, with this log p, may still win."""
        return totals / self.max_divisor > self.scores

    def hypotheses(self) -> list[Hypothesis]:
        """One per source, in order."""
        return [
            Hypothesis(tuple(tokens), score)
            for tokens, score in zip(self.tokens, self.scores.tolist(), strict=True)
        ]


def top_k_tokens(logits: Float[Tensor, "rows vocabulary"], *, count: int) -> Candidates:
    """The `count` most probable next tokens of each row; PAD and START are never generated."""
    log_probabilities = torch.log_softmax(logits, dim=-1)
    for forbidden in FORBIDDEN_TOKENS:
        log_probabilities[:, forbidden] = MINUS_INFINITY
    count = min(count, logits.shape[1])
    blocks = logits.shape[1] // BLOCK_SIZE
    if blocks < 2 * count:
        return top_k(log_probabilities, count)
    # The best tokens are in the blocks with the best maxima, or in the incomplete last block.
    end = blocks * BLOCK_SIZE
    blocked = log_probabilities[:, :end].unflatten(1, (blocks, BLOCK_SIZE))
    chosen = top_k(blocked.amax(dim=-1), count).token
    within = blocked.gather(1, chosen[:, :, None].expand(-1, -1, BLOCK_SIZE)).flatten(1)
    found = top_k(torch.cat([within, log_probabilities[:, end:]], dim=1), count)
    in_block = chosen.gather(1, (found.token // BLOCK_SIZE).clamp(max=count - 1)) * BLOCK_SIZE
    in_rest = found.token - count * BLOCK_SIZE
    token = torch.where(in_rest < 0, in_block + found.token % BLOCK_SIZE, in_rest + end)
    return found._replace(token=token)


def top_k(values: Float[Tensor, "rows choices"], count: int) -> Candidates:
    """The `count` largest values of each row and their indices, best first."""
    if count == 1:
        return Candidates(*values.max(dim=-1, keepdim=True))
    return Candidates(*values.topk(count, dim=-1))


class Prefix(NamedTuple):
    """Decoding state without a cache: the source and all target tokens so far."""

    source: Input
    decoder_input: Int[Tensor, "batch target_length"]

    @property
    def position(self) -> Int[Tensor, " batch"]:
        """How many target tokens each row has processed."""
        rows, length = self.decoder_input.shape
        return torch.full((rows,), length, device=self.decoder_input.device)

    def select(self, index: Int[Tensor, " rows"]) -> Self:
        """The state whose row r is this state's row index[r]."""
        return type(self)(self.source.select(index), self.decoder_input[index])


class WithoutCache:
    """`start` and `step` that rerun the whole prefix for every token: the reference for a KV cache."""

    def __init__(self, model: SequenceModel) -> None:
        self.model = model

    def start(self, source: Input) -> Prefix:
        """The state before any target token."""
        device = next(iter(self.model.parameters())).device
        return Prefix(source, torch.empty(source.shape[0], 0, dtype=torch.long, device=device))

    def step(self, state: Prefix, token: Int[Tensor, " batch"]) -> Step:
        """Logits (batch, target_vocabulary) after one more token, and the new state."""
        state = state._replace(
            decoder_input=torch.cat([state.decoder_input, token[:, None]], dim=1)
        )
        hidden = self.model.hidden(*state)
        return Step(self.model.logits(hidden[:, -1]), state)


def _validate_capacity(source: Input, longest: Tensor) -> None:
    if not isinstance(source, ImageInput) and int(longest.min()) < 1:
        length = int(source.lengths[longest.argmin()]) - 1
        raise RegardError(
            f"A source of {length} tokens leaves no room for a target within the model's max_length. Use "
            "a shorter source, or train a model with a larger max_length."
        )
