"""Cost charts: one line per distinct cost, labels that do not overlap, and the cost table."""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from regard.core.cost import Cost
from regard.core.records.overview import CostRecord, MechanismRecord, Overview
from regard.views.charts.axes import spread_labels
from regard.views.charts.costs import cost_charts, costs_by_length
from regard.views.pages.overview import CostRow, cost_table, overview_page


def record(name: str, *, power: int, width: int = 64) -> MechanismRecord:
    """A mechanism with length**power FLOPs."""
    return MechanismRecord(
        name=name,
        family="score",
        summary="",
        reference="",
        capabilities=(),
        causal=False,
        signed=False,
        weights_options="",
        weights=((1.0,),),
        checks=(),
        cost_head_dim=width,
        costs=tuple(
            CostRecord(length=length, cost=Cost(matmul_flops=length**power), form="chunked")
            for length in (128, 256, 512, 1024)
        ),
    )


def overview(*records: MechanismRecord) -> Overview:
    return Overview(version="1", seed=0, tokens=("a",), num_heads=8, mechanisms=records)


def lines(svg: str) -> list[ElementTree.Element]:
    groups = ElementTree.fromstring(svg).iter("g")
    return [group for group in groups if group.get("class", "").startswith("line")]


def test_doubling_factor_is_the_ratio_at_twice_the_length() -> None:
    assert [each.doubling_factor for each in costs_by_length(record("square", power=2))] == [
        4.0
    ] * 3
    assert [each.length for each in costs_by_length(record("line", power=1))] == [128, 256, 512]


MIXED = overview(
    record("thin", power=2, width=16),
    record("dot", power=2),
    record("scaled", power=2),
    record("line", power=1),
)


def test_equal_costs_share_a_line() -> None:
    drawn = lines(cost_charts(MIXED)["head_dim = 64"])
    assert [line.findtext("text") for line in drawn] == ["dot, scaled", "line"]


def test_one_chart_per_head_dim() -> None:
    charts = cost_charts(MIXED)
    assert list(charts) == ["head_dim = 64", "head_dim = 16"]
    named = [[line.findtext("text") for line in lines(chart)] for chart in charts.values()]
    assert named == [["dot, scaled", "line"], ["thin"]]


def test_charts_have_the_same_scale() -> None:
    """The x axes are equally long, whatever the labels are, so that slopes can be compared."""
    long = [record("a mechanism of a long name", power=2), record("b", power=1, width=16)]
    ends = [
        lines(chart)[0].findall("polyline")[1].get("points", "").split()
        for chart in cost_charts(overview(*long)).values()
    ]
    first, second = (float(of[-1].split(",")[0]) - float(of[0].split(",")[0]) for of in ends)
    assert first == pytest.approx(second, rel=0.02)


def test_spread_labels_keep_distance_and_order() -> None:
    placed = spread_labels([30.0, 31.0, 32.0, 40.0, 300.0, 300.0], spacing=17.0, top=24.0)
    assert placed == sorted(placed)
    assert all(below - above >= 17.0 - 1e-9 for above, below in pairwise(placed))
    assert spread_labels([50.0, 500.0], spacing=17.0, top=24.0) == [50.0, 500.0]


def test_no_chart_without_lengths() -> None:
    assert cost_charts(overview()) == {}
    short = dataclasses.replace(MIXED.mechanisms[0], costs=MIXED.mechanisms[0].costs[:2])
    assert cost_charts(overview(short)) == {}
    assert "No costs were declared" in overview_page(overview())


def test_table_has_a_body_per_length_and_shows_one() -> None:
    html = overview_page(overview(record("line", power=1, width=16), record("square", power=2)))
    assert html.count("<tbody data-length") == 3 * 2
    assert html.count(" hidden>") == 2 * 2
    assert "chunked</span>" in html
    assert '<td data-sort="4.0" class="steep">×4</td>' in html
    assert '<td data-sort="2.0" class="gentle">×2</td>' in html


def test_rows_are_grouped_by_head_dim() -> None:
    bodies: list[tuple[int, list[CostRow]]] = cost_table(MIXED)["bodies"]
    widths = [[row.record.cost_head_dim for row in rows] for _, rows in bodies]
    assert widths == [[64] * 3, [16]] * 3  # widest first
    assert [length for length, _ in bodies] == [128, 128, 256, 256, 512, 512]
    # The bars have a scale per head_dim.
    assert all(max(row.share for row in rows) == 1.0 for _, rows in bodies)
    assert "--share:1.00" in overview_page(MIXED)
