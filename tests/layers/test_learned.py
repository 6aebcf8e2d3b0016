"""The table's rows, its end, and where the sequence starts."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from regard.core.errors import RegardError
from regard.layers.cost import SequenceShape
from regard.layers.positions import LearnedPositions


def test_each_position_has_its_row() -> None:
    positions, x = LearnedPositions(model_dim=5, max_length=11), torch.randn(2, 3, 5)
    table = positions.embedding.weight
    torch.testing.assert_close(positions(x, start=4), x + table[4:7])
    rows = positions(x, start=torch.tensor([8, 0]))
    torch.testing.assert_close(rows, x + torch.stack([table[8:11], table[0:3]]))


@pytest.mark.parametrize("start", [9, torch.tensor([1, 9])])
def test_past_the_end_is_refused(start: int | torch.Tensor) -> None:
    positions = LearnedPositions(model_dim=5, max_length=11)
    message = "end at max_length=11, but the input reaches position 12. Raise max_length, or"
    with pytest.raises(RegardError, match=message):
        positions(torch.randn(2, 3, 5), start=start)


def test_cost(check_cost: Callable[..., None]) -> None:
    positions = LearnedPositions(model_dim=5, max_length=11)
    check_cost(positions, SequenceShape(batch_size=2, length=3), torch.randn(2, 3, 5))
