"""SVG elements: escaping and attributes."""

from __future__ import annotations

from markupsafe import Markup

from regard.views.charts.svg import element, joined, size_of, svg


def test_text_is_escaped_and_markup_is_kept() -> None:
    inner = element("tspan", "a & b")
    assert element("text", inner, "<i>") == "<text><tspan>a &amp; b</tspan>&lt;i&gt;</text>"
    assert joined("<", Markup("<g></g>")) == "&lt;<g></g>"


def test_attributes() -> None:
    assert element("g", data_variant="1", class_="x", hidden=True) == (
        '<g data-variant="1" class="x" hidden></g>'
    )
    assert element("g", hidden=False, class_=None, x=1.5, y=2.0) == '<g x="1.50" y="2"></g>'
    assert element("g", title='"<') == '<g title="&#34;&lt;"></g>'


def test_named_chart_is_an_image() -> None:
    chart = svg(width=9.5, height=4.0, aria_label="a & b")
    assert chart == '<svg viewBox="0 0 10 4" aria-label="a &amp; b" role="img"></svg>'
    assert size_of(chart) == (10.0, 4.0)
    assert "role" not in svg(width=1.0, height=1.0)
