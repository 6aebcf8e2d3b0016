"""Alignment figures: content, opacity, layout, reproducibility."""

from __future__ import annotations

import dataclasses
import warnings
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from regard.core.errors import RegardError
from regard.core.records.attention import AlignmentRecord
from regard.views.charts.heatmap import best_columns, draw_alignment, token_label

PNG_START = b"\x89PNG\r\n\x1a\n"
SVG = "{http://www.w3.org/2000/svg}"

RECORD = AlignmentRecord(
    source_tokens=("ein", "Hund", "."),
    output_tokens=("a", "dog"),
    maps={
        "layer 1": (((1.0, 0.0, 0.0), (0.0, 1.0, 0.0)), ((0.0, 0.0, 1.0), (0.0, 0.5, 0.5))),
        "layer 2": (((0.5, 0.5, 0.0), (0.0, 1.0, 0.0)), ((0.5, 0.0, 0.5), (0.0, 1.0, 0.0))),
    },
    title="Ein Hund",
)
ONE_MAP = dataclasses.replace(RECORD, maps={"layer 1": RECORD.maps["layer 1"][:1]})


def drawn(record: AlignmentRecord, folder: Path, **options: Any) -> ElementTree.Element:
    path = folder / "picture.svg"
    draw_alignment(record, path=path, **options)
    return ElementTree.fromstring(path.read_bytes())


def texts(figure: ElementTree.Element) -> list[str]:
    return ["".join(node.itertext()).strip() for node in figure.iter(f"{SVG}text")]


def cells(figure: ElementTree.Element) -> list[tuple[bool, float]]:
    """Whether each cell is negative, and its opacity, by panel and row; cells near 0 are not drawn."""
    groups = [node for node in figure[-1].iter(f"{SVG}g") if node.get("class") == "cells"]
    return [
        (cell.get("class") == "negative", float(cell.get("fill-opacity", "")))
        for group in groups
        for cell in group
    ]


def test_tokens_title_and_names_are_in_the_figure(tmp_path: Path) -> None:
    found = texts(drawn(ONE_MAP, tmp_path))
    for text in ("ein", "Hund", ".", "a", "dog", "Ein Hund", "layer 1"):
        assert found.count(text) == 1
    assert {"1.00   weight; columns: source, rows: output", "0"} <= set(found)


def test_cell_colour_follows_the_weight(tmp_path: Path) -> None:
    record = dataclasses.replace(RECORD, maps={"m": (((0.0, 0.25, 0.5), (0.5, 0.5, 0.125)),)})
    opacities = [opacity for _, opacity in cells(drawn(record, tmp_path))]
    assert opacities == pytest.approx([0.71, 1.0, 1.0, 1.0, 0.5], abs=0.01)  # √(weight / largest)


def test_heads_mean_or_each(tmp_path: Path) -> None:
    mean = drawn(RECORD, tmp_path)
    assert "layer 1 (mean of 2 heads)" in texts(mean)
    assert texts(mean).count("Hund") == 2
    each = drawn(RECORD, tmp_path, heads="each")
    assert {"layer 1, head 2", "layer 2, head 1"} <= set(texts(each))
    assert texts(each).count("Hund") == 4


def test_mean_over_heads(tmp_path: Path) -> None:
    mean = dataclasses.replace(
        RECORD,
        maps={
            "layer 1 (mean of 2 heads)": (((0.5, 0.0, 0.5), (0.0, 0.75, 0.25)),),
            "layer 2 (mean of 2 heads)": (((0.5, 0.25, 0.25), (0.0, 1.0, 0.0)),),
        },
    )
    draw_alignment(RECORD, path=tmp_path / "a.svg")
    draw_alignment(mean, path=tmp_path / "b.svg")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_negative_weights_get_two_colours(tmp_path: Path) -> None:
    record = dataclasses.replace(ONE_MAP, maps={"m": (((-0.5, 0.0, 0.5), (0.0, 1.0, 0.0)),)})
    figure = drawn(record, tmp_path)
    signs, shades = zip(*cells(figure)[:2], strict=True)
    assert signs == (True, False)
    assert shades == pytest.approx((0.71, 0.71))
    assert "−1.00" in texts(figure)


def test_rounding_below_zero_is_not_negative(tmp_path: Path) -> None:
    record = dataclasses.replace(ONE_MAP, maps={"m": (((-1e-9, 0.0, 1.0), (0.0, 1.0, 0.0)),)})
    assert not [text for text in texts(drawn(record, tmp_path)) if "−" in text]


def test_all_zero_weights(tmp_path: Path) -> None:
    record = dataclasses.replace(ONE_MAP, maps={"m": (((0.0,) * 3,) * 2,)})
    assert cells(drawn(record, tmp_path)) == []


@pytest.mark.parametrize("suffix", [".svg", ".png", ".PNG"])
def test_figure_is_reproducible(suffix: str, tmp_path: Path) -> None:
    first, second = tmp_path / f"first{suffix}", tmp_path / "new" / f"second{suffix}"
    draw_alignment(RECORD, path=first)
    draw_alignment(AlignmentRecord.from_json(RECORD.as_json()), path=second)
    assert first.read_bytes() == second.read_bytes()
    assert first.read_bytes().startswith(PNG_START) == (suffix != ".svg")


@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_missing_glyphs_raise_no_warnings(
    suffix: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    tokens = ("日本語", "$x$", "العربية", "\x00", "\ud800", "🙂", "<b>&", "", "x" * 400, "$")
    record = AlignmentRecord(
        source_tokens=tokens,
        output_tokens=tokens,
        maps={"狗 $\n": (((0.1,) * len(tokens),) * len(tokens),)},
        title="題名 $\x01 <i>",
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        draw_alignment(record, path=tmp_path / f"p{suffix}")
    assert [str(warning.message) for warning in caught] == []
    assert capfd.readouterr() == ("", "")
    if suffix == ".svg":
        found = texts(ElementTree.fromstring((tmp_path / "p.svg").read_bytes()))
        assert {"日本語", "$x$", "\\x00", "\\ud800", "<b>&", "題名 $\\x01 <i>"} <= set(found)


@pytest.mark.parametrize("name", ["p.pdf", "p", "p.svg.gz"])
def test_other_file_formats_are_rejected(name: str, tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"\.svg or \.png"):
        draw_alignment(RECORD, path=tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_unknown_heads_option_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"'eahc'. Did you mean 'each'\? Choose from: each, mean"):
        draw_alignment(RECORD, path=tmp_path / "p.svg", heads="eahc")


def test_unwritable_path_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RegardError, match="cannot be written"):
        draw_alignment(ONE_MAP, path=tmp_path / "file" / "p.svg")


def test_best_number_of_columns() -> None:
    found = [best_columns(count, width=1.0, height=1.0) for count in (1, 2, 3, 4, 6, 12)]
    assert found == [1, 2, 3, 2, 3, 4]


def test_one_row_per_map_and_one_column_per_head(tmp_path: Path) -> None:
    figure = drawn(RECORD, tmp_path, heads="each")
    panels = [svg for svg in figure[-1] if svg.tag == f"{SVG}svg"]
    positions = [(float(svg.get("x", "")), float(svg.get("y", ""))) for svg in panels]
    assert positions[0][1] == positions[1][1] < positions[2][1] == positions[3][1]
    assert positions[0][0] == positions[2][0] < positions[1][0] == positions[3][0]


def test_labels_are_truncated_and_spaces_visible(tmp_path: Path) -> None:
    long = dataclasses.replace(ONE_MAP, source_tokens=("x" * 40, "Hund", "."))
    assert "x" * 11 + "…" in texts(drawn(long, tmp_path))
    assert token_label(" a\t") == "␣a\\t"


def test_long_title_is_truncated(tmp_path: Path) -> None:
    found = texts(drawn(dataclasses.replace(ONE_MAP, title="a rose is " * 100), tmp_path))
    lines = [text for text in found if "rose" in text]
    assert len(lines) == 3
    assert lines[-1].endswith(" …")
