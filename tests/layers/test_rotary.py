"""Rotary positions: by hand, relative, positions per example."""

from __future__ import annotations

import math

import pytest
import torch

from regard.core.errors import RegardError
from regard.layers.rotary import Rotary


def test_one_pair_by_hand() -> None:
    heads = torch.tensor([[[[1.0, 0.0]]]], dtype=torch.float64)
    turned = Rotary(head_dim=2)(heads, torch.tensor([3]))
    assert turned.flatten().tolist() == pytest.approx([math.cos(3), math.sin(3)])


def test_dot_products_depend_on_the_distance_only() -> None:
    query, key = torch.randn(2, 1, 1, 1, 14, dtype=torch.float64)
    rotary = Rotary(head_dim=14)

    def product(query_position: int, key_position: int) -> float:
        turned = rotary(query, torch.tensor([query_position]))
        return float((turned * rotary(key, torch.tensor([key_position]))).sum())

    assert product(5, 2) == pytest.approx(product(1005, 1002), abs=1e-9)
    assert product(5, 2) != pytest.approx(product(2, 5), abs=1e-3)


def test_norms_are_preserved_and_position_zero_is_the_identity() -> None:
    heads = torch.randn(2, 3, 5, 14)
    turned = Rotary(head_dim=14)(heads, torch.arange(5))
    torch.testing.assert_close(turned.norm(dim=-1), heads.norm(dim=-1))
    torch.testing.assert_close(turned[:, :, 0], heads[:, :, 0])


def test_positions_per_example() -> None:
    rotary, heads = Rotary(head_dim=6), torch.randn(2, 3, 5, 6)
    first, second = torch.arange(5), torch.arange(5) + 11
    turned = rotary(heads, torch.stack([first, second]))
    torch.testing.assert_close(turned[0], rotary(heads, first)[0])
    torch.testing.assert_close(turned[1], rotary(heads, second)[1])


def test_an_odd_width_is_an_error() -> None:
    with pytest.raises(RegardError, match="head_dim=7"):
        Rotary(head_dim=7)
