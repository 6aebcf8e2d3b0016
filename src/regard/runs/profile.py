"""Profile training steps and evaluations of a run: predicted time, FLOPs, peak memory.

Steps and batches are real and traced once (`StepProfiler`, `estimate_evaluation`); work that is too large
is extrapolated from smaller batches. How long generated outputs get is unknown before training, so
every output is as long as its reference. Computing scores from texts is not included.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_iter

from regard.core.batches import START, Batch, Input
from regard.core.device import resolve_device
from regard.core.errors import RegardError
from regard.core.formatting import bytes_text, integer_text
from regard.core.protocols import is_autoregressive
from regard.costs.calibration import Calibration
from regard.costs.predict import predict
from regard.costs.trace import Mode, Run, Workload, trace
from regard.models.generation.search import MIN_FINISHED_FRACTION, top_k_tokens
from regard.runs.build import build_spec_model, flops_counter
from regard.runs.spec import RunSpec
from regard.tasks.task import Task
from regard.training.averaging import build_averaging
from regard.training.checkpoint import collect_state
from regard.training.step import Stepper


class WorkEstimate(NamedTuple):
    """Predicted seconds, additional bytes at the peak, and counted FLOPs."""

    seconds: float
    peak_bytes: float
    flops: float


def estimate_run(run: Run, mode: Mode, calibration: Calibration) -> WorkEstimate:
    """Estimate one call. It runs on real tensors: batching needs values, which fake tensors lack."""
    traced = trace(Workload("planned", mode, lambda: run), real=True)
    predicted = predict(traced, calibration)
    return WorkEstimate(predicted.seconds, float(traced.peak_bytes), float(traced.flops))


def extrapolate_batch_size(
    estimate: Callable[[int], WorkEstimate], *, batch_size: int, max_size: int
) -> WorkEstimate:
    """Estimate a batch; beyond `max_size`, by linear extrapolation from that size and half of it.

    The intercept is the part that does not depend on the batch size, such as the optimizer.
    """
    if batch_size <= max_size or batch_size < 2:
        return estimate(batch_size)
    many = max(2, max_size)
    few = many // 2
    at_few, at_many = estimate(few), estimate(many)
    return WorkEstimate(
        *(
            # Times are predicted with an error, but more rows are never less work.
            high + max(0.0, high - low) / (many - few) * (batch_size - many)
            for low, high in zip(at_few, at_many, strict=True)
        )
    )


def mean_estimate(estimates: list[WorkEstimate]) -> WorkEstimate:
    """Mean seconds and FLOPs, and the largest peak."""
    seconds, peaks, flops = zip(*estimates, strict=True)
    return WorkEstimate(sum(seconds) / len(estimates), max(peaks), sum(flops) / len(estimates))


def evenly_spaced(count: int, parts: int) -> list[int]:
    """The midpoints of equal parts of range(count); all of range(count) if there are fewer.

    >>> evenly_spaced(10, 2), evenly_spaced(3, 6)
    ([2, 7], [0, 1, 2])
    """
    if count <= parts:
        return list(range(count))
    return [(2 * part + 1) * count // (2 * parts) for part in range(parts)]


MEMINFO = Path("/proc/meminfo")


def machine_bytes() -> int:
    """Physical memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def free_bytes() -> int:
    """Memory available without swapping; all physical memory if unknown."""
    try:
        lines = MEMINFO.read_text(encoding="utf-8").splitlines()
    except OSError:
        return machine_bytes()
    found = (line for line in lines if line.startswith("MemAvailable:"))
    return next((int(line.split()[1]) * 1024 for line in found), machine_bytes())


# Batches whose tokens are counted, for the mean of an epoch.
TOKEN_SAMPLES = 64
# Learning-rate factor of a profiled step: parameters do not change.
NO_UPDATE = 0.0
# Parameters, gradients and two moments, in float32.
PARAMETER_COPIES = 4
BYTES_PER_PARAMETER = 4
# Free memory must also hold a step, and other processes use it too.
USABLE_FRACTION = 0.7


class InsufficientMemoryError(RegardError):
    """The model does not fit into the memory of this machine."""


class StepEstimate(NamedTuple):
    """The mean step of an epoch; `budget_flops` are those that a budget counts."""

    estimate: WorkEstimate
    tokens: float
    budget_flops: float


class StepProfiler:
    """Model, optimizer and averaging of a run, without a run folder, to profile training steps."""

    def __init__(self, spec: RunSpec, task: Task) -> None:
        if resolve_device(spec.training.device, option="training.device=").type != "cpu":
            raise RegardError(
                f"training.device={spec.training.device}: plans are made for the CPU only. "
                "Set training.device=cpu."
            )
        validate_memory(spec, task)
        self.task = task
        self.options = spec.training
        self.model = build_spec_model(spec, task.dataset.preprocessor).train()
        self.stepper = Stepper(model=self.model, task=task, options=spec.training)
        self.averaging = build_averaging(self.model, spec.training)
        self.flops = flops_counter(self.model, task)

    @property
    def parameters(self) -> int:
        """Number of parameters."""
        return sum(parameter.numel() for parameter in self.model.parameters())

    @property
    def parameter_bytes(self) -> int:
        """Bytes of the parameters."""
        return _bytes(dict(self.model.named_parameters()))

    @property
    def training_state_bytes(self) -> int:
        """Bytes of parameters, optimizer moments and averages."""
        tensors = collect_state(
            model=self.model, optimizers=self.stepper.optimizers, averaging=self.averaging
        )
        # Checkpoints to average are stored at evaluations, and there has been none.
        pending = self.options.average_last if self.options.averaging == "last" else 0
        return _bytes(tensors) + pending * self.parameter_bytes

    def step(self, batch: Batch) -> None:
        """One training step, with gradient accumulation."""
        self.stepper.step([batch] * self.options.accumulate, number=1, factor=NO_UPDATE)
        self.averaging.update(1)

    def estimate_step(
        self, calibration: Calibration, *, samples: int, max_flops: float
    ) -> StepEstimate:
        """The mean step of an epoch, from batches evenly spaced by sequence length.

        A step of more than `max_flops` is extrapolated from smaller batches.
        """
        epoch: Any = self.task.epoch(0)
        by_length = sorted(range(len(epoch)), key=lambda index: -len(epoch.indices(index)))
        batches = [epoch[by_length[index]] for index in evenly_spaced(len(epoch), samples)]
        self.step(batches[0].select(slice(1)))  # the optimizer allocates its moments
        counted = [epoch[index].num_tokens for index in evenly_spaced(len(epoch), TOKEN_SAMPLES)]
        flops = [float(self.options.accumulate * self.flops(batch)) for batch in batches]
        return StepEstimate(
            estimate=mean_estimate(
                [self._estimate(batch, calibration, max_flops) for batch in batches]
            ),
            tokens=self.options.accumulate * sum(counted) / len(counted),
            budget_flops=sum(flops) / len(flops),
        )

    def _estimate(self, batch: Batch, calibration: Calibration, max_flops: float) -> WorkEstimate:
        batch_size = batch.input.shape[0]
        flops = self.options.accumulate * self.flops(batch)
        max_size = int(batch_size * max_flops / max(1.0, flops))

        def estimate(count: int) -> WorkEstimate:
            part = batch.select(slice(count))
            return estimate_run(lambda: self.step(part), "train", calibration)

        found = extrapolate_batch_size(estimate, batch_size=batch_size, max_size=max_size)
        if batch_size <= max_size:
            return found

        def estimate_features(count: int) -> WorkEstimate:
            part = batch.select(slice(count))
            return estimate_run(lambda: self._feature_gradients(part), "train", calibration)

        # Parameter gradients dominate the peak of small batches, activations that of large ones.
        activations = extrapolate_batch_size(
            estimate_features, batch_size=batch_size, max_size=max_size
        ).peak_bytes
        if self.options.accumulate > 1:
            activations += self.parameter_bytes
        return found._replace(peak_bytes=max(found.peak_bytes, activations))

    def _feature_gradients(self, batch: Batch) -> None:
        """Forward, and backward to the features: everything that grows with the batch size."""
        recorder = FeatureRecorder(self.model)
        loss = self.task.loss(recorder, batch)
        torch.autograd.grad(loss.total, recorder.features)


class FeatureRecorder:
    """Wraps a model for the loss and records the first tensor that it returns.

    Only the first one: others, such as logits, are freed before the backward pass is over.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.features: list[Tensor] = []

    def __getattr__(self, name: str) -> Any:
        own = getattr(self.model, name)
        if not callable(own) or name == "parameters":
            return own

        def call(*args: Any, **kwargs: Any) -> Any:
            returned = own(*args, **kwargs)
            tensors = (each for each in tree_iter(returned) if isinstance(each, Tensor))
            found = [*self.features, *(each for each in tensors if each.requires_grad)]
            self.features = found[:1]
            return returned

        return call


def validate_memory(spec: RunSpec, task: Task) -> None:
    """Raise if parameters, gradients and moments alone exceed the free memory."""
    with torch.device("meta"):
        model = build_spec_model(spec, task.dataset.preprocessor)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    needed = PARAMETER_COPIES * BYTES_PER_PARAMETER * parameters
    free = free_bytes()
    if needed > USABLE_FRACTION * free:
        raise InsufficientMemoryError(
            f"The model '{spec.model}' has {integer_text(parameters)} parameters and needs "
            f"{bytes_text(needed)} "
            f"before the first step, but {bytes_text(free)} are free. Use smaller widths."
        )


def _bytes(tensors: dict[str, Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())


# Evaluation batches with more rows are extrapolated: decoding takes many small steps.
MAX_EVAL_ROWS = 64
LOSS_SAMPLES = 2
GREEDY_SAMPLES = 3
BEAM_SAMPLES = 1


class EvaluationEstimate(NamedTuple):
    """Seconds of each evaluation during training, and of the final evaluation of the best checkpoint."""

    each_seconds: float
    final_seconds: float
    peak_bytes: float

    def times(self, factor: float) -> EvaluationEstimate:
        """The estimate of a model that is slower by a factor."""
        return self._replace(
            each_seconds=factor * self.each_seconds, final_seconds=factor * self.final_seconds
        )


NOT_EVALUATED = EvaluationEstimate(0.0, 0.0, 0.0)


def estimate_evaluation(
    model: Any, task: Task, calibration: Calibration, *, beam_size: int | None
) -> EvaluationEstimate:
    """The validation split during training; finally, validation and test split of the best checkpoint.

    A task that decodes (`beam_size` is not None) also decodes greedily, and finally with its beam size.
    """
    model.eval()
    try:
        loss = _estimate_split(model, task, calibration, beam_size=0, samples=LOSS_SAMPLES)
        greedy = beam = WorkEstimate(0.0, 0.0, 0.0)
        if beam_size is not None:
            greedy = beam = _estimate_split(
                model, task, calibration, beam_size=1, samples=GREEDY_SAMPLES
            )
        if beam_size is not None and beam_size > 1:
            beam = _estimate_split(
                model, task, calibration, beam_size=beam_size, samples=BEAM_SAMPLES
            )
    finally:
        model.train()
    final_splits = 1 + len(task.dataset.test) / len(task.dataset.validation)
    return EvaluationEstimate(
        each_seconds=loss.seconds + greedy.seconds,
        final_seconds=final_splits * (loss.seconds + beam.seconds),
        peak_bytes=max(loss.peak_bytes, greedy.peak_bytes, beam.peak_bytes),
    )


def _estimate_split(
    model: Any, task: Task, calibration: Calibration, *, beam_size: int, samples: int
) -> WorkEstimate:
    """Estimate the whole validation split; `beam_size=0` is the loss alone."""
    batches = task.eval_batches(task.dataset.validation)
    estimates = []
    for index in evenly_spaced(len(batches), samples):
        batch = batches[index]

        def estimate(count: int, batch: Batch = batch) -> WorkEstimate:
            part = batch.select(slice(count))

            @torch.inference_mode()
            def run() -> None:
                if beam_size:
                    lengths = part.target.lengths - 1  # without START
                    decode_to_lengths(model, part.input, lengths, beam_size=beam_size)
                else:
                    task.loss(model, part)

            return estimate_run(run, "decode" if beam_size else "forward", calibration)

        batch_size = batch.input.shape[0]
        estimates.append(
            extrapolate_batch_size(estimate, batch_size=batch_size, max_size=MAX_EVAL_ROWS)
        )
    mean = mean_estimate(estimates)
    return mean._replace(seconds=len(batches) * mean.seconds)


def decode_to_lengths(model: Any, source: Input, lengths: Tensor, *, beam_size: int) -> None:
    """Decode as `regard.models.generation.search` does, each output for `lengths` tokens, END included.

    What a model takes that predicts all tokens at once does not depend on `lengths`.
    """
    if not is_autoregressive(model):
        model.decode_sequences(source, beam_size=beam_size)
        return
    state = model.start(source)
    if beam_size > 1:
        index = torch.arange(len(lengths)).repeat_interleave(beam_size)
        state, lengths = state.select(index), lengths[index]
    token = torch.full_like(lengths, START)
    for step in range(1, int(lengths.max()) + 1):
        logits, state = model.step(state, token)
        token = top_k_tokens(logits, count=beam_size).token[:, 0]
        active = lengths > step
        if not active.any():
            return
        # Beams are reordered at every step; greedy rows are dropped when enough are finished.
        if beam_size > 1 or int(active.sum()) <= (1 - MIN_FINISHED_FRACTION) * len(active):
            index = active.nonzero()[:, 0]
            state, lengths, token = state.select(index), lengths[index], token[index]
