"""The bars of language models: 3.2 M parameters, 128 texts of 128 characters a step, two threads, float32.

Training is measured in tokens a second of whole steps, against the same model written as minGPT is and
Hugging Face's GPT-2, on the same batch; and in products a second, forward and backward as counted, against
what a large matrix product reaches beside it. All of them run in turn. Decoding: token_by_token.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch

from benchmarks.character_models import (
    LENGTH,
    first_batch,
    hugging_face_step,
    made_up_task,
    our_step,
    written_out_step,
)
from benchmarks.measuring import Call, Finding, median_seconds
from benchmarks.token_by_token import token_by_token
from regard.core.counter import Counter

THREADS = 2
ROWS = 128
REPEATS = 5
DROPOUT = 0.1
PEAK_WIDTH = 2048


def language_models() -> Iterator[Finding]:
    """Training, then decoding."""
    threads = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    try:
        yield from _training()
        yield from token_by_token()
    finally:
        torch.set_num_threads(threads)


def _training() -> Iterator[Finding]:
    task = made_up_task(rows=ROWS)
    batch = first_batch(task, rows=ROWS)
    probe, probe_products = _large_product()
    without: list[float] = []
    for dropout in (0.0, DROPOUT):
        makers = (our_step, written_out_step, hugging_face_step)
        calls: list[Call] = [partial(make(task, dropout=dropout), batch) for make in makers]
        products = _products_of(calls[0])
        ours, written, face, large = median_seconds([*calls, probe], repeats=REPEATS)
        share = (products / ours) / (probe_products / large)
        if not dropout:
            without = [written / ours, face / ours, share, ours]
            continue
        rate = ROWS * LENGTH / ours
        yield Finding(
            "training, tokens/s: ours / written as minGPT is",
            written / ours,
            1.15,
            larger_is_better=True,
            detail=f"({rate:,.0f} tokens/s; without dropout {without[0]:.2f})",
        )
        yield Finding(
            "training, tokens/s: ours / Hugging Face's GPT-2",
            face / ours,
            1.1,
            larger_is_better=True,
            detail=f"(without dropout {without[1]:.2f})",
        )
        yield Finding(
            "training: share of the rate of a large matrix product",
            share,
            0.75,
            larger_is_better=True,
            detail=(
                f"({products / ours / 1e9:.0f} of {probe_products / large / 1e9:.0f} GFLOP/s; "
                f"without dropout {without[2]:.2f})"
            ),
        )


def _large_product() -> tuple[Call, int]:
    """A product that the machine is fast at, and its operations."""
    left, right, product = (torch.randn(PEAK_WIDTH, PEAK_WIDTH) for _ in range(3))
    return partial(torch.mm, left, right, out=product), 2 * PEAK_WIDTH**3


def _products_of(call: Call) -> int:
    """Operations of the matrix products that a call really does."""
    with Counter() as counter:
        call()
    return counter.products
