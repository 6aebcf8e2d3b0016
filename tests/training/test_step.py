"""Gradient clipping agrees with torch.nn.utils.clip_grad_norm_."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.training.step import clip_gradients


def pair() -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    generator = torch.Generator().manual_seed(0)
    ours = [nn.Parameter(torch.ones(shape)) for shape in [(3, 5), (7,), (2,)]]
    theirs = [nn.Parameter(one.detach().clone()) for one in ours]
    for one, other in zip(ours[:2], theirs[:2], strict=True):  # the last has no gradient
        one.grad = torch.randn(one.shape, generator=generator)
        other.grad = one.grad.clone()
    return ours, theirs


@pytest.mark.parametrize("limit", [0.5, 100.0])
def test_agrees_with_torch(limit: float) -> None:
    ours, theirs = pair()
    norm = clip_gradients(ours, max_norm=limit)
    assert norm == pytest.approx(float(nn.utils.clip_grad_norm_(theirs, limit)))
    for one, other in zip(ours[:2], theirs[:2], strict=True):
        assert one.grad is not None
        torch.testing.assert_close(one.grad, other.grad)


def test_no_limit_leaves_gradients() -> None:
    ours, theirs = pair()
    assert clip_gradients(ours, max_norm=None) > 1
    assert ours[0].grad is not None
    assert torch.equal(
        ours[0].grad, theirs[0].grad if theirs[0].grad is not None else torch.ones(1)
    )


def test_no_gradients_have_norm_zero() -> None:
    assert clip_gradients([nn.Parameter(torch.ones(2))], max_norm=1.0) == 0.0
