"""Language models: 3.2 M parameters, 128 texts of 128 characters per step, two threads, float32.

Training is measured in tokens per second of whole steps, against a minGPT-style model and Hugging Face's
GPT-2 on the same batch, and in matmul FLOP/s, forward and backward as counted, against a large matrix
product. All of them alternate. Decoding: incremental_decoding.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch

from benchmarks.incremental_decoding import incremental_decoding
from benchmarks.language_model_baselines import (
    LENGTH,
    dummy_task,
    first_batch,
    hugging_face_step,
    mingpt_step,
    our_step,
)
from benchmarks.measurement import Call, Measurement, median_seconds
from regard.core.counter import Counter

THREADS = 2
ROWS = 128
REPEATS = 5
DROPOUT = 0.1
PEAK_WIDTH = 2048


def language_models() -> Iterator[Measurement]:
    """Training, then decoding."""
    threads = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    try:
        yield from _training()
        yield from incremental_decoding()
    finally:
        torch.set_num_threads(threads)


def _training() -> Iterator[Measurement]:
    task = dummy_task(rows=ROWS)
    batch = first_batch(task, rows=ROWS)
    large_matmul, probe_flops = _large_matmul()
    without_dropout: list[float] = []
    for dropout in (0.0, DROPOUT):
        step_factories = (our_step, mingpt_step, hugging_face_step)
        calls: list[Call] = [
            partial(make_step(task, dropout=dropout), batch) for make_step in step_factories
        ]
        matmul_flops = _matmul_flops(calls[0])
        ours, mingpt, hugging_face, large = median_seconds([*calls, large_matmul], repeats=REPEATS)
        fraction = (matmul_flops / ours) / (probe_flops / large)
        if not dropout:
            without_dropout = [mingpt / ours, hugging_face / ours, fraction, ours]
            continue
        rate = ROWS * LENGTH / ours
        yield Measurement(
            "training, tokens/s: ours / minGPT style",
            mingpt / ours,
            1.15,
            larger_is_better=True,
            detail=f"({rate:,.0f} tokens/s; without dropout {without_dropout[0]:.2f})",
        )
        yield Measurement(
            "training, tokens/s: ours / Hugging Face's GPT-2",
            hugging_face / ours,
            1.1,
            larger_is_better=True,
            detail=f"(without dropout {without_dropout[1]:.2f})",
        )
        yield Measurement(
            "training: fraction of the FLOP/s of a large matrix product",
            fraction,
            0.75,
            larger_is_better=True,
            detail=(
                f"({matmul_flops / ours / 1e9:.0f} of {probe_flops / large / 1e9:.0f} GFLOP/s; "
                f"without dropout {without_dropout[2]:.2f})"
            ),
        )


def _large_matmul() -> tuple[Call, int]:
    """A large matrix product and its FLOPs."""
    left, right, product = (torch.randn(PEAK_WIDTH, PEAK_WIDTH) for _ in range(3))
    return partial(torch.mm, left, right, out=product), 2 * PEAK_WIDTH**3


def _matmul_flops(call: Call) -> int:
    """Counted FLOPs of the matrix products of a call."""
    with Counter() as counter:
        call()
    return counter.matmul_flops
