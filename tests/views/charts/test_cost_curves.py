"""Cost charts: one line per distinct cost, labels that do not overlap, and the cost table."""

from __future__ import annotations

from itertools import pairwise
from xml.etree import ElementTree

from regard.core.cost import Cost
from regard.core.records.overview import CostRecord, MechanismRecord, Overview
from regard.views.charts.cost_curves import (
    LINE_HEIGHT,
    cost_chart,
    cost_charts,
    costs_by_length,
    spread_labels,
)
from regard.views.pages.overview import cost_table


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
    drawn = lines(cost_chart(MIXED, width=64))
    assert [line.findtext("text") for line in drawn] == ["dot, scaled", "line"]


def test_one_chart_per_head_dim() -> None:
    page = ElementTree.fromstring(f"<div>{cost_charts(MIXED)}</div>")
    assert page.findall("h3")[0].text == "head_dim = 64"
    assert page.findall("h3")[1].text == "head_dim = 16"
    named = [
        [text for line in svg.iter("g") if (text := line.findtext("text"))]
        for svg in page.iter("svg")
    ]
    assert named == [["dot, scaled", "line"], ["thin"]]


def test_spread_labels_keep_distance_and_order() -> None:
    placed = spread_labels([30.0, 31.0, 32.0, 40.0, 300.0, 300.0])
    assert placed == sorted(placed)
    assert all(below - above >= LINE_HEIGHT - 1e-9 for above, below in pairwise(placed))
    assert spread_labels([50.0, 500.0]) == [50.0, 500.0]


def test_no_chart_without_lengths() -> None:
    assert cost_charts(overview()) == ""
    assert cost_chart(MIXED, width=32) == ""


def test_table_has_a_body_per_length_and_shows_one() -> None:
    table = cost_table(overview(record("line", power=1, width=16), record("square", power=2)))
    assert table.count("<tbody") == 3 * 2
    assert table.count(" hidden>") == 2 * 2
    assert "chunked" in table
    assert "×4" in table
    assert "×2" in table


def test_rows_are_grouped_by_head_dim() -> None:
    html = cost_table(MIXED).replace(" hidden>", ">")
    table = ElementTree.fromstring(html[html.index("<table") : html.index("</div>")])
    for body in table.iter("tbody"):
        widths = [row.findall("td")[0].text for row in body]
        assert widths in (["64"] * 3, ["16"])
        bars = [row.findall("td")[1].get("style") for row in body]
        assert "--share:1.00" in bars
    widest_first = [body[0].findall("td")[0].text for body in table.iter("tbody")]
    assert widest_first == ["64", "16"] * 3
