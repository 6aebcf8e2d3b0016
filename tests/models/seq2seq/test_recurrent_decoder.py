"""StepwiseLinear against a plain linear layer: values and gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.core.errors import RegardError
from regard.models.seq2seq.recurrent_decoder import StepwiseLinear


def chain(offsets: Tensor, weight: Tensor, first: Tensor, *, deferred: bool) -> Tensor:
    """Each step's input is the previous step's output."""
    product = StepwiseLinear(offsets, weight)
    x, outputs = first, []
    for offset in offsets.unbind(dim=1):
        x = torch.tanh(product(x) if deferred else offset + F.linear(x, weight))
        outputs.append(x)
    return torch.stack(outputs, dim=1)


def inputs() -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    shapes = ((2, 5, 3), (3, 3), (2, 3))
    offsets, weight, first = (
        torch.randn(shape, dtype=torch.float64).requires_grad_() for shape in shapes
    )
    return offsets, weight, first


def test_values_and_gradients_equal_a_linear_layer() -> None:
    tensors = inputs()
    ours, theirs = (chain(*tensors, deferred=deferred) for deferred in (True, False))
    torch.testing.assert_close(ours, theirs)
    upstream = torch.randn_like(ours)
    expected = torch.autograd.grad(theirs, tensors, upstream)
    torch.testing.assert_close(
        torch.autograd.grad(ours, tensors, upstream, retain_graph=True), expected
    )
    # A partial gradient first, then all of them: the same values.
    (first_alone,) = torch.autograd.grad(ours, tensors[2:], upstream, retain_graph=True)
    torch.testing.assert_close(first_alone, expected[2])
    torch.testing.assert_close(torch.autograd.grad(ours, tensors, upstream), expected)


def test_loss_on_some_steps_only() -> None:
    tensors = inputs()
    ours, theirs = (chain(*tensors, deferred=deferred)[:, 2].sum() for deferred in (True, False))
    torch.testing.assert_close(
        torch.autograd.grad(ours, tensors), torch.autograd.grad(theirs, tensors)
    )


def test_second_derivatives_raise() -> None:
    tensors = inputs()
    with pytest.raises(RegardError, match="Second derivatives"):
        torch.autograd.grad(chain(*tensors, deferred=True).sum(), tensors, create_graph=True)
