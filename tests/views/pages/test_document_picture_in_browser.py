"""The page of a document in a real browser: it shows, it fits, every shade can be read on, no fetching."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.factories.documents import made_up_document

from regard.core.records.document import DocumentRecord
from regard.views.charts.document_words import shadings, strength
from regard.views.pages.document import write_document_page

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
RECORD = made_up_document(hops=3)


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
    written = tmp_path_factory.mktemp("document") / "page.html"
    write_document_page(RECORD, path=written)
    return written


def numbers(colour: str) -> list[float]:
    """What a browser says a colour is: rgb(…) or rgba(…)."""
    return [float(part) for part in colour.partition("(")[2].rstrip(")").split(",")]


def luminance(colour: list[float]) -> float:
    """Relative luminance, as the rules for accessible pages (WCAG 2) define it."""
    parts = [part / 255 for part in colour]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize(("size", "scheme"), SCREENS)
def test_everything_shows_and_nothing_is_fetched(
    browser: Any, path: Path, size: dict[str, int], scheme: str
) -> None:
    visit = Visit(browser, path, size=size, scheme=scheme)
    page = visit.page
    assert page.get_by_role("heading", level=1).inner_text() == "negative"
    assert page.locator(".sentences .word").count() == len(RECORD.tokens)
    assert page.locator(".bar:visible").count() == 4
    assert page.locator(".deletion-chart").is_visible()
    assert visit.complaints == []
    assert visit.requests == [path.as_uri()]
    assert visit.width() <= size["width"]
    visit.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_can_be_read_on_every_shade(browser: Any, path: Path, scheme: str) -> None:
    visit = Visit(browser, path, size=DESKTOP, scheme=scheme)
    ground = numbers(visit.page.evaluate("getComputedStyle(document.body).backgroundColor"))
    word = visit.page.locator(".sentences .word").first
    for times in (0.0, 1.0, 4.0, 16.0, 64.0, 1e6):
        colours = word.evaluate(
            "(node, times) => { node.style.setProperty('--times', times); "
            "const style = getComputedStyle(node); return [style.backgroundColor, style.color]; }",
            times,
        )
        shade, ink = map(numbers, colours)
        share = shade[3] if len(shade) > 3 else 1.0
        assert share == pytest.approx(strength(times), abs=0.01)
        mixed = [a * share + b * (1 - share) for a, b in zip(shade[:3], ground, strict=True)]
        light, dark = sorted((luminance(mixed), luminance(ink[:3])), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5
    visit.context.close()


def test_a_choice_shows_other_weights(browser: Any, path: Path) -> None:
    visit = Visit(browser, path, size=DESKTOP, scheme="light")
    ways, place = shadings(RECORD), RECORD.tokens.index("fine")
    word = visit.page.locator(".sentences .word").nth(place)
    for way in (*ways, ways[0]):
        visit.page.get_by_text(way.name, exact=True).click()
        times = float(word.evaluate("node => node.style.getPropertyValue('--times')"))
        assert times == pytest.approx(way.times[place], rel=0.01)
        title = word.get_attribute("title")
        assert title.startswith(f"fine: weight {way.weights[place]:.2g}, ")
        assert title.endswith("instead of 0.93")
    word.hover()
    assert visit.page.locator(".told").inner_text() == word.get_attribute("title")
    assert visit.complaints == []
    visit.context.close()


def test_a_bar_is_as_long_as_its_weight_and_clear_of_its_figure(browser: Any, path: Path) -> None:
    visit = Visit(browser, path, size=PHONE, scheme="light")
    fills = [visit.page.locator(".bar .fill").nth(place).bounding_box() for place in range(4)]
    figures = [visit.page.locator(".bar .figure").nth(place).bounding_box() for place in range(4)]
    assert RECORD.sentences is not None
    assert fills[1]["width"] / fills[3]["width"] == pytest.approx(0.72 / 0.18, rel=0.05)
    for fill, figure in zip(fills, figures, strict=True):
        assert 0 <= figure["x"] < figure["x"] + figure["width"] <= fill["x"]
    visit.context.close()


@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_endless_words_do_not_widen_the_page(
    browser: Any, tmp_path: Path, size: dict[str, int]
) -> None:
    endless = "x" * 500
    record = DocumentRecord(
        tokens=(endless, "日本語" * 99, "a"),
        segments=(0, 1, 1),
        hops=((0.2, 0.3, 0.5),) * 14,
        sentences=(0.5, 0.5),
        label=endless,
        probabilities={endless: 0.6, "y" * 300: 0.4},
        right="z" * 300,
        title=endless,
    )
    path = tmp_path / "endless.html"
    write_document_page(record, path=path)
    visit = Visit(browser, path, size=size, scheme="dark")
    assert visit.width() <= size["width"]
    assert visit.complaints == []
    visit.context.close()
