"""Parameter groups, weight decay and optimizer state."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.factories.toy_training import ToyModel
from torch import nn

from regard.training.optimizers import (
    build_optimizers,
    load_optimizer_state,
    optimizer_state,
    parameter_groups,
    set_learning_rates,
)
from regard.training.options import TrainingOptions


class Mixed(nn.Module):
    """One layer of each kind; optionally with a tied output layer."""

    def __init__(self, *, tied: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(13, 5)
        self.recurrent = nn.LSTM(5, 5)
        self.convolution = nn.Conv1d(5, 5, 3)
        self.norm = nn.LayerNorm(5)
        self.scale = nn.Parameter(torch.ones(5, 5))
        self.frozen = nn.Linear(5, 5).requires_grad_(False)
        self.output = nn.Linear(5, 13)
        if tied:
            self.output.weight = self.embedding.weight


def test_parameter_groups() -> None:
    found = parameter_groups(Mixed(tied=False))
    assert list(found.hidden) == ["recurrent.weight_ih_l0", "recurrent.weight_hh_l0"]
    assert list(found.decay) == ["convolution.weight", "output.weight"]
    assert list(found.no_decay) == [
        "scale",
        "embedding.weight",
        "recurrent.bias_ih_l0",
        "recurrent.bias_hh_l0",
        "convolution.bias",
        "norm.weight",
        "norm.bias",
        "output.bias",
    ]


def test_tied_output_has_no_weight_decay() -> None:
    found = parameter_groups(Mixed(tied=True))
    assert "embedding.weight" in found.no_decay
    assert "output.weight" not in {**found.hidden, **found.decay, **found.no_decay}


def test_sgd_with_momentum_by_hand() -> None:
    layer = nn.Linear(1, 1, bias=False)
    nn.init.constant_(layer.weight, 1.0)
    options = TrainingOptions(
        steps=1, optimizer="sgd", learning_rate=0.1, momentum=0.5, weight_decay=0.0
    )
    (optimizer,) = build_optimizers(layer, options)
    for gradient in (2.0, 4.0):
        layer.weight.grad = torch.full((1, 1), gradient)
        optimizer.step()
    # 1 − 0.1 · 2 − 0.1 · (0.5 · 2 + 4)
    assert layer.weight.item() == pytest.approx(0.3)


@pytest.mark.parametrize("name", ["adamw", "muon", "sgd"])
def test_weight_decay_applies_to_its_groups_only(name: Any) -> None:
    """With zero gradients, only weight decay changes parameters."""
    model = Mixed(tied=False)
    options = TrainingOptions(
        steps=1, optimizer=name, learning_rate=0.1, muon_learning_rate=0.2, weight_decay=0.5
    )
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter) if parameter.requires_grad else None
    for optimizer in build_optimizers(model, options):
        optimizer.step()
    found = parameter_groups(model)
    hidden_factor = 1 - 0.5 * (0.2 if name == "muon" else 0.1)
    for key, value in model.named_parameters():
        factor = hidden_factor if key in found.hidden else 0.95 if key in found.decay else 1.0
        torch.testing.assert_close(value, before[key] * factor, msg=key)


def test_every_parameter_has_one_optimizer() -> None:
    model = Mixed(tied=True)
    optimizers = build_optimizers(model, TrainingOptions(steps=1, optimizer="muon"))
    covered = [
        id(parameter)
        for optimizer in optimizers
        for group in optimizer.param_groups
        for parameter in group["params"]
    ]
    assert sorted(covered) == sorted(id(one) for one in model.parameters() if one.requires_grad)


def test_learning_rates_are_factors_of_the_peak() -> None:
    options = TrainingOptions(steps=1, optimizer="muon", learning_rate=0.1, muon_learning_rate=0.4)
    optimizers = build_optimizers(ToyModel(), options)
    set_learning_rates(optimizers, 0.5)
    set_learning_rates(optimizers, 0.25)
    assert [[group["lr"] for group in one.param_groups] for one in optimizers] == [
        [0.1],
        [0.025, 0.025],
    ]


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_state_round_trip(name: Any) -> None:
    options = TrainingOptions(steps=1, optimizer=name)
    first, second = ToyModel(), ToyModel()
    ours, theirs = build_optimizers(first, options), build_optimizers(second, options)
    for _ in range(2):
        first(torch.arange(5)).square().sum().backward()
        for optimizer in ours:
            optimizer.step()
    saved = optimizer_state(ours, first)
    assert ("hidden.weight.exp_avg" in saved) == (name == "adamw")
    assert ("hidden.weight.momentum_buffer" in saved) == (name == "muon")
    unexpected = load_optimizer_state(theirs, second, {**saved, "missing.exp_avg": torch.ones(1)})
    assert unexpected == ["missing.exp_avg"]
    restored = optimizer_state(theirs, second)
    assert restored.keys() == saved.keys()
    assert all(torch.equal(restored[key], saved[key]) for key in saved)
    assert all(restored[key].data_ptr() != saved[key].data_ptr() for key in saved)


def test_state_of_another_shape_is_unexpected() -> None:
    model = ToyModel()
    optimizers = build_optimizers(model, TrainingOptions(steps=1))
    unexpected = load_optimizer_state(
        optimizers, model, {"hidden.weight.exp_avg": torch.ones(2, 3)}
    )
    assert unexpected == ["hidden.weight.exp_avg"]
