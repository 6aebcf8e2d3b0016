"""Incremental decoding: 1,000 tokens, 4 layers of width 256, two threads.

With a constant-size state the last tokens must take as long as the first: each of tokens 1 to 100
alternates with one of tokens 901 to 1,000. Softmax attention with a KV cache alternates with rerunning
the without_cache prefix: for one row at every token, for more rows at every 25th.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from benchmarks.language_model_baselines import CHARACTERS, LAYERS, WIDTH
from benchmarks.measurement import Measurement
from regard.core.batches import END, SPECIAL_TOKENS, START, TokenInput
from regard.core.cost import AttentionShape
from regard.mechanisms import MECHANISMS
from regard.models.decoder_only import DecoderOnly
from regard.models.generation.search import WithoutCache

TOKENS = 1000
COMPARED = 100
ROWS = (1, 8)
# Rerunning the prefix of many rows for every token takes too long.
TIMED_EVERY = {1: 1, 8: 25}
MAX_SLOWDOWN = 1.1
MIN_CACHE_SPEEDUP = 10.0


def incremental_decoding() -> Iterator[Measurement]:
    """Both measurements, for one row and for several."""
    with torch.inference_mode():
        for name in MECHANISMS:
            model = model_with(name)
            if state_grows(model):
                continue
            for rows in ROWS:
                yield _slowdown(name, model, rows=rows)
        softmax = model_with("scaled_dot")
        for rows in ROWS:
            yield _cache_speedup(softmax, rows=rows)


def model_with(mechanism: str) -> DecoderOnly:
    """The language model with this mechanism and its usual head_dim."""
    vocabulary = len(SPECIAL_TOKENS) + len(CHARACTERS)
    return DecoderOnly(
        source=vocabulary,
        target_vocabulary=vocabulary,
        model_dim=WIDTH,
        num_heads=WIDTH // MECHANISMS[mechanism].head_dim,
        num_layers=LAYERS,
        position="learned",
        max_length=TOKENS,
        mechanism=mechanism,
    ).eval()


def state_grows(model: DecoderOnly) -> bool:
    """Whether the decoding state grows with the number of tokens."""
    attention: Any = model.blocks[0].attention
    mechanism, dim = attention.mechanism, attention.sizes.head_dim
    shape = AttentionShape(batch_size=1, query_length=1, key_length=1, key_dim=dim, value_dim=dim)
    longer = replace(shape, query_length=TOKENS, key_length=TOKENS)
    return bool(mechanism.cost(longer).state > mechanism.cost(shape).state)


def no_source(rows: int) -> TokenInput:
    """Empty sources."""
    return TokenInput(torch.full((rows, 1), END), torch.ones(rows, dtype=torch.long))


class Generator:
    """Greedy generation, one token at a time."""

    def __init__(self, decoder: Any, *, rows: int) -> None:
        self.decoder = decoder
        self.state = decoder.start(no_source(rows))
        self.token = torch.full((rows,), START)

    def generate(self, count: int = 1) -> None:
        """Generate `count` tokens."""
        for _ in range(count):
            logits, self.state = self.decoder.step(self.state, self.token)
            self.token = logits.argmax(dim=1)


def _slowdown(name: str, model: DecoderOnly, *, rows: int) -> Measurement:
    early, late = Generator(model, rows=rows), Generator(model, rows=rows)
    late.generate(TOKENS - COMPARED)  # also the warm-up
    times: dict[Generator, list[float]] = {early: [], late: []}
    for number in range(COMPARED):
        # Alternate the order.
        for generator in (early, late) if number % 2 else (late, early):
            times[generator].append(_seconds(generator.generate))
    first, last = (statistics.median(times[generator]) for generator in (early, late))
    return Measurement(
        f"{name}, {_rows(rows)}: time of a late token / an early one",
        last / first,
        MAX_SLOWDOWN,
        larger_is_better=False,
        detail=f"({last * 1e3:.2f} ms against {first * 1e3:.2f})",
    )


def _cache_speedup(model: DecoderOnly, *, rows: int) -> Measurement:
    """Both generate the same text; the prefix is rerun at the timed tokens only."""
    cached, without_cache = Generator(model, rows=rows), WithoutCache(model)
    prefix = torch.empty(rows, 0, dtype=torch.long)
    initial = without_cache.start(no_source(rows))
    Generator(model, rows=rows).generate(COMPARED)
    cached_seconds = rerun_seconds = 0.0
    for number in range(TOKENS):
        token = cached.token
        seconds = _seconds(cached.generate)
        if number % TIMED_EVERY[rows] == TIMED_EVERY[rows] - 1:
            cached_seconds += seconds
            state = initial._replace(decoder_input=prefix)
            rerun_seconds += _seconds(_single_step(without_cache, state, token))
        prefix = torch.cat([prefix, token[:, None]], dim=1)
    every, timed = TIMED_EVERY[rows], TOKENS // TIMED_EVERY[rows]
    scaled = "" if every == 1 else f", from every {every}th token"
    cached_ms, rerun_ms = (1e3 * total / timed for total in (cached_seconds, rerun_seconds))
    return Measurement(
        f"softmax, {_rows(rows)}: speedup with a KV cache, {TOKENS:,} tokens",
        rerun_seconds / cached_seconds,
        MIN_CACHE_SPEEDUP,
        larger_is_better=True,
        detail=f"({cached_ms:.2f} ms per token against {rerun_ms:.2f}{scaled})",
    )


def _single_step(decoder: Any, state: Any, token: Tensor) -> Callable[[], object]:
    return lambda: decoder.step(state, token)


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _rows(rows: int) -> str:
    return "1 row" if rows == 1 else f"{rows} rows"
