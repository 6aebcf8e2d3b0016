"""The bars of writing a long text: 1,000 tokens one by one, 4 layers of width 256, two threads.

A state that does not grow must read the last tokens about as fast as the first: each of tokens 1 to 100 is
timed in turn with one of tokens 901 to 1,000. Softmax with its keys and values kept is timed in turn with
running the whole prefix again; with one row for every token, with more rows for every 25th.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from benchmarks.character_models import CHARACTERS, LAYERS, WIDTH
from benchmarks.measuring import Finding
from regard.core.batches import END, SPECIAL_TOKENS, START
from regard.mechanisms import MECHANISMS
from regard.models.decoder_only import DecoderOnly
from regard.models.generation.search import Uncached

TOKENS = 1000
COMPARED = 100
ROWS = (1, 8)
# With more rows the whole prefix takes too long to be run for every token.
EVERY = {1: 1, 8: 25}
FLAT = 1.1
CACHED = 10.0


def token_by_token() -> Iterator[Finding]:
    """Both bars, for one row and for several."""
    with torch.inference_mode():
        for name in MECHANISMS:
            model = model_with(name)
            if state_grows(model):
                continue
            for rows in ROWS:
                yield _flatness(name, model, rows=rows)
        softmax = model_with("scaled_dot")
        for rows in ROWS:
            yield _gain(softmax, rows=rows)


def model_with(mechanism: str) -> DecoderOnly:
    """The language model with another mechanism, its heads as wide as that is used with."""
    vocabulary = len(SPECIAL_TOKENS) + len(CHARACTERS)
    return DecoderOnly(
        source_vocabulary=vocabulary,
        target_vocabulary=vocabulary,
        model_dim=WIDTH,
        num_heads=WIDTH // MECHANISMS[mechanism].head_dim,
        num_layers=LAYERS,
        position="learned",
        max_length=TOKENS,
        mechanism=mechanism,
    ).eval()


def state_grows(model: DecoderOnly) -> bool:
    """Whether more is kept after the last token than after the first."""
    first, last = (
        model.cost(batch_size=1, source_length=1, target_length=length).state
        for length in (1, TOKENS)
    )
    return last > first


class Writing:
    """A model that says the likeliest token again and again, from its start."""

    def __init__(self, steps: Any, *, rows: int) -> None:
        self.steps = steps
        self.state = steps.start(torch.full((rows, 1), END), torch.ones(rows, dtype=torch.long))
        self.token = torch.full((rows,), START)

    def write(self, count: int = 1) -> None:
        """Say so many tokens."""
        for _ in range(count):
            logits, self.state = self.steps.step(self.state, self.token)
            self.token = logits.argmax(dim=1)


def _flatness(name: str, model: DecoderOnly, *, rows: int) -> Finding:
    early, late = Writing(model, rows=rows), Writing(model, rows=rows)
    late.write(TOKENS - COMPARED)  # which is also the warm-up
    times: dict[Writing, list[float]] = {early: [], late: []}
    for number in range(COMPARED):
        # Neither is always the one that comes after the other.
        for writing in (early, late) if number % 2 else (late, early):
            times[writing].append(_seconds(writing.write))
    first, last = (statistics.median(times[writing]) for writing in (early, late))
    return Finding(
        f"{name}, {_rows(rows)}: time of a late token / of an early one",
        last / first,
        FLAT,
        larger_is_better=False,
        detail=f"({last * 1e3:.2f} ms against {first * 1e3:.2f})",
    )


def _gain(model: DecoderOnly, *, rows: int) -> Finding:
    """Both write the same text; where the whole prefix is not run, its state is given the token only."""
    cached, whole = Writing(model, rows=rows), Uncached(model)
    prefix = torch.empty(rows, 0, dtype=torch.long)
    source, lengths = torch.full((rows, 1), END), torch.ones(rows, dtype=torch.long)
    begun = whole.start(source, lengths)
    Writing(model, rows=rows).write(COMPARED)
    kept = again = 0.0
    for number in range(TOKENS):
        token = cached.token
        seconds = _seconds(cached.write)
        if number % EVERY[rows] == EVERY[rows] - 1:
            kept += seconds
            again += _seconds(_step_of(whole, begun._replace(given=prefix), token))
        prefix = torch.cat([prefix, token[:, None]], dim=1)
    every, timed = EVERY[rows], TOKENS // EVERY[rows]
    scaled = "" if every == 1 else f", from every {every}th token"
    return Finding(
        f"softmax, {_rows(rows)}: times faster with a cache, {TOKENS:,} tokens",
        again / kept,
        CACHED,
        larger_is_better=True,
        detail=f"({kept / timed * 1e3:.2f} ms a token against {again / timed * 1e3:.2f}{scaled})",
    )


def _step_of(steps: Any, state: Any, token: Tensor) -> Callable[[], object]:
    return lambda: steps.step(state, token)


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _rows(rows: int) -> str:
    return "1 row" if rows == 1 else f"{rows} rows"
