"""The picture, the page and the text of a cost report."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from regard.core.errors import RegardError
from regard.core.records.cost import CostReport, CostRow, Crossing, Curve, Formulas, NotPriced
from regard.views.charts.cost_curves import draw_time_plot, time_chart
from regard.views.pages.costs import cost_page
from regard.views.text.costs import cost_text

LENGTHS = (32, 128, 512, 2048)


def row(name: str, family: str, seconds: float) -> CostRow:
    return CostRow(
        name=name,
        family=family,
        formula="4n²d",
        operations=5_000_000,
        peak_bytes=3 << 20,
        moved_bytes=1 << 30,
        state=0,
        parameters=12,
        sequential_steps=1,
        longest_path=1,
        seconds=seconds,
        note="<wide>" if name == "elu" else "",
    )


def curve(name: str, family: str, power: int, scale: float) -> Curve:
    points = tuple((length, scale * length**power) for length in LENGTHS)
    return Curve(name=name, family=family, points=points)


REPORT = CostReport(
    version="1.2.3",
    command="regard cost --only '<elu>'",
    mode="forward",
    length=512,
    num_heads=2,
    head_dim=8,
    batch_size=1,
    causal=True,
    machine={"processor": "abacus", "threads": 1, "torch": "2"},
    has_times=True,
    mechanisms=(row("elu", "kernel", 2e-3), row("scaled_dot", "score", 3e-3)),
    layers=(row("lstm", "layer", 1.5),),
    not_priced=(NotPriced(name="delta", reason="it reads the past only"),),
    crossings=(
        Crossing(
            before="scaled_dot",
            then="elu",
            length=400,
            height=4e-4,
            sentence="elu beats scaled_dot from n = 400",
        ),
        Crossing(
            before="self-attention",
            then="lstm",
            length=None,
            height=None,
            sentence="self-attention beats an LSTM layer at every length",
        ),
    ),
    curves=(
        curve("scaled_dot", "score", 2, 1e-9),
        curve("elu", "kernel", 1, 4e-7),
        curve("lstm", "layer", 1, 1e-5),
    ),
    formulas=(
        Formulas(name="elu", by_figure=(("products", "4nd²", 131072),), at_this_length="At 512."),
    ),
)


def test_the_text_has_tables_notes_and_sentences() -> None:
    text = cost_text(REPORT)
    assert "causal, 2 heads of width 8" in text
    assert "abacus, 1 thread, torch 2" in text
    for words in ("2.00 ms", "1.50 s", "3.00 MiB", "1.00 GiB", "5.0 M", "layer, w = 16"):
        assert words in text
    assert "not here:\n  delta: it reads the past only" in text
    assert "131,072  4nd²" in text
    assert text.endswith("at every length")


def test_measured_columns_are_there_only_if_something_was_measured() -> None:
    assert "measured" not in cost_text(REPORT)
    ran = dataclasses.replace(REPORT.mechanisms[0], measured_seconds=4e-3, measured_bytes=6 << 20)
    text = cost_text(dataclasses.replace(REPORT, mechanisms=(ran, REPORT.mechanisms[1])))
    elu = next(line for line in text.splitlines() if line.startswith("elu"))
    assert elu.split()[-6:] == ["4.00", "ms", "0.50", "6.00", "MiB", "0.50"]
    assert "–" in text


def test_the_chart_has_a_named_line_each_and_marks_the_crossings() -> None:
    svg = ElementTree.fromstring(time_chart(REPORT))
    groups = [group for group in svg.iter("g") if "line" in (group.get("class") or "")]
    assert [group.findtext("text") for group in groups] == ["lstm", "scaled_dot", "elu"]
    assert "family-layer" in (groups[0].get("class") or "")
    (mark,) = [group for group in svg.iter("g") if group.get("class") == "crossing"]
    assert mark.findtext("text") == "n = 400"
    ticks = {text.text for text in svg.iter("text") if text.get("class") == "tick"}
    assert {"32", "1 ms", "10 µs"} <= ticks


def test_without_curves_there_is_no_chart() -> None:
    assert time_chart(dataclasses.replace(REPORT, curves=())) == ""


def test_the_page_is_whole_and_fetches_nothing() -> None:
    html = cost_page(REPORT)
    assert "regard cost --only &#x27;&lt;elu&gt;&#x27;" in html
    assert "&lt;wide&gt;" in html
    assert "<wide>" not in html
    assert "elu beats scaled_dot from n = 400" in html
    assert "default-src &#x27;none&#x27;" in html
    assert re.findall(r"https?:|@import|url\(|src=", html) == []
    for anchor in ("chart", "crossings", "costs", "formulas"):
        assert f'id="{anchor}"' in html
    assert 'id="chart"' not in cost_page(dataclasses.replace(REPORT, curves=()))


@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_the_same_report_gives_the_same_picture(suffix: str, tmp_path: Path) -> None:
    first, second = tmp_path / f"first{suffix}", tmp_path / f"second{suffix}"
    draw_time_plot(REPORT, path=first)
    draw_time_plot(REPORT, path=second)
    assert first.read_bytes() == second.read_bytes()


def test_the_picture_names_its_lines_and_crossings(tmp_path: Path) -> None:
    draw_time_plot(REPORT, path=tmp_path / "time.svg")
    tree = ElementTree.fromstring((tmp_path / "time.svg").read_bytes())
    texts = {"".join(node.itertext()).strip() for node in tree.iter() if node.tag.endswith("text")}
    assert {"elu", "scaled_dot", "lstm", "n = 400", "tokens", "1 ms", "2048"} <= texts


def test_a_picture_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match="no curves"):
        draw_time_plot(dataclasses.replace(REPORT, curves=()), path=tmp_path / "time.svg")
