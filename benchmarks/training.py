"""The bars of training: Multi30k, 3 + 3 layers of width 256, two threads, float32, real tokens a second.

Batches filled by tokens, pairs of like length together, against shuffled batches of a fixed number of
pairs, for the same model; and our model against Hugging Face's Marian of the same shape, on the same
batches, with the same loss, dropout and optimiser. A step is forward, backward and update.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.decoding import marian, our_model
from benchmarks.measuring import Finding
from benchmarks.multi30k import multi30k
from regard.core.batches import PAD, PairBatch
from regard.data.batching import fixed_batches, token_batches
from regard.data.token_store import TokenStore

THREADS = 2
PLACES = 4096
DROPOUT = 0.1
LABEL_SMOOTHING = 0.1
STEPS = 8
ROUNDS = 3

Step = Callable[[PairBatch], None]


def update(model: nn.Module, loss: Tensor, optimizer: torch.optim.Optimizer) -> None:
    """Back, clip, step: the same for everyone."""
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    """The same for everyone."""
    return torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)


def our_step() -> Step:
    """As `PairTask.loss` does it: only real places are projected onto the vocabulary."""
    model = our_model(dropout=DROPOUT).train()
    optimizer = optimizer_of(model)

    def step(batch: PairBatch) -> None:
        hidden = model.hidden(batch.source, batch.source_lengths, batch.given)
        real = batch.predicted
        logits = model.logits(hidden[real])
        loss = F.cross_entropy(logits, batch.wanted[real], label_smoothing=LABEL_SMOOTHING)
        update(model, loss, optimizer)

    return step


def marian_step() -> Step:
    """As its users do it: attention masks for padding, the loss over all places but padding."""
    model: Any = marian(our_model(), dropout=DROPOUT)
    model.train()
    optimizer = optimizer_of(model)

    def step(batch: PairBatch) -> None:
        given = batch.given
        logits = model(
            input_ids=batch.source,
            attention_mask=(batch.source != PAD).long(),
            decoder_input_ids=given,
            decoder_attention_mask=(given != PAD).long(),
            use_cache=False,
        ).logits
        loss = F.cross_entropy(
            logits.flatten(0, 1),
            batch.wanted.flatten(),
            ignore_index=PAD,
            label_smoothing=LABEL_SMOOTHING,
        )
        update(model, loss, optimizer)

    return step


def tokens_a_second(step: Step, batches: list[PairBatch]) -> float:
    """Real tokens, padding not counted, over the time of all these steps."""
    start = time.perf_counter()
    for batch in batches:
        step(batch)
    return sum(batch.num_tokens for batch in batches) / (time.perf_counter() - start)


def training() -> Iterator[Finding]:
    """Both bars; rivals in turn, medians of several rounds."""
    threads = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    try:
        yield from _findings(multi30k().train)
    finally:
        torch.set_num_threads(threads)


def _findings(store: TokenStore) -> Iterator[Finding]:
    filled = token_batches(store, max_tokens=PLACES, seed=0, epoch=0)
    rows = round(len(store) / len(filled))
    fixed = fixed_batches(store, rows=rows, seed=0, epoch=0)
    ours, theirs = our_step(), marian_step()
    runs = {
        "filled": (ours, [filled[index] for index in range(STEPS)]),
        "fixed": (ours, [fixed[index] for index in range(STEPS)]),
        "marian": (theirs, [filled[index] for index in range(STEPS)]),
    }
    for step, batches in runs.values():
        tokens_a_second(step, batches[:3])
    rates: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(ROUNDS):
        for name, (step, batches) in runs.items():
            rates[name].append(tokens_a_second(step, batches))
    rate = {name: statistics.median(values) for name, values in rates.items()}
    yield Finding(
        "training, tokens/s: filled / shuffled batches of fixed size",
        rate["filled"] / rate["fixed"],
        1.5,
        larger_is_better=True,
        detail=f"{rate['filled']:,.0f} against {rate['fixed']:,.0f}, {rows} pairs a batch",
    )
    yield Finding(
        "training, tokens/s: ours / Marian on the same batches",
        rate["filled"] / rate["marian"],
        1.1,
        larger_is_better=True,
        detail=f"{rate['filled']:,.0f} against {rate['marian']:,.0f}",
    )
