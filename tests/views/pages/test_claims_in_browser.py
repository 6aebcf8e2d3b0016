"""Claims page in a browser: layout, filter, no requests."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.factories.claims import CLAIMS

from regard.claims.engine import run_claims
from regard.views.pages.claims import claim_page

pytestmark = pytest.mark.stress
playwright = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed: pip install playwright"
)

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PHONE, DESKTOP = {"width": 390, "height": 844}, {"width": 1280, "height": 900}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"none of {', '.join(BROWSERS)} is on the path")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=found)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    written = tmp_path_factory.mktemp("claims") / "page.html"
    written.write_text(claim_page(run_claims(CLAIMS)), encoding="utf-8")
    return written


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_page_is_visible_and_makes_no_requests(
    browser: Any, path: Path, size: dict[str, int], scheme: str
) -> None:
    context = browser.new_context(viewport=size, color_scheme=scheme)
    page = context.new_page()
    messages: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(path.as_uri())
    for summary in page.locator("summary").all():
        summary.click()
    assert page.locator(".claim:visible").count() == 4
    assert page.locator(".claim svg:visible").count() == 3
    assert page.get_by_text("def squares_are_large()").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    ground, ink = page.evaluate(
        "['backgroundColor', 'color'].map(name => getComputedStyle(document.body)[name]"
        ".match(/\\d+/g).reduce((sum, part) => sum + Number(part), 0))"
    )
    assert (ground > ink) == (scheme == "light")
    assert messages == []
    assert requests == [path.as_uri()]
    context.close()


def test_known_false_claims_are_beside_the_correct_one(browser: Any, path: Path) -> None:
    for size, same_row in ((DESKTOP, True), (PHONE, False)):
        page = browser.new_page(viewport=size)
        page.goto(path.as_uri())
        right, wrong = (
            page.locator(f"#squares-are-{name}").bounding_box() for name in ("even", "odd")
        )
        assert (right["y"] == wrong["y"]) == same_row
        page.close()


def test_filter_by_verdict(browser: Any, path: Path) -> None:
    page = browser.new_page(viewport=DESKTOP)
    page.goto(path.as_uri())
    page.locator(".radio-group").get_by_text("fail").click()
    assert [claim.get_attribute("id") for claim in page.locator(".claim:visible").all()] == [
        "squares-are-odd"
    ]
    assert page.locator(".topics li:visible").count() == 1
    page.locator(".radio-group").get_by_text("all").click()
    assert page.locator(".claim:visible").count() == 4
    page.close()
