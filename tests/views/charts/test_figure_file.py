"""Figure files: standalone SVG, size limit of a PNG, fonts, text width."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
import resvg_py
from markupsafe import Markup

from regard.core.errors import RegardError
from regard.core.formatting import printable
from regard.views.charts import figure_file
from regard.views.charts.figure_file import require_font, standalone, write_figure
from regard.views.charts.svg import (
    element,
    place,
    size_of,
    stack,
    text_block,
    text_width,
    wrap_text,
)

SVG = "{http://www.w3.org/2000/svg}"
CHART = element(
    "svg",
    element("line", class_="grid", x1=0, x2=9, y1=2, y2=2),
    element("text", "<&>", x=1, y=9),
    viewBox="0 0 200 100",
    class_="chart",
)


def size_in_pixels(path: Path) -> tuple[int, int]:
    """Size from the header of a PNG."""
    header = path.read_bytes()[16:24]
    return int.from_bytes(header[:4]), int.from_bytes(header[4:])


def test_standalone_svg_includes_the_rules_of_its_classes_only() -> None:
    text = standalone(CHART)
    tree = ElementTree.fromstring(text)
    assert (tree.get("width"), tree.get("height")) == ("200", "100")
    style = tree.findtext(f"{SVG}style")
    assert style is not None
    assert ".chart .grid { stroke: #" in style
    assert "var(" not in style
    assert "width: 100%" not in style
    assert ".heatmap" not in style
    assert tree.findtext(f"{SVG}text") == "<&>"


def test_characters_that_xml_forbids_are_escaped() -> None:
    chart = element("svg", element("text", "a\x00\ud800\u202fb"), viewBox="0 0 9 9")
    assert ElementTree.fromstring(standalone(chart))[-1].text == "a\\x00\\ud800\u202fb"


def test_charts_are_stacked_without_overlap() -> None:
    tree = ElementTree.fromstring(stack([CHART, CHART, text_block("a note")]))
    tops = [float(part.get("y", "")) for part in tree]
    assert tops == [0.0, 100.0, 200.0]
    assert size_of(place(CHART, x=3.0, y=4.0)) == (200.0, 100.0)


def test_large_png_has_a_lower_resolution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "p.png"
    write_figure(CHART, path=path)
    assert size_in_pixels(path) == (400, 200)
    monkeypatch.setattr(figure_file, "MAX_PIXELS", 5000.0)
    write_figure(CHART, path=path)
    assert size_in_pixels(path) == (100, 50)


def test_png_without_fonts_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    render = resvg_py.svg_to_bytes
    monkeypatch.setattr(
        resvg_py, "svg_to_bytes", lambda **kwargs: render(skip_system_fonts=True, **kwargs)
    )
    require_font.cache_clear()
    with pytest.raises(RegardError, match=r"\.svg instead, or install a font"):
        write_figure(CHART, path=tmp_path / "p.png")
    assert not list(tmp_path.iterdir())


def test_file_is_replaced_atomically(tmp_path: Path) -> None:
    path = tmp_path / "p.svg"
    path.write_text("old", encoding="utf-8")
    write_figure(CHART, Markup(""), path=path)
    assert path.read_bytes().startswith(b"<svg")
    assert list(tmp_path.iterdir()) == [path]


def test_other_file_formats_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"p\.jpg' .*\.svg or \.png"):
        write_figure(CHART, path=tmp_path / "p.jpg")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("naïve 狗 a b", "naïve 狗 a b"), ("a\nb\x00", "a\\nb\\x00"), ("\ud800", "\\ud800")],
)
def test_unprintable_characters_are_escaped(text: str, expected: str) -> None:
    assert printable(text) == expected


def test_text_width_grows_with_length_and_font_size() -> None:
    widths = [text_width(text, font_size=10.0) for text in ("", "i", "a", "A", "m", "mm")]
    assert all(one < other for one, other in pairwise(widths))
    assert text_width("m", font_size=20.0) == 2 * text_width("m", font_size=10.0)
    assert text_width("狗狗", font_size=36.0) >= 72.0


def test_wrapped_lines_fit_and_keep_all_words() -> None:
    text = "a rose is a rose is a rose, whatever one calls it " * 5
    lines = wrap_text(text, max_width=300.0, font_size=10.0)
    assert all(text_width(line, font_size=10.0) <= 300.0 for line in lines)
    assert " ".join(lines).split() == text.split()
    assert wrap_text("", max_width=300.0, font_size=10.0) == []
    assert wrap_text("x" * 400, max_width=300.0, font_size=10.0) == ["x" * 31 + "…"]
    assert wrap_text("9\u202f000\nitems", max_width=1.0, font_size=9.0) == ["9\u202f000", "items"]
    short = wrap_text(text, max_width=300.0, font_size=10.0, max_lines=2)
    assert len(short) == 2
    assert short[-1].endswith(" …")
