"""Study page in a browser: tabs, highlighting, folded parts."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.browser.visits import PHONE, SIZES, Visit
from tests.factories.studies import dummy_study

from regard.views.pages.study import SECTIONS, study_page

pytestmark = pytest.mark.stress

RECORD = dummy_study()
HUGE = dummy_study(names=[f"{'endless' * 12} {number}" for number in range(12)], seeds=2)


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_parts_are_visible(size: dict[str, int], visit: Callable[..., Visit]) -> None:
    page = visit(study_page(RECORD), size=size).page
    assert page.get_by_role("heading", level=1).inner_text() == RECORD.question
    for text in RECORD.headline:
        assert page.get_by_text(text).is_visible()
    for anchor, title in SECTIONS.items():
        if anchor not in ("differences", "problems"):
            assert page.locator(f"#{anchor} h2").inner_text() == title
    assert page.locator(".variants tbody tr").count() == 8
    assert page.locator(".variants tbody svg").nth(7).is_visible()
    assert page.locator("#pareto svg.plot").count() == 4
    assert page.locator(".curves-chart:visible").count() == 1
    assert page.locator(".attention svg:visible").count() == 8


def test_tabs_select_charts(visit: Callable[..., Visit]) -> None:
    visited = visit(study_page(RECORD))
    charts = visited.page.locator(".curves-chart")
    for index, name in enumerate(("steps", "tokens", "FLOPs", "time")):
        visited.page.locator("#curves").get_by_text(name, exact=True).first.click()
        assert [charts.nth(other).is_visible() for other in range(4)] == [
            other == index for other in range(4)
        ]
    attention = visited.page.locator("#attention")
    attention.get_by_text("phoenix", exact=True).click()
    label = attention.locator(".attention svg:visible").first.get_attribute("aria-label")
    assert label.count("p h o e n i x")
    assert visited.complaints == []


def test_tabs_by_keyboard(visit: Callable[..., Visit]) -> None:
    visited = visit(study_page(RECORD))
    visited.page.locator("#axis-0").focus()
    visited.page.keyboard.press("ArrowRight")
    assert visited.page.locator(".curves-chart").nth(1).is_visible()


def test_details_open_without_widening_the_page(visit: Callable[..., Visit]) -> None:
    visited = visit(study_page(RECORD), size=PHONE, scheme="dark")
    summaries = visited.page.locator("summary")
    assert summaries.count() == 5
    for place in range(summaries.count()):
        summaries.nth(place).click()
    run = visited.page.get_by_text(RECORD.runs[-1].key)
    run.scroll_into_view_if_needed()
    assert run.is_visible()
    assert visited.width() <= PHONE["width"]


def test_hover_highlights_a_variant_in_every_chart(visit: Callable[..., Visit]) -> None:
    visited = visit(study_page(RECORD))
    visited.page.locator(".variants tbody th .variant").first.hover()
    highlighted = visited.page.locator(".curves-chart").first.locator(".line.on")
    assert highlighted.count() == 1
    assert highlighted.locator("title").first.text_content().startswith("additive · luong: ")
    other = visited.page.locator(".curves-chart").first.locator(".line:not(.on)").first
    assert float(other.evaluate("node => getComputedStyle(node).opacity")) < 0.5
    visited.page.locator("h1").hover()
    assert float(other.evaluate("node => getComputedStyle(node).opacity")) == 1.0


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_long_names_do_not_widen_the_page(
    size: dict[str, int], visit: Callable[..., Visit]
) -> None:
    visit(study_page(HUGE), size=size).assert_sound()
