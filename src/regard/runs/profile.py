"""A model that can take training steps, as in a run, without a folder: what one step takes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.core.batches import START, PairBatch, TextBatch
from regard.core.errors import RegardError
from regard.costs.calibration import Calibration
from regard.costs.predict import predict
from regard.costs.trace import Mode, Run, Workload, trace
from regard.data.batching import evaluation_batches, pair_batch
from regard.data.token_store import TokenStore
from regard.models.generation.search import FINISHED_SHARE, likeliest
from regard.runs.build import build_spec_model, operations_of
from regard.runs.spec import RunSpec
from regard.tasks.seq2seq.task import places_at_a_time
from regard.tasks.task import RunTask
from regard.training.averaging import build_averaging
from regard.training.checkpoint import gather
from regard.training.step import Stepper

# What real work takes here, found by tracing it once; what is too large for that, from a part of
# it.


class WorkPrice(NamedTuple):
    """Predicted seconds, bytes at the peak beyond what was there before, and counted operations."""

    seconds: float
    peak_bytes: float
    operations: float


def price_of(run: Run, mode: Mode, calibration: Calibration) -> WorkPrice:
    """What one run takes. It is really run: batches ask for values, which fake tensors do not have."""
    traced = trace(Workload("planned", mode, lambda: run), really=True)
    predicted = predict(traced, calibration)
    return WorkPrice(predicted.seconds, float(traced.peak_bytes), float(traced.operations))


def price_by_rows(price: Callable[[int], WorkPrice], *, rows: int, most: int) -> WorkPrice:
    """The price of `rows` rows; beyond `most`, along the line through that many and half of them.

    Everything is linear in the rows: what does not depend on them, such as the optimiser, is its start.
    """
    if rows <= most or rows < 2:
        return price(rows)
    many = max(2, most)
    few = many // 2
    at_few, at_many = price(few), price(many)
    return WorkPrice(
        *(
            high + (high - low) / (many - few) * (rows - many)
            for low, high in zip(at_few, at_many, strict=True)
        )
    )


def mean_price(prices: list[WorkPrice]) -> WorkPrice:
    """The means of seconds and operations, and the largest peak."""
    seconds, peaks, operations = zip(*prices, strict=True)
    return WorkPrice(sum(seconds) / len(prices), max(peaks), sum(operations) / len(prices))


def first_rows(batch: PairBatch, rows: int) -> PairBatch:
    """So many rows of a batch, padded no longer than they need."""
    source, source_lengths, target, target_lengths = (tensor[:rows] for tensor in batch)
    return PairBatch(
        source=source[:, : int(source_lengths.max())],
        source_lengths=source_lengths,
        target=target[:, : int(target_lengths.max())],
        target_lengths=target_lengths,
    )


def middles(count: int, parts: int) -> list[int]:
    """The places in the middle of equal parts of `count` places; all of them if there are fewer.

    >>> middles(10, 2), middles(3, 6)
    ([2, 7], [0, 1, 2])
    """
    if count <= parts:
        return list(range(count))
    return [(2 * part + 1) * count // (2 * parts) for part in range(parts)]


# How much memory this machine has, and how much of it is free.


MEMORY_BOOK = Path("/proc/meminfo")


def machine_bytes() -> int:
    """All of it."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def free_bytes() -> int:
    """What a new process could take without swapping; all of it where the system does not say."""
    try:
        lines = MEMORY_BOOK.read_text(encoding="utf-8").splitlines()
    except OSError:
        return machine_bytes()
    found = (line for line in lines if line.startswith("MemAvailable:"))
    return next((int(line.split()[1]) * 1024 for line in found), machine_bytes())


# The share of the learning rate in a step that only shows what it takes: the weights stay.
STAND_STILL = 0.0


# Weights, gradient and two moments.
COPIES_OF_WEIGHTS = 4
BYTES_OF_A_NUMBER = 4
# What is free must also hold a step, and others use this machine too.
FREE_SHARE = 0.7


class NoRoomError(RegardError):
    """A model that this machine cannot even hold."""


class StepPrice(NamedTuple):
    """The mean step of an epoch; `declared` operations are those a budget counts."""

    price: WorkPrice
    tokens: float
    declared: float


class Trainee:
    """Built from a spec as a run builds it."""

    def __init__(self, spec: RunSpec, task: RunTask) -> None:
        if spec.training.device != "cpu":
            raise RegardError(
                f"training.device={spec.training.device}: plans are made for the processor of this "
                "machine. Set training.device=cpu."
            )
        require_room(spec, task)
        self.task = task
        self.options = spec.training
        self.model = build_spec_model(spec, task.corpus.vocabularies).train()
        self.stepper = Stepper(model=self.model, task=task, options=spec.training)
        self.averaging = build_averaging(self.model, spec.training)

    @property
    def parameters(self) -> int:
        """How many numbers the model has."""
        return sum(parameter.numel() for parameter in self.model.parameters())

    @property
    def weight_bytes(self) -> int:
        """Of the model's weights alone."""
        return _bytes(dict(self.model.named_parameters()))

    @property
    def kept_bytes(self) -> int:
        """Of all that lives from step to step: weights, the optimiser's moments, averages."""
        tensors = gather(
            model=self.model, optimizers=self.stepper.optimizers, averaging=self.averaging
        )
        # These are taken at evaluations, and there has been none.
        later = self.options.average_last if self.options.averaging == "last" else 0
        return _bytes(tensors) + later * self.weight_bytes

    def step(self, batch: PairBatch | TextBatch) -> None:
        """One training step, on as many such batches as the options ask for."""
        self.stepper.step([batch] * self.options.accumulate, number=1, factor=STAND_STILL)
        self.averaging.stepped(1)

    def step_price(self, calibration: Calibration, *, samples: int, most: float) -> StepPrice:
        """The mean over an epoch, by batches from short pairs to long ones, each for an equal part.

        A step of more operations than `most` is not run whole.
        """
        epoch: Any = self.task.epoch(0)
        by_length = sorted(range(len(epoch)), key=lambda index: -len(epoch.indices(index)))
        batches = [epoch[by_length[place]] for place in middles(len(epoch), samples)]
        self.step(first_rows(batches[0], 1))  # the optimiser makes its moments at its first step
        store, accumulate = self.task.corpus.train, self.options.accumulate
        # With every source and every target there is an END.
        tokens = len(store.source_tokens) + len(store.target_tokens) + 2 * len(store)
        declared = [self._declared(batch) for batch in batches]
        return StepPrice(
            price=mean_price([self._price(batch, calibration, most) for batch in batches]),
            tokens=accumulate * tokens / len(epoch),
            declared=sum(declared) / len(declared),
        )

    def _declared(self, batch: PairBatch) -> float:
        return float(
            self.options.accumulate * operations_of(self.model, self.task.cost_words(batch))
        )

    def _price(self, batch: PairBatch, calibration: Calibration, most: float) -> WorkPrice:
        rows = len(batch.source)
        most_rows = int(rows * most / max(1.0, self._declared(batch)))

        def price(count: int) -> WorkPrice:
            part = first_rows(batch, count)
            return price_of(lambda: self.step(part), "train", calibration)

        found = price_by_rows(price, rows=rows, most=most_rows)
        if rows <= most_rows:
            return found

        def features_price(count: int) -> WorkPrice:
            part = first_rows(batch, count)
            return price_of(lambda: self._gradient_of_features(part), "train", calibration)

        # With few rows the gradient of the weights is most of the peak, with many what the rows hold.
        held_by_rows = price_by_rows(features_price, rows=rows, most=most_rows).peak_bytes
        if self.options.accumulate > 1:
            held_by_rows += self.weight_bytes
        return found._replace(peak_bytes=max(found.peak_bytes, held_by_rows))

    def _gradient_of_features(self, batch: PairBatch) -> None:
        """Forward, and back as far as the features: all that grows with the rows is there."""
        seen = FeaturesSeen(self.model)
        loss = self.task.loss(seen, batch)
        torch.autograd.grad(loss.total, seen.features)


class FeaturesSeen:
    """A model as a loss asks for it, which remembers the features it gave."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.training = model.training
        self.features: list[Tensor] = []

    def hidden(self, *inputs: Tensor) -> Tensor:
        """As the model's."""
        features: Tensor = self.model.hidden(*inputs)
        self.features.append(features)
        return features

    def logits(self, hidden: Tensor) -> Tensor:
        """As the model's."""
        logits: Tensor = self.model.logits(hidden)
        return logits


def require_room(spec: RunSpec, task: RunTask) -> None:
    """Refuse a model whose weights, gradient and moments alone would fill the memory that is free."""
    with torch.device("meta"):
        model = build_spec_model(spec, task.corpus.vocabularies)
    numbers = sum(parameter.numel() for parameter in model.parameters())
    needed = COPIES_OF_WEIGHTS * BYTES_OF_A_NUMBER * numbers
    free = free_bytes()
    if needed > FREE_SHARE * free:
        raise NoRoomError(
            f"The model '{spec.model}' has {numbers:,} parameters, and takes {needed / 1e9:.1f} GB before "
            f"its first step, but {free / 1e9:.1f} GB are free here. Choose smaller widths."
        )


def _bytes(tensors: dict[str, Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())


# What evaluations take: the loss of the held-out pairs, and decoding them.
#
# How long an output gets is not known before a model is trained, so every row says as many tokens
# as its right answer has. Computing the scores from the texts is not counted.


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
    in_the_end = 1 + len(task.corpus.test) / len(task.corpus.validation)
    return EvaluationPrice(
        each_seconds=loss.seconds + greedy.seconds,
        final_seconds=in_the_end * (loss.seconds + beam.seconds),
        peak_bytes=max(loss.peak_bytes, greedy.peak_bytes, beam.peak_bytes),
    )


def _part_price(
    model: Any, task: Any, calibration: Calibration, *, beam_size: int, samples: int
) -> WorkPrice:
    """Of the whole development part; a beam of 0 is the loss alone."""
    store = task.held_out_store(task.corpus.validation)
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
    """Decode as `regard.models.generation.search` does, every row for so many tokens, END counted."""
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
