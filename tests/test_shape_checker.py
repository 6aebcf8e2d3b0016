"""Calls that violate their annotated shapes raise during tests."""

from __future__ import annotations

from typing import Self

import jaxtyping
import pytest
import torch
from jaxtyping import Float
from shape_checker import check
from torch import Tensor

from regard.core.registry import lookup


@jaxtyping.jaxtyped(typechecker=check)
def add(left: Float[Tensor, "rows columns"], right: Float[Tensor, " columns"]) -> Tensor:
    return left + right


class Box:
    @jaxtyping.jaxtyped(typechecker=check)
    def identity(self, index: Float[Tensor, " rows"]) -> Self:
        return self


def test_regard_is_checked() -> None:
    with pytest.raises(jaxtyping.TypeCheckError):
        lookup("mechanism", 3, {})  # type: ignore[arg-type]


def test_wrong_shape() -> None:
    assert add(torch.ones(2, 3), torch.ones(3)).shape == (2, 3)
    with pytest.raises(jaxtyping.TypeCheckError):
        add(torch.ones(2, 3), torch.ones(1))


def test_method_that_returns_self() -> None:
    box = Box()
    assert box.identity(torch.ones(2)) is box
    with pytest.raises(jaxtyping.TypeCheckError):
        box.identity(torch.ones(2, 2))
