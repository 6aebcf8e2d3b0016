"""Dropout from random bytes."""

from __future__ import annotations

import pytest
import torch

from regard.core.errors import RegardError
from regard.layers.dropout import Dropout


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5])
def test_zeroes_with_probability_p_and_keeps_the_mean(p: float) -> None:
    torch.manual_seed(0)
    out = Dropout(p)(torch.ones(400_001))
    assert (out == 0).double().mean().item() == pytest.approx(p, abs=0.004)
    assert out.double().mean().item() == pytest.approx(1.0, abs=0.005)
    assert out.unique().numel() == 2


def test_scale_is_exact_for_the_rounded_p() -> None:
    # 0.25 is 64 of 256 levels, so the rest is multiplied by 256/192.
    out = Dropout(0.25)(torch.ones(1000))
    assert out.unique().tolist() == pytest.approx([0.0, 256 / 192])


def test_bytes_of_one_draw_are_independent() -> None:
    torch.manual_seed(1)
    zeroed = (Dropout(0.5)(torch.ones(80_000)) == 0).double().view(-1, 8)
    correlation = torch.corrcoef(zeroed.T) - torch.eye(8, dtype=torch.double)
    assert correlation.abs().max().item() < 0.05


def test_gradient_is_the_mask() -> None:
    x = torch.randn(7, 13, requires_grad=True)
    torch.manual_seed(2)
    out = Dropout(0.4)(x)
    out.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(out, x * x.grad)


def test_same_seed_same_bits() -> None:
    drawn = []
    for _ in range(2):
        torch.manual_seed(3)
        drawn.append(Dropout(0.1)(torch.ones(5, 11)))
    assert torch.equal(*drawn)


def test_identity_in_evaluation_mode_and_for_p_zero() -> None:
    x = torch.randn(3, 5)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x) is x


def test_a_small_p_is_not_rounded_to_zero() -> None:
    assert Dropout(0.0001).zeroed_levels == 1


def test_invalid_p() -> None:
    with pytest.raises(RegardError, match=r"1\.5"):
        Dropout(1.5)
