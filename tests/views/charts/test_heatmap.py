"""Attention heatmaps: cells, colour scales, escaping and means over heads."""

from __future__ import annotations

import dataclasses
from xml.etree import ElementTree

import pytest

from regard.core.records.overview import MechanismRecord
from regard.views.charts.axes import truncate
from regard.views.charts.heatmap import (
    MAX_LABEL_LENGTH,
    heatmap,
    legend,
    mean_weights,
    opacity,
    scale_limit,
)

RECORD = MechanismRecord(
    name="mine",
    family="score",
    summary="reads",
    reference="nobody 2020",
    capabilities=(),
    causal=False,
    signed=False,
    weights_options="",
    weights=((0.25, 0.75, 0.0), (0.0, 1.0, 0.0), (0.5, 0.25, 0.25)),
    checks=(),
    cost_head_dim=4,
    costs=(),
)
SIGNED = dataclasses.replace(RECORD, signed=True, weights=((-2.0, 0.5, 0.0),) * 3)


def cells(svg: str) -> list[ElementTree.Element]:
    (group,) = (g for g in ElementTree.fromstring(svg).iter("g") if g.get("class") == "cells")
    return list(group)


def test_every_pair_has_a_titled_cell() -> None:
    drawn = cells(heatmap(RECORD, tokens=("a", "rose", "is")))
    titles = [cell.findtext("title") for cell in drawn]
    assert len(drawn) == 9
    assert titles[:3] == ["a → a: 0.25", "a → rose: 0.75", "a → is: 0"]
    assert float(drawn[4].get("fill-opacity", "")) == 1.0
    assert len({(cell.get("x"), cell.get("y")) for cell in drawn}) == 9


def test_rows_are_queries_and_columns_are_keys() -> None:
    drawn = cells(heatmap(RECORD, tokens=("a", "rose", "is")))
    assert drawn[0].get("y") == drawn[1].get("y") != drawn[3].get("y")
    assert drawn[0].get("x") == drawn[3].get("x") != drawn[1].get("x")


@pytest.mark.parametrize("token", ["<script>", '"onload="x', "&amp;", "</svg>", "'"])
def test_tokens_are_escaped(token: str) -> None:
    svg = heatmap(RECORD, tokens=(token, "rose", "is"))
    tree = ElementTree.fromstring(svg)  # it is still well formed
    known = {"svg", "g", "rect", "text", "title"}
    assert {node.tag for node in tree.iter()} == known
    assert token in [node.text for node in tree.iter("text")]
    assert not [name for node in tree.iter() for name in node.attrib if name.startswith("on")]


def test_negative_weights_have_another_colour_and_scale() -> None:
    drawn = cells(heatmap(SIGNED, tokens=("a", "b", "c")))
    assert [cell.get("class") for cell in drawn[:3]] == ["negative", None, None]
    assert (scale_limit(RECORD), scale_limit(SIGNED)) == (1.0, 2.0)
    assert "−2.00" in legend(SIGNED)
    assert "signed" in legend(SIGNED)
    assert "signed" not in legend(RECORD)


def test_opacity_is_monotone() -> None:
    drawn = [opacity(weight, limit=2.0) for weight in (0.0, 0.5, -1.0, 2.0, 3.0)]
    assert drawn == [0.0, 0.5, 0.5**0.5, 1.0, 1.0]


def test_long_tokens_are_truncated_on_axes_only() -> None:
    long = "antidisestablishmentarianism"
    svg = heatmap(RECORD, tokens=(long, "b", "c"))
    assert truncate(long, MAX_LABEL_LENGTH) == "antidisesta…"
    assert f"{long} → b: 0.75" in svg
    assert [node.text for node in ElementTree.fromstring(svg).iter("text")].count(long) == 0


def test_mean_over_maps_and_heads() -> None:
    heads = (((1.0, 0.0),), ((0.5, 0.5),), ((0.0, 1.0),))
    assert mean_weights(heads) == [[0.5, 0.5]]
