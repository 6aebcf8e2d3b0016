"""Diversity penalties of attention hops: known values, the cap, and gradient descent."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from regard.core.protocols import hop_overlap
from regard.models.classifiers.structured import MAX_KL, PENALTIES

HALVES, QUARTERS = [0.5, 0.5], [0.25, 0.75]
FORWARD_KL = 0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75)
BACKWARD_KL = 0.25 * math.log(0.25 / 0.5) + 0.75 * math.log(0.75 / 0.5)


def test_kl_is_minus_the_mean_over_ordered_pairs() -> None:
    two = torch.tensor([[HALVES, QUARTERS]])
    assert PENALTIES["kl"](two).tolist() == pytest.approx([-(FORWARD_KL + BACKWARD_KL) / 2])
    # Of six ordered pairs two are equal hops.
    three = torch.tensor([[HALVES, QUARTERS, QUARTERS]])
    assert PENALTIES["kl"](three).tolist() == pytest.approx([-2 * (FORWARD_KL + BACKWARD_KL) / 6])


def test_kl_of_equal_hops_or_one_hop_is_zero() -> None:
    assert PENALTIES["kl"](torch.tensor([[HALVES, HALVES]])).tolist() == pytest.approx([0.0])
    assert PENALTIES["kl"](torch.tensor([[QUARTERS]])).tolist() == pytest.approx([0.0])


def test_kl_is_capped() -> None:
    weights = torch.eye(2)[None].requires_grad_()
    penalty = PENALTIES["kl"](weights)
    assert penalty.tolist() == [-MAX_KL] == [-5.0]
    (gradient,) = torch.autograd.grad(penalty.sum(), weights)
    assert not gradient.any()


def test_frobenius_is_a_sum_and_kl_a_mean() -> None:
    """Twice as many hops of the same kind: four times as many pairs beside the diagonal."""
    few = torch.tensor([[HALVES, HALVES]], dtype=torch.float64)
    many = few.repeat(1, 2, 1)
    # Each diagonal entry is (1 − ½)², every other pair ½².
    assert PENALTIES["frobenius"](few).tolist() == pytest.approx([2 / 4 + 2 / 4])
    assert PENALTIES["frobenius"](many).tolist() == pytest.approx([4 / 4 + 12 / 4])
    different = torch.tensor([[HALVES, QUARTERS]], dtype=torch.float64)
    doubled = different.repeat(1, 2, 1)
    # 8 of 12 ordered pairs differ, where 2 of 2 did.
    mean = PENALTIES["kl"](different).item()
    assert PENALTIES["kl"](doubled).item() == pytest.approx(mean * 8 / 12)


@pytest.mark.parametrize("name", ["frobenius", "kl"])
def test_a_gradient_step_reduces_overlap(name: str) -> None:
    torch.manual_seed(0)
    scores = torch.randn(1, 3, 6, dtype=torch.float64, requires_grad=True)

    def weights(of: Tensor) -> Tensor:
        return of.softmax(dim=-1)

    before = PENALTIES[name](weights(scores))
    (gradient,) = torch.autograd.grad(before.sum(), scores)
    moved = weights(scores.detach() - 0.1 * gradient)
    assert PENALTIES[name](moved) < before
    assert hop_overlap(moved) < hop_overlap(weights(scores))


def test_none_is_zero() -> None:
    assert PENALTIES["none"](torch.rand(3, 2, 5)).tolist() == [0.0] * 3
