"""Nothing is added."""

from __future__ import annotations

from collections.abc import Callable

import torch

from regard.layers.cost import SequenceShape
from regard.layers.positions import NoPositions


def test_tokens_pass_as_they_are(check_cost: Callable[..., None]) -> None:
    x = torch.randn(2, 3, 5)
    assert NoPositions()(x, start=7) is x
    check_cost(NoPositions(), SequenceShape(batch_size=2, length=3), x)
