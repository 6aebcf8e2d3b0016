"""Document page in a browser: layout, contrast of shades, tabs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.browser.visits import PHONE, SCHEMES, SIZES, Visit, contrast, numbers
from tests.factories.documents import make_document_record

from regard.core.records.document import DocumentRecord
from regard.views.charts.document import shade_opacity, weight_views
from regard.views.pages.document import document_page

pytestmark = pytest.mark.stress

RECORD = make_document_record(hops=3)


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_parts_are_visible(size: dict[str, int], visit: Callable[..., Visit]) -> None:
    page = visit(document_page(RECORD), size=size).page
    assert page.get_by_role("heading", level=1).inner_text() == "negative"
    assert page.locator(".sentences .word").count() == len(RECORD.tokens)
    assert page.locator(".bar:visible").count() == 4
    assert page.locator(".deletion-chart").is_visible()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_contrast_on_every_shade(scheme: str, visit: Callable[..., Visit]) -> None:
    visited = visit(document_page(RECORD), scheme=scheme)
    ground = numbers(visited.page.evaluate("getComputedStyle(document.body).backgroundColor"))
    word = visited.page.locator(".sentences .word").first
    for relative in (0.0, 1.0, 4.0, 16.0, 64.0, 1e6):
        colours = word.evaluate(
            "(node, relative) => { node.style.setProperty('--relative', relative); "
            "const style = getComputedStyle(node); return [style.backgroundColor, style.color]; }",
            relative,
        )
        shade, ink = map(numbers, colours)
        alpha = shade[3] if len(shade) > 3 else 1.0
        assert alpha == pytest.approx(shade_opacity(relative), abs=0.01)
        mixed = [a * alpha + b * (1 - alpha) for a, b in zip(shade[:3], ground, strict=True)]
        assert contrast(mixed, ink) >= 4.5


def test_tabs_select_the_weights(visit: Callable[..., Visit]) -> None:
    visited = visit(document_page(RECORD))
    views, index = weight_views(RECORD), RECORD.tokens.index("fine")
    word = visited.page.locator(".sentences .word").nth(index)
    for view in (*views, views[0]):
        visited.page.get_by_text(view.name, exact=True).click()
        relative = float(word.evaluate("node => node.style.getPropertyValue('--relative')"))
        assert relative == pytest.approx(view.relative[index], rel=0.01)
        title = word.get_attribute("title")
        assert title.startswith(f"fine: weight {view.weights[index]:.2g}, ")
        assert title.endswith("instead of 0.93")
    word.hover()
    assert visited.page.locator(".word-note").inner_text() == word.get_attribute("title")
    assert visited.complaints == []


def test_bar_length_is_the_sentence_weight(visit: Callable[..., Visit]) -> None:
    visited = visit(document_page(RECORD), size=PHONE)
    fills = [visited.page.locator(".bar .fill").nth(index).bounding_box() for index in range(4)]
    figures = [visited.page.locator(".bar .figure").nth(index).bounding_box() for index in range(4)]
    assert RECORD.sentence_weights is not None
    assert fills[1]["width"] / fills[3]["width"] == pytest.approx(0.72 / 0.18, rel=0.05)
    for fill, figure in zip(fills, figures, strict=True):
        assert 0 <= figure["x"] < figure["x"] + figure["width"] <= fill["x"]


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_long_words_do_not_widen_the_page(
    size: dict[str, int], visit: Callable[..., Visit]
) -> None:
    long_word = "x" * 500
    record = DocumentRecord(
        tokens=(long_word, "日本語" * 99, "a"),
        segments=(0, 1, 1),
        hops=((0.2, 0.3, 0.5),) * 14,
        sentence_weights=(0.5, 0.5),
        label=long_word,
        probabilities={long_word: 0.6, "y" * 300: 0.4},
        reference="z" * 300,
        title=long_word,
    )
    visit(document_page(record), size=size).assert_sound()
