"""What evaluations take: the loss of the held-out pairs, and decoding them.

How long an output gets is not known before a model is trained, so every row says as many tokens as its
right answer has. Computing the scores from the texts is not counted.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.core.special_tokens import START
from regard.costs.calibration import Calibration
from regard.data.batch_tensors import pair_batch
from regard.data.batching import evaluation_batches
from regard.data.token_store import TokenStore
from regard.models.decoding import FINISHED_SHARE
from regard.models.next_tokens import likeliest
from regard.runs.priced_work import (
    WorkPrice,
    first_rows,
    mean_price,
    middles,
    price_by_rows,
    price_of,
)
from regard.tasks.pair_batches import places_at_a_time

# Decoding with more is traced on fewer rows: its products are small, and take their time.
MOST_OPERATIONS = 3e10
GREEDY_SAMPLES = 3
BEAM_SAMPLES = 1


class EvaluationPrice(NamedTuple):
    """Seconds of an evaluation in a run, and of scoring the kept weights at its end; the peak of both."""

    each_seconds: float
    final_seconds: float
    peak_bytes: float

    def times(self, factor: float) -> EvaluationPrice:
        """That of a model which takes so many times longer."""
        return self._replace(
            each_seconds=factor * self.each_seconds, final_seconds=factor * self.final_seconds
        )


NOT_EVALUATED = EvaluationPrice(0.0, 0.0, 0.0)


def evaluation_price(
    model: Any, task: Any, calibration: Calibration, *, beam_size: int
) -> EvaluationPrice:
    """Greedy decoding of the development part; in the end that and the test part with the beam."""
    model.eval()
    try:
        loss = _part_price(model, task, calibration, beam_size=0, samples=1)
        greedy = _part_price(model, task, calibration, beam_size=1, samples=GREEDY_SAMPLES)
        beam = greedy
        if beam_size > 1:
            beam = _part_price(model, task, calibration, beam_size=beam_size, samples=BEAM_SAMPLES)
    finally:
        model.train()
    in_the_end = 1 + len(task.corpus.test) / len(task.corpus.dev)
    return EvaluationPrice(
        each_seconds=loss.seconds + greedy.seconds,
        final_seconds=in_the_end * (loss.seconds + beam.seconds),
        peak_bytes=max(loss.peak_bytes, greedy.peak_bytes, beam.peak_bytes),
    )


def _part_price(
    model: Any, task: Any, calibration: Calibration, *, beam_size: int, samples: int
) -> WorkPrice:
    """Of the whole development part; a beam of 0 is the loss alone."""
    store = task.held_out_store(task.corpus.dev)
    # Decoding makes its batches from the sources alone.
    cut = store
    if beam_size:
        cut = TokenStore.build((store.source(row).tolist(), ()) for row in range(len(store)))
    batches = evaluation_batches(cut, max_tokens=places_at_a_time(cut))
    prices = []
    for place in middles(len(batches), samples):
        batch = pair_batch(store, batches.indices(place))

        def price(rows: int, batch: Any = batch) -> WorkPrice:
            part = first_rows(batch, rows)

            @torch.inference_mode()
            def run() -> None:
                if beam_size:
                    said = part.target_lengths - 1  # START is given
                    decode_for(model, part.source, part.source_lengths, said, beam_size=beam_size)
                else:
                    task.loss(model, part)

            return price_of(run, "decode" if beam_size else "forward", calibration)

        forward = max(1, beam_size) * model.cost(**task.cost_words(batch)).operations
        rows = len(batch.source)
        most = int(rows * MOST_OPERATIONS / max(1.0, forward))
        prices.append(price_by_rows(price, rows=rows, most=most))
    mean = mean_price(prices)
    return mean._replace(seconds=len(batches) * mean.seconds)


def decode_for(
    model: Any, source: Tensor, source_lengths: Tensor, said: Tensor, *, beam_size: int
) -> None:
    """Decode as `regard.models.decoding` does, every row for so many tokens, END counted."""
    state = model.start(source, source_lengths)
    if beam_size > 1:
        index = torch.arange(len(said)).repeat_interleave(beam_size)
        state, said = state.select(index), said[index]
    token = torch.full_like(said, START)
    for step in range(1, int(said.max()) + 1):
        logits, state = model.step(state, token)
        token = likeliest(logits, count=beam_size).token[:, 0]
        going = said > step
        if not going.any():
            return
        # A beam is put into its new order at every step; else rows leave when some are finished.
        if beam_size > 1 or int(going.sum()) <= (1 - FINISHED_SHARE) * len(going):
            index = going.nonzero()[:, 0]
            state, said, token = state.select(index), said[index], token[index]
