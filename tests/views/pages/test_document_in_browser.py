"""Document page in a browser: layout, contrast of shades, no requests."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.factories.documents import make_document_record

from regard.core.records.document import DocumentRecord
from regard.views.charts.document import shade_opacity, weight_views
from regard.views.pages.document import write_document_page

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
RECORD = make_document_record(hops=3)


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
    page = tmp_path_factory.mktemp("document") / "page.html"
    write_document_page(RECORD, path=page)
    return page


def numbers(colour: str) -> list[float]:
    """Components of a CSS colour, rgb(…) or rgba(…)."""
    return [float(part) for part in colour.partition("(")[2].rstrip(")").split(",")]


def luminance(colour: list[float]) -> float:
    """Relative luminance (WCAG 2)."""
    parts = [part / 255 for part in colour]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize(("size", "scheme"), SCREENS)
def test_page_is_visible_and_makes_no_requests(
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
def test_contrast_on_every_shade(browser: Any, path: Path, scheme: str) -> None:
    visit = Visit(browser, path, size=DESKTOP, scheme=scheme)
    ground = numbers(visit.page.evaluate("getComputedStyle(document.body).backgroundColor"))
    word = visit.page.locator(".sentences .word").first
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
        light, dark = sorted((luminance(mixed), luminance(ink[:3])), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5
    visit.context.close()


def test_tabs_select_the_weights(browser: Any, path: Path) -> None:
    visit = Visit(browser, path, size=DESKTOP, scheme="light")
    views, index = weight_views(RECORD), RECORD.tokens.index("fine")
    word = visit.page.locator(".sentences .word").nth(index)
    for view in (*views, views[0]):
        visit.page.get_by_text(view.name, exact=True).click()
        relative = float(word.evaluate("node => node.style.getPropertyValue('--relative')"))
        assert relative == pytest.approx(view.relative[index], rel=0.01)
        title = word.get_attribute("title")
        assert title.startswith(f"fine: weight {view.weights[index]:.2g}, ")
        assert title.endswith("instead of 0.93")
    word.hover()
    assert visit.page.locator(".word-note").inner_text() == word.get_attribute("title")
    assert visit.complaints == []
    visit.context.close()


def test_bar_length_is_the_sentence_weight(browser: Any, path: Path) -> None:
    visit = Visit(browser, path, size=PHONE, scheme="light")
    fills = [visit.page.locator(".bar .fill").nth(index).bounding_box() for index in range(4)]
    figures = [visit.page.locator(".bar .figure").nth(index).bounding_box() for index in range(4)]
    assert RECORD.sentence_weights is not None
    assert fills[1]["width"] / fills[3]["width"] == pytest.approx(0.72 / 0.18, rel=0.05)
    for fill, figure in zip(fills, figures, strict=True):
        assert 0 <= figure["x"] < figure["x"] + figure["width"] <= fill["x"]
    visit.context.close()


@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_long_words_do_not_widen_the_page(
    browser: Any, tmp_path: Path, size: dict[str, int]
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
    path = tmp_path / "long_word.html"
    write_document_page(record, path=path)
    visit = Visit(browser, path, size=size, scheme="dark")
    assert visit.width() <= size["width"]
    assert visit.complaints == []
    visit.context.close()
