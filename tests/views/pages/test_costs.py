"""Cost report: text, page, chart and figure file."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from regard.core.errors import RegardError
from regard.core.records.cost import CostReport, CostRow, Crossover, Curve, Formulas, Unsupported
from regard.views.charts.costs import cost_curves_chart, draw_cost_curves
from regard.views.pages.costs import cost_page
from regard.views.text.costs import cost_text

LENGTHS = (32, 128, 512, 2048)


def row(name: str, family: str, seconds: float) -> CostRow:
    return CostRow(
        name=name,
        family=family,
        formula="4n²d",
        flops=5_000_000,
        peak_bytes=3 << 20,
        traffic_bytes=1 << 30,
        state=0,
        parameters=12,
        sequential_steps=1,
        max_path_length=1,
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
    unsupported=(Unsupported(name="delta", reason="it reads the past only"),),
    crossovers=(
        Crossover(
            baseline="scaled_dot",
            candidate="elu",
            length=400,
            value=4e-4,
            sentence="elu beats scaled_dot from n = 400",
        ),
        Crossover(
            baseline="self-attention",
            candidate="lstm",
            length=None,
            value=None,
            sentence="self-attention beats an LSTM layer at every length",
        ),
    ),
    curves=(
        curve("scaled_dot", "score", 2, 1e-9),
        curve("elu", "kernel", 1, 4e-7),
        curve("lstm", "layer", 1, 1e-5),
    ),
    formulas=(
        Formulas(name="elu", by_field=(("matmul_flops", "4nd²", 131072),), length_note="At 512."),
    ),
)


def test_text_has_tables_notes_and_crossovers() -> None:
    text = cost_text(REPORT)
    assert "causal, 2 heads of head_dim 8" in text
    assert "abacus, 1 thread, torch 2" in text
    for words in ("2.00 ms", "1.50 s", "3.00 MiB", "1.00 GiB", "5.0 MFLOPs", "layer, w = 16"):
        assert words in text
    assert "not supported:\n  delta: it reads the past only" in text
    assert "131,072  4nd²" in text
    assert text.endswith("at every length")


def test_measured_columns_only_with_measurements() -> None:
    assert "measured" not in cost_text(REPORT)
    ran = dataclasses.replace(REPORT.mechanisms[0], measured_seconds=4e-3, measured_bytes=6 << 20)
    text = cost_text(dataclasses.replace(REPORT, mechanisms=(ran, REPORT.mechanisms[1])))
    elu = next(line for line in text.splitlines() if line.startswith("elu"))
    assert elu.split()[-6:] == ["4.00", "ms", "0.50", "6.00", "MiB", "0.50"]
    assert "–" in text


def test_chart_has_labelled_lines_and_crossovers() -> None:
    svg = ElementTree.fromstring(cost_curves_chart(REPORT))
    groups = [group for group in svg.iter("g") if "line" in (group.get("class") or "")]
    assert [group.findtext("text") for group in groups] == ["lstm", "scaled_dot", "elu"]
    assert "tone-ink" in (groups[0].get("class") or "")
    (mark,) = [group for group in svg.iter("g") if group.get("class") == "point tone-ink"]
    assert mark.findtext("title") == "elu beats scaled_dot from n = 400"
    assert mark.findtext("text") == "n = 400"
    assert {"32", "1 ms", "10 µs"} <= {text.text for text in svg.iter("text")}


def test_no_chart_without_curves() -> None:
    assert cost_curves_chart(dataclasses.replace(REPORT, curves=())) == ""


def test_page_is_complete_and_self_contained() -> None:
    html = cost_page(REPORT)
    assert "regard cost --only &#39;&lt;elu&gt;&#39;" in html
    assert "&lt;wide&gt;" in html
    assert "<wide>" not in html
    assert "elu beats scaled_dot from n = 400" in html
    assert "default-src 'none'" in html
    assert re.findall(r"https?:|@import|url\(|src=", html) == []
    for anchor in ("chart", "crossovers", "costs", "formulas"):
        assert f'id="{anchor}"' in html
    assert 'id="chart"' not in cost_page(dataclasses.replace(REPORT, curves=()))


@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_figure_is_reproducible(suffix: str, tmp_path: Path) -> None:
    first, second = tmp_path / f"first{suffix}", tmp_path / f"second{suffix}"
    draw_cost_curves(REPORT, path=first)
    draw_cost_curves(REPORT, path=second)
    assert first.read_bytes() == second.read_bytes()


def test_figure_labels_lines_and_crossovers(tmp_path: Path) -> None:
    draw_cost_curves(REPORT, path=tmp_path / "time.svg")
    tree = ElementTree.fromstring((tmp_path / "time.svg").read_bytes())
    texts = {"".join(node.itertext()).strip() for node in tree.iter() if node.tag.endswith("text")}
    assert {"elu", "scaled_dot", "lstm", "n = 400", "tokens", "1 ms", "2,048"} <= texts


def test_report_without_curves_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match="no curves"):
        draw_cost_curves(dataclasses.replace(REPORT, curves=()), path=tmp_path / "time.svg")
