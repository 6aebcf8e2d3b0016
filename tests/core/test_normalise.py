"""The normaliser and the guard, on rows one can check by hand."""

from __future__ import annotations

import math

import torch

from regard.core.normalise import SIGNED_FLOOR, average, inverse, softmax_over_keys


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


def test_a_sum_of_nonnegative_terms_is_exact_however_small() -> None:
    tiny = torch.tensor([1e-18, 0.0])
    assert inverse(tiny, signed=False)[0] == 1 / tiny[0]
    assert inverse(tiny, signed=False).isfinite().all()


def test_a_signed_sum_keeps_its_sign_and_leaves_zero() -> None:
    sums = torch.tensor([1e-9, -1e-9, -2.0], dtype=torch.float64)
    assert inverse(sums, signed=True).tolist() == [1 / SIGNED_FLOOR, -1 / SIGNED_FLOOR, -0.5]


def test_the_guard_stops_gradients_where_it_acts() -> None:
    sums = torch.tensor([0.0, 1e-30, 2.0], requires_grad=True)
    inverse(sums, signed=False).sum().backward()
    assert sums.grad is not None
    assert sums.grad.tolist() == [0.0, 0.0, -0.25]


def test_an_empty_sum_averages_to_zero() -> None:
    result = average(torch.zeros(1, 2), torch.zeros(1), signed=False)
    assert result.tolist() == [[0.0, 0.0]]
