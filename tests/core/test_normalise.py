"""Masked softmax and guarded division, by hand."""

from __future__ import annotations

import math

import torch

from regard.core.normalise import (
    NOISE,
    average,
    inverse,
    inverse_slope,
    min_floor,
    noise_floor,
    softmax_over_keys,
)


def test_softmax_over_the_allowed_keys_only() -> None:
    scores = torch.tensor([[0.0, math.log(3.0), 100.0]])
    weights = softmax_over_keys(scores, torch.tensor([[True, True, False]]))
    torch.testing.assert_close(weights, torch.tensor([[0.25, 0.75, 0.0]]))


def test_an_empty_row_is_zero_forward_and_back() -> None:
    scores = torch.randn(2, 3, requires_grad=True)
    weights = softmax_over_keys(scores, torch.tensor([[False] * 3, [True] * 3]))
    assert weights[0].tolist() == [0.0, 0.0, 0.0]
    weights.square().sum().backward()
    assert scores.grad is not None
    assert scores.grad[0].tolist() == [0.0, 0.0, 0.0]
    assert scores.grad.isfinite().all()


LEAST = torch.tensor(min_floor(torch.float32))


def test_a_small_sum_is_exact_down_to_the_floor() -> None:
    tiny = torch.tensor([1e-18, 0.0])
    assert inverse(tiny, floor=LEAST)[0] == 1 / tiny[0]
    assert inverse(tiny, floor=LEAST).isfinite().all()


def test_a_sum_below_the_floor_is_clamped_and_keeps_its_sign() -> None:
    sums = torch.tensor([1e-9, -1e-9, -2.0], dtype=torch.float64)
    floor = torch.tensor(1e-6, dtype=torch.float64)
    assert inverse(sums, floor=floor).tolist() == [1e6, -1e6, -0.5]


def test_noise_floor_is_relative_to_the_bound() -> None:
    bound = torch.tensor([1.0, 1e6, 0.0])
    eps = torch.finfo(torch.float32).eps
    torch.testing.assert_close(
        noise_floor(bound), torch.tensor([NOISE * eps, NOISE * eps * 1e6, LEAST.item()])
    )


def test_the_gradient_is_zero_where_it_is_clamped() -> None:
    sums = torch.tensor([0.0, 1e-30, 2.0], requires_grad=True)
    inverses = inverse(sums, floor=LEAST)
    inverses.sum().backward()
    assert sums.grad is not None
    assert sums.grad.tolist() == [0.0, 0.0, -0.25]
    slopes = inverse_slope(inverses.detach(), floor=LEAST)
    assert slopes.tolist() == [0.0, 0.0, -0.5]


def test_an_empty_sum_averages_to_zero() -> None:
    result = average(torch.zeros(1, 2), torch.zeros(1), floor=LEAST)
    assert result.tolist() == [[0.0, 0.0]]
