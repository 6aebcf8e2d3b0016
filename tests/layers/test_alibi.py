"""ALiBi: the paper's slopes, symmetric distances, positions shared or per example."""

from __future__ import annotations

import pytest
import torch

from regard.core.errors import RegardError
from regard.layers.alibi import Alibi, head_slopes


def test_slopes_of_the_paper() -> None:
    assert head_slopes(8) == [2.0**-step for step in range(1, 9)]
    assert head_slopes(16)[0] == pytest.approx(2**-0.5)
    # Twelve heads: eight, a power of two, then every other one of sixteen.
    assert head_slopes(12) == pytest.approx([*head_slopes(8), *head_slopes(16)[0:8:2]])


def test_values_by_hand() -> None:
    values = Alibi(num_heads=2).values(torch.tensor([3, 4]), torch.tensor([2, 3, 5]))
    distance = torch.tensor([[1.0, 0.0, 2.0], [2.0, 1.0, 1.0]])
    torch.testing.assert_close(values, torch.stack([-distance / 16, -distance / 256])[None])


def test_positions_per_example() -> None:
    bias = Alibi(num_heads=3)
    query, key = torch.tensor([[3, 4], [9, 10]]), torch.tensor([[0, 1, 2, 3, 4], [7, 8, 9, 10, 11]])
    values = bias.values(query, key)
    assert values.shape == (2, 3, 2, 5)
    torch.testing.assert_close(values[1:], bias.values(query[1], key[1]))


def test_slopes_follow_the_dtype_and_are_not_in_the_state_dict() -> None:
    bias = Alibi(num_heads=3).double()
    assert bias.values(torch.arange(2), torch.arange(5)).dtype == torch.float64
    assert bias.state_dict() == {}


def test_zero_heads_are_an_error() -> None:
    with pytest.raises(RegardError, match="num_heads=0"):
        Alibi(num_heads=0)
