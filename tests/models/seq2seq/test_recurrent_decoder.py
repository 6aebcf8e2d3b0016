"""Products in a loop against a plain linear layer: values, gradients, and what is refused."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.core.errors import RegardError
from regard.models.seq2seq.recurrent_decoder import StepProducts


def chain(starts: Tensor, weight: Tensor, first: Tensor, *, deferred: bool) -> Tensor:
    """Each step reads what the one before gave."""
    product = StepProducts(starts, weight)
    x, outputs = first, []
    for start in starts.unbind(dim=1):
        x = torch.tanh(product(x) if deferred else start + F.linear(x, weight))
        outputs.append(x)
    return torch.stack(outputs, dim=1)


def inputs() -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    shapes = ((2, 5, 3), (3, 3), (2, 3))
    starts, weight, first = (
        torch.randn(shape, dtype=torch.float64).requires_grad_() for shape in shapes
    )
    return starts, weight, first


def test_values_and_gradients_are_a_linear_layers() -> None:
    given = inputs()
    ours, theirs = (chain(*given, deferred=deferred) for deferred in (True, False))
    torch.testing.assert_close(ours, theirs)
    upstream = torch.randn_like(ours)
    expected = torch.autograd.grad(theirs, given, upstream)
    torch.testing.assert_close(
        torch.autograd.grad(ours, given, upstream, retain_graph=True), expected
    )
    # Asked for less first, and then again, it gives the same.
    (first_alone,) = torch.autograd.grad(ours, given[2:], upstream, retain_graph=True)
    torch.testing.assert_close(first_alone, expected[2])
    torch.testing.assert_close(torch.autograd.grad(ours, given, upstream), expected)


def test_a_loss_of_some_steps_only() -> None:
    given = inputs()
    ours, theirs = (chain(*given, deferred=deferred)[:, 2].sum() for deferred in (True, False))
    torch.testing.assert_close(torch.autograd.grad(ours, given), torch.autograd.grad(theirs, given))


def test_second_derivatives_are_refused() -> None:
    given = inputs()
    with pytest.raises(RegardError, match="Second derivatives"):
        torch.autograd.grad(chain(*given, deferred=True).sum(), given, create_graph=True)
