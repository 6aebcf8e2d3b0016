"""Weight averaging, with values that can be checked by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from regard.training.averaging import Averaging, build_averaging
from regard.training.options import TrainingOptions


class One(nn.Module):
    """A model with one parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([8.0]))

    def put(self, value: float) -> None:
        with torch.no_grad():
            self.weight.fill_(value)


def averaging(model: nn.Module, **options: Any) -> Averaging:
    return build_averaging(model, TrainingOptions(steps=1, **options))


def value(average: Averaging, step: int) -> float:
    averaged = average.average(step)
    assert averaged is not None
    return averaged["weight"].item()


def test_none_returns_no_average() -> None:
    assert averaging(One()).average(3) is None


def test_exponential() -> None:
    model = One()
    average = averaging(model, averaging="exponential", average_decay=0.25)
    model.put(30.0)
    average.update(1)  # decay 2/11, which is below 1/4
    assert value(average, 1) == pytest.approx(8 * 2 / 11 + 30 * 9 / 11)
    before = value(average, 1)
    model.put(2.0)
    average.update(5)  # 6/15 is above: decay 1/4
    assert value(average, 5) == pytest.approx(before / 4 + 2 * 3 / 4)
    assert model.weight.item() == 2.0


def test_last() -> None:
    model = One()
    average = averaging(model, averaging="last", average_last=3)
    found = []
    for step, weight in [(10, 3.0), (20, 5.0), (30, 10.0), (40, 6.0)]:
        model.put(weight)
        average.update(step)
        found.append(value(average, step))
    assert found == [3.0, 4.0, 6.0, 7.0]
    assert value(average, 40) == 7.0  # called twice, no second snapshot


@pytest.mark.parametrize("kind", ["none", "exponential", "last"])
def test_state_dict_round_trip(kind: str) -> None:
    first, second = One(), One()
    ours, theirs = averaging(first, averaging=kind), averaging(second, averaging=kind)
    first.put(1.0)
    ours.update(1)
    ours.average(1)
    theirs.load_state_dict({name: tensor.clone() for name, tensor in ours.state_dict().items()})
    for model, average in ((first, ours), (second, theirs)):
        model.put(5.0)
        average.update(2)
    one, other = ours.average(2), theirs.average(2)
    if one is None or other is None:
        assert kind == "none"
    else:
        assert torch.equal(one["weight"], other["weight"])
