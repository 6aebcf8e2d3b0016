"""Penalties checked with a pencil, against the elementwise sums, and at padding and zeros."""

from __future__ import annotations

import math

import pytest
import torch

from regard.layers.pooling import frobenius_penalty, pairwise_kl_penalty


def test_frobenius_by_hand() -> None:
    apart = [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    same = [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    # AAᵀ = [[½, ¼], [¼, ⅜]]: ¼ on the diagonal, 2/16 beside it, and (5/8)².
    mixed = [[0.5, 0.5, 0.0], [0.25, 0.25, 0.5]]
    penalties = frobenius_penalty(torch.tensor([apart, same, mixed]))
    assert penalties.tolist() == pytest.approx([0.0, 2.0, 1 / 4 + 2 / 16 + 25 / 64])


def test_pairwise_kl_by_hand() -> None:
    weights = torch.tensor([[[0.5, 0.5], [0.25, 0.75]]])
    there = 0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75)
    back = 0.25 * math.log(0.25 / 0.5) + 0.75 * math.log(0.75 / 0.5)
    assert pairwise_kl_penalty(weights).item() == pytest.approx(there + back)


def test_pairwise_kl_is_the_elementwise_sum() -> None:
    weights = torch.randn(3, 5, 7, dtype=torch.float64).softmax(dim=-1)
    left, right = weights[:, :, None], weights[:, None]
    expected = (left * (left.log() - right.log())).sum(dim=(1, 2, 3))
    torch.testing.assert_close(pairwise_kl_penalty(weights), expected)


@pytest.mark.parametrize("penalty", [frobenius_penalty, pairwise_kl_penalty])
def test_padded_columns_add_nothing_and_gradients_are_finite(penalty: object) -> None:
    assert callable(penalty)
    scores = torch.randn(2, 3, 5, dtype=torch.float64, requires_grad=True)
    hidden = torch.cat([scores, torch.full((2, 3, 4), -math.inf, dtype=torch.float64)], dim=-1)
    padded = penalty(hidden.softmax(dim=-1))
    torch.testing.assert_close(padded, penalty(scores.softmax(dim=-1)))
    (gradient,) = torch.autograd.grad(padded.sum(), scores)
    assert gradient.isfinite().all()
    assert (gradient != 0).any()


def test_hops_apart_diverge_without_end_but_not_to_infinity() -> None:
    far = pairwise_kl_penalty(torch.eye(2)[None])
    assert far.isfinite().all()
    assert far.item() > 100


def test_an_example_that_is_all_padding() -> None:
    nothing = torch.zeros(1, 3, 5)
    assert pairwise_kl_penalty(nothing).item() == 0
    assert frobenius_penalty(nothing).item() == 3
