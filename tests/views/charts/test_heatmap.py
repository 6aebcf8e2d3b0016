"""Attention heatmaps: cells, colour scales, escaping and means over heads."""

from __future__ import annotations

import dataclasses
from xml.etree import ElementTree

import pytest

from regard.core.records.overview import MechanismRecord
from regard.views.charts.heatmap import (
    colour_ramp,
    matrix_chart,
    mean_weights,
    mechanism_heatmap,
    mechanism_limit,
    opacity,
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
    drawn = cells(mechanism_heatmap(RECORD, tokens=("a", "rose", "is")))
    titles = [cell.findtext("title") for cell in drawn]
    assert len(drawn) == 9
    assert titles[:3] == ["a → a: 0.25", "a → rose: 0.75", "a → is: 0"]
    assert float(drawn[4].get("fill-opacity", "")) == 1.0
    assert len({(cell.get("x"), cell.get("y")) for cell in drawn}) == 9


def test_rows_are_queries_and_columns_are_keys() -> None:
    drawn = cells(mechanism_heatmap(RECORD, tokens=("a", "rose", "is")))
    assert drawn[0].get("y") == drawn[1].get("y") != drawn[3].get("y")
    assert drawn[0].get("x") == drawn[3].get("x") != drawn[1].get("x")


@pytest.mark.parametrize("token", ["<script>", '"onload="x', "&amp;", "</svg>", "'"])
def test_tokens_are_escaped(token: str) -> None:
    svg = mechanism_heatmap(RECORD, tokens=(token, "rose", "is"))
    tree = ElementTree.fromstring(svg)  # it is still well formed
    known = {"svg", "g", "rect", "text", "title"}
    assert {node.tag for node in tree.iter()} == known
    assert token in [node.text for node in tree.iter("text")]
    assert not [name for node in tree.iter() for name in node.attrib if name.startswith("on")]


def test_negative_weights_have_another_colour_and_scale() -> None:
    drawn = cells(mechanism_heatmap(SIGNED, tokens=("a", "b", "c")))
    assert [cell.get("class") for cell in drawn[:3]] == ["negative", None, None]
    assert (mechanism_limit(RECORD), mechanism_limit(SIGNED)) == (1.0, 2.0)


def test_colour_ramp_has_both_colours_if_signed() -> None:
    signed, unsigned = (colour_ramp("2.00", signed=signed) for signed in (True, False))
    assert "colour scale from −2.00 to 2.00" in signed
    assert "colour scale from 0 to 2.00" in unsigned
    assert (signed.count('class="negative"'), unsigned.count('class="negative"')) == (5, 0)
    assert signed.count("<rect") > unsigned.count("<rect")


def test_opacity_is_monotone() -> None:
    drawn = [opacity(weight, limit=2.0) for weight in (0.0, 0.5, -1.0, 2.0, 3.0)]
    assert drawn == [0.0, 0.5, 0.5**0.5, 1.0, 1.0]


def test_long_tokens_are_truncated_on_axes_only() -> None:
    long = "antidisestablishmentarianism"
    svg = mechanism_heatmap(RECORD, tokens=(long, "b", "c"))
    assert svg.count(">antidisesta…</text>") == 2
    assert f"{long} → b: 0.75" in svg
    assert [node.text for node in ElementTree.fromstring(svg).iter("text")].count(long) == 0


def test_mean_over_maps_and_heads() -> None:
    heads = (((1.0, 0.0),), ((0.5, 0.5),), ((0.0, 1.0),))
    assert mean_weights(heads) == [[0.5, 0.5]]


def test_column_labels_are_upright_where_they_fit() -> None:
    def rotated(*, upright: bool) -> int:
        labels = ["a", "a long label"]
        return matrix_chart(
            [[0.5, 0.5]],
            rows=["r"],
            columns=labels,
            limit=1.0,
            title=lambda _, column: labels[column],
            description="d",
            upright=upright,
        ).count("rotate(-90)")

    assert rotated(upright=True) == 1
    assert rotated(upright=False) == 2
