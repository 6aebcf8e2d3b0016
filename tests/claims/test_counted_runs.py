"""Counted calls: sizes a reader can multiply out."""

from __future__ import annotations

from torch import nn

from regard.claims.engine import counter_of, layer_run, mechanism_run


def test_a_linear_layer_of_three_tokens() -> None:
    """3 · 2 · 4 · 5 products and 3 · 5 additions of the bias."""
    counter = counter_of(layer_run(nn.Linear(4, 5), n=3, d=4))
    assert counter.products == 120
    assert counter.operations == 135


def test_dot_attention_alone() -> None:
    """Scores and values: 2 · 2n²d."""
    assert counter_of(mechanism_run("dot", n=3, d=5)).products == 4 * 9 * 5
