"""A figure file has the elements of the chart on the page, in the colours of light mode."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from markupsafe import Markup
from tests.browser.visits import Visit
from tests.factories.pages import PAGES

from regard.views.charts.figure_file import write_figure
from regard.views.charts.run import run_charts
from regard.views.charts.study import AXES, learning_curves, pareto_chart
from regard.views.charts.variants import MEASURES, Variants

pytestmark = pytest.mark.stress

# The description of each chart → name, size and style of its elements; titles and styles are not drawn.
DRAWN = """
() => Object.fromEntries([...document.querySelectorAll("svg[aria-label]")].map((chart) => {
  const shape = ["fill", "stroke", "strokeWidth", "strokeDasharray", "opacity", "fillOpacity", "display"];
  const text = ["fontSize", "fontWeight", "textAnchor", "fill", "opacity", "display"];
  const nodes = [...chart.querySelectorAll("*")].filter(
    (node) => !["title", "style"].includes(node.localName) && !node.matches("svg > rect:not([class])"));
  return [chart.getAttribute("aria-label"), nodes.map((node) => {
    const style = getComputedStyle(node), box = node.getBBox();
    const place = ["x", "y", "width", "height"].map((name) => box[name]);
    const properties = node.localName === "text" ? text : shape;
    return [[node.localName, ...properties.map((name) => style[name])].join(" "), place];
  })];
}))
"""
# The ground of a figure file is white.
WHITE = ("rgb(251, 250, 247)", "rgb(255, 255, 255)")


def charts(name: str) -> list[Markup]:
    record = PAGES[name].record()
    if name.startswith("run"):
        return [chart for chart in run_charts(record).values() if chart]
    variants = Variants(record)
    drawn = [pareto_chart(variants, measure) for measure in MEASURES]
    return [*filter(None, drawn), *filter(None, (learning_curves(variants, axis) for axis in AXES))]


@pytest.mark.parametrize("name", ["run-classifier", "run-sequence", "study-small"])
def test_figure_file_looks_like_the_page(
    name: str, visit: Callable[..., Visit], page_file: Callable[[str], Path], tmp_path: Path
) -> None:
    # Another font would move labels; hidden charts have no size.
    fonts = "* { font-family: monospace !important; } .tab-panes > * { display: block !important; }"
    page = visit(page_file(name))
    page.page.evaluate(
        "(css) => document.head.append(Object.assign("
        "document.createElement('style'), {textContent: css}))",
        fonts,
    )
    on_page = page.page.evaluate(DRAWN)
    compared = 0
    for number, chart in enumerate(charts(name)):
        path = tmp_path / f"{number}.svg"
        write_figure(chart, path=path)
        file = tmp_path / f"{number}.html"
        file.write_text(f"<style>{fonts}</style>{path.read_text()}", encoding="utf-8")
        ((description, found),) = visit(file).page.evaluate(DRAWN).items()
        if description not in on_page:
            continue
        compared += 1
        styles, expected = (
            [style.replace(*WHITE) for style, _ in each] for each in (found, on_page[description])
        )
        assert styles == expected, description
        places, expected_places = (
            [place for _, place in each] for each in (found, on_page[description])
        )
        # The size of text is rounded to the pixels of the page.
        assert np.allclose(places, expected_places, atol=2.0), description
    assert compared >= 4
