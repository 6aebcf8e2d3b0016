"""Evaluation has no side effects on the model or the random state."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from tests.factories.toy_training import ToyModel, ToyTask

from regard.core.errors import RegardError
from regard.training.averaging import evaluate


class RecordingTask(ToyTask):
    """Records the bias it evaluates; raises if `fails`."""

    def __init__(self, *, fails: bool = False) -> None:
        super().__init__()
        self.fails = fails
        self.bias: list[float] = []

    def evaluate(self, model: Any) -> dict[str, float]:
        assert not model.training
        assert torch.is_inference_mode_enabled()
        self.bias = model.hidden.bias.tolist()
        if self.fails:
            raise KeyboardInterrupt
        return super().evaluate(model)


@pytest.mark.parametrize("fails", [True, False])
def test_parameters_modes_and_random_state_are_restored(fails: bool) -> None:
    model, task = ToyModel(), RecordingTask(fails=fails)
    model.norm.eval()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    torch.manual_seed(5)
    state = torch.get_rng_state()
    averaged = {"hidden.bias": torch.full((7,), 2.0)}
    with pytest.raises(KeyboardInterrupt) if fails else nullcontext():
        evaluate(model, task, averaged=averaged, guard=nullcontext())
    assert task.bias == [2.0] * 7
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert model.training
    assert model.hidden.training
    assert not model.norm.training
    model(torch.arange(3)).sum().backward()  # not left in inference mode


def test_missing_metric_is_named() -> None:
    task = ToyTask()
    task.metric = "bleu"
    with pytest.raises(RegardError, match="'bleu' is not among its scores: error, accuracy"):
        evaluate(ToyModel(), task, averaged=None, guard=nullcontext())
