"""During tests, a call that breaks its own signature is an error."""

from __future__ import annotations

from typing import Self

import jaxtyping
import pytest
import torch
from jaxtyping import Float
from shape_checker import check
from torch import Tensor

from regard.core.registry import look_up


@jaxtyping.jaxtyped(typechecker=check)
def add(left: Float[Tensor, "rows columns"], right: Float[Tensor, " columns"]) -> Tensor:
    return left + right


class Box:
    @jaxtyping.jaxtyped(typechecker=check)
    def kept(self, index: Float[Tensor, " rows"]) -> Self:
        return self


def test_our_modules_are_checked() -> None:
    with pytest.raises(jaxtyping.TypeCheckError):
        look_up("mechanism", 3, {})  # type: ignore[arg-type]


def test_a_wrong_shape_is_refused() -> None:
    assert add(torch.ones(2, 3), torch.ones(3)).shape == (2, 3)
    with pytest.raises(jaxtyping.TypeCheckError):
        add(torch.ones(2, 3), torch.ones(1))


def test_a_method_that_returns_self_has_its_arguments_checked() -> None:
    box = Box()
    assert box.kept(torch.ones(2)) is box
    with pytest.raises(jaxtyping.TypeCheckError):
        box.kept(torch.ones(2, 2))
