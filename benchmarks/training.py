"""Training speed: Multi30k, 3 + 3 layers of width 256, two threads, float32, non-padding tokens per second.

Token-budget batches bucketed by length against shuffled batches of a fixed number of pairs, for the same
model; and our model against Hugging Face's Marian of the same shape, on the same batches, with the same
loss, dropout and optimizer. A step is forward, backward and update.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.decoding import marian, our_model
from benchmarks.measurement import Measurement
from benchmarks.multi30k import multi30k
from regard.core.batches import PAD, Batch, TokenInput
from regard.data.batching import Batches, token_batches
from regard.data.examples import Examples

THREADS = 2
BATCH_TOKENS = 4096
DROPOUT = 0.1
LABEL_SMOOTHING = 0.1
STEPS = 8
ROUNDS = 3

Step = Callable[[Batch], None]


def update(model: nn.Module, loss: Tensor, optimizer: torch.optim.Optimizer) -> None:
    """Backward, gradient clipping and optimizer step, the same for all systems."""
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    """The same optimizer for all systems."""
    return torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)


def our_step() -> Step:
    """As `SequenceTask.loss`: only non-padding positions are projected onto the vocabulary."""
    model = our_model(dropout=DROPOUT).train()
    optimizer = optimizer_of(model)

    def step(batch: Batch) -> None:
        target = batch.target
        hidden = model.hidden(batch.input, target.decoder_input)
        logits = model.logits(target.predicted(hidden))
        loss = F.cross_entropy(logits, target.labels, label_smoothing=LABEL_SMOOTHING)
        update(model, loss, optimizer)

    return step


def marian_step() -> Step:
    """As in their examples: padding masks, and a loss that ignores padding."""
    model: Any = marian(our_model(), dropout=DROPOUT)
    model.train()
    optimizer = optimizer_of(model)

    def step(batch: Batch) -> None:
        assert isinstance(batch.input, TokenInput)
        logits = model(
            input_ids=batch.input.tokens,
            attention_mask=(batch.input.tokens != PAD).long(),
            decoder_input_ids=batch.target.decoder_input,
            decoder_attention_mask=(batch.target.decoder_input != PAD).long(),
            use_cache=False,
        ).logits
        loss = F.cross_entropy(
            logits.flatten(0, 1),
            batch.target.tokens[:, 1:].flatten(),
            ignore_index=PAD,
            label_smoothing=LABEL_SMOOTHING,
        )
        update(model, loss, optimizer)

    return step


def tokens_per_second(step: Step, batches: list[Batch]) -> float:
    """Non-padding tokens over the time of all steps."""
    start = time.perf_counter()
    for batch in batches:
        step(batch)
    return sum(batch.num_tokens for batch in batches) / (time.perf_counter() - start)


def training() -> Iterator[Measurement]:
    """Both comparisons; systems alternate, medians of several rounds."""
    threads = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    try:
        yield from _measurements(multi30k().train)
    finally:
        torch.set_num_threads(threads)


def _measurements(store: Examples) -> Iterator[Measurement]:
    bucketed = token_batches(store, max_tokens=BATCH_TOKENS, seed=0, epoch=0)
    rows = round(len(store) / len(bucketed))
    starts = np.arange(0, len(store), rows)
    fixed = Batches(
        examples=store,
        order=np.random.default_rng(0).permutation(len(store)),
        starts=starts,
        ends=np.minimum(starts + rows, len(store)),
    )
    ours, theirs = our_step(), marian_step()
    runs = {
        "bucketed": (ours, [bucketed[index] for index in range(STEPS)]),
        "fixed": (ours, [fixed[index] for index in range(STEPS)]),
        "marian": (theirs, [bucketed[index] for index in range(STEPS)]),
    }
    for step, batches in runs.values():
        tokens_per_second(step, batches[:3])
    rates: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(ROUNDS):
        for name, (step, batches) in runs.items():
            rates[name].append(tokens_per_second(step, batches))
    rate = {name: statistics.median(values) for name, values in rates.items()}
    yield Measurement(
        "training, tokens/s: token-budget / fixed-size batches",
        rate["bucketed"] / rate["fixed"],
        1.5,
        larger_is_better=True,
        detail=f"{rate['bucketed']:,.0f} against {rate['fixed']:,.0f}, {rows} pairs per batch",
    )
    yield Measurement(
        "training, tokens/s: ours / Marian on the same batches",
        rate["bucketed"] / rate["marian"],
        1.1,
        larger_is_better=True,
        detail=f"{rate['bucketed']:,.0f} against {rate['marian']:,.0f}",
    )
