"""A model that can take training steps, as in a run, without a folder: what one step takes."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.core.errors import RegardError
from regard.core.pair_batch import PairBatch
from regard.core.text_batch import TextBatch
from regard.costs.calibration import Calibration
from regard.runs.build import build_spec_model, operations_of
from regard.runs.machine_memory import free_bytes
from regard.runs.priced_work import (
    WorkPrice,
    first_rows,
    mean_price,
    middles,
    price_by_rows,
    price_of,
)
from regard.runs.spec import RunSpec
from regard.tasks.run_task import RunTask
from regard.training.averaging import build_averaging
from regard.training.optimizer_step import Stepper
from regard.training.snapshot import gather

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
