"""Study page in a browser: layout, tabs, highlighting, no requests."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.factories.studies import dummy_study

from regard.views.pages.study import SECTIONS, study_page

pytestmark = pytest.mark.stress
playwright = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed: pip install playwright"
)

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PHONE, DESKTOP = {"width": 390, "height": 844}, {"width": 1280, "height": 900}
SCREENS = [
    pytest.param(size, scheme, id=f"{name}-{scheme}")
    for name, size in (("phone", PHONE), ("desktop", DESKTOP))
    for scheme in ("light", "dark")
]
RECORD = dummy_study()
HUGE = dummy_study(names=[f"{'endless' * 12} {number}" for number in range(12)], seeds=2)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"none of {', '.join(BROWSERS)} is on the path")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=found)
        yield opened
        opened.close()


class Visit:
    """A page that was opened from its file, with everything that it asked for or complained of."""

    def __init__(self, browser: Any, path: Path, *, size: dict[str, int], scheme: str) -> None:
        self.context = browser.new_context(viewport=size, color_scheme=scheme)
        self.page = self.context.new_page()
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(path.as_uri())

    def width(self) -> int:
        """How wide the document is: wider than the window, and it scrolls sideways."""
        return int(self.page.evaluate("document.documentElement.scrollWidth"))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    written = tmp_path_factory.mktemp("study") / "page.html"
    written.write_text(study_page(RECORD), encoding="utf-8")
    return written


@pytest.mark.parametrize(("size", "scheme"), SCREENS)
def test_page_is_visible_and_makes_no_requests(
    browser: Any, path: Path, size: dict[str, int], scheme: str
) -> None:
    visit = Visit(browser, path, size=size, scheme=scheme)
    page = visit.page
    assert page.get_by_role("heading", level=1).inner_text() == RECORD.question
    for text in RECORD.headline:
        assert page.get_by_text(text).is_visible()
    for anchor, title in SECTIONS.items():
        if anchor != "problems":
            assert page.locator(f"#{anchor} h2").inner_text() == title
    assert page.locator(".variants tbody tr").count() == 8
    assert page.locator(".variants tbody svg").nth(7).is_visible()
    assert page.locator(".pareto-chart").count() == 4
    assert page.locator(".curves-chart:visible").count() == 1
    assert page.locator(".attention-map:visible").count() == 8
    assert visit.complaints == []
    assert visit.requests == [path.as_uri()]
    assert visit.width() <= size["width"]
    visit.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colour_scheme(browser: Any, path: Path, scheme: str) -> None:
    visit = Visit(browser, path, size=DESKTOP, scheme=scheme)
    ground, ink = (
        [int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]
        for colour in visit.page.evaluate(
            "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
        )
    )
    assert (sum(ground) > sum(ink)) == (scheme == "light")
    assert abs(sum(ground) - sum(ink)) > 450
    visit.context.close()


def test_tabs_select_charts(browser: Any, path: Path) -> None:
    visit = Visit(browser, path, size=DESKTOP, scheme="light")
    charts = visit.page.locator(".curves-chart")
    for index, name in enumerate(("steps", "tokens", "FLOPs", "time")):
        visit.page.locator("#curves").get_by_text(name, exact=True).first.click()
        assert [charts.nth(other).is_visible() for other in range(4)] == [
            other == index for other in range(4)
        ]
    attention = visit.page.locator("#attention")
    attention.get_by_text("phoenix", exact=True).click()
    label = attention.locator("svg:visible").first.get_attribute("aria-label")
    assert label.count("p h o e n i x")
    assert visit.complaints == []
    visit.context.close()


def test_tabs_by_keyboard(browser: Any, path: Path) -> None:
    visit = Visit(browser, path, size=DESKTOP, scheme="light")
    visit.page.locator("#axis-0").focus()
    visit.page.keyboard.press("ArrowRight")
    assert visit.page.locator(".curves-chart").nth(1).is_visible()
    visit.context.close()


def test_details_open_without_widening_the_page(browser: Any, path: Path) -> None:
    visit = Visit(browser, path, size=PHONE, scheme="dark")
    summaries = visit.page.locator("summary")
    assert summaries.count() == 4
    for place in range(summaries.count()):
        summaries.nth(place).click()
    run = visit.page.get_by_text(RECORD.runs[-1].key)
    run.scroll_into_view_if_needed()
    assert run.is_visible()
    assert visit.width() <= PHONE["width"]
    visit.context.close()


def test_hover_highlights_a_variant_in_every_chart(browser: Any, path: Path) -> None:
    visit = Visit(browser, path, size=DESKTOP, scheme="light")
    visit.page.locator(".variants tbody th .variant").first.hover()
    highlighted = visit.page.locator(".curves-chart").first.locator(".curve.on")
    assert highlighted.count() == 1
    assert highlighted.locator("text").text_content() == "additive · luong"
    other = visit.page.locator(".curves-chart").first.locator(".curve:not(.on)").first
    assert float(other.evaluate("node => getComputedStyle(node).opacity")) < 0.5
    visit.page.locator("h1").hover()
    assert float(other.evaluate("node => getComputedStyle(node).opacity")) == 1.0
    visit.context.close()


@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_long_names_do_not_widen_the_page(
    browser: Any, tmp_path: Path, size: dict[str, int]
) -> None:
    path = tmp_path / "huge.html"
    path.write_text(study_page(HUGE), encoding="utf-8")
    visit = Visit(browser, path, size=size, scheme="light")
    assert visit.width() <= size["width"]
    assert visit.complaints == []
    visit.context.close()
