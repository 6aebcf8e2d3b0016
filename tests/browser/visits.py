"""Opens pages in Chromium, and records what they ask for and complain of."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from regard.core.errors import MissingDependencyError

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PHONE, DESKTOP = {"width": 390, "height": 844}, {"width": 1280, "height": 900}
SIZES = {"phone": PHONE, "desktop": DESKTOP}
SCHEMES = ("light", "dark")

TOO_WIDE = """
() => {
  const beyond = (node) => node.getBoundingClientRect().right > document.documentElement.clientWidth + 1
    || node.scrollWidth > node.clientWidth + 1 && getComputedStyle(node).overflowX === "visible";
  const clipped = (node) => node && node !== document.body
    && (getComputedStyle(node).overflowX !== "visible" || clipped(node.parentElement));
  const free = [...document.body.querySelectorAll("*")]
    .filter((node) => !node.closest("svg svg, svg *") && beyond(node) && !clipped(node.parentElement)
      && getComputedStyle(node).overflowX === "visible");
  return free.filter((node) => !free.some((other) => other !== node && node.contains(other)))
    .map((node) => node.outerHTML.slice(0, 160)).slice(0, 10);
}
"""

VIOLATIONS = """
async () => {
  const results = await axe.run(document, {resultTypes: ["violations"]});
  return results.violations
    .filter(({impact}) => impact === "serious" || impact === "critical")
    .map(({id, nodes}) => `${id}: ${nodes.length} × ${nodes[0].html.slice(0, 200)}: `
      + nodes[0].failureSummary.slice(0, 300));
}
"""


@contextmanager
def open_browser() -> Iterator[Any]:
    """Chromium, which must be installed; Playwright's own browsers are not used."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError as error:
        raise MissingDependencyError(
            "playwright is not installed: pip install -c constraints.txt playwright"
        ) from error
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        raise MissingDependencyError(f"None of {', '.join(BROWSERS)} is on the path. Install one.")
    with sync_playwright() as started:
        opened = started.chromium.launch(executable_path=found, args=list(FLAGS))
        yield opened
        opened.close()


def browser_or_skip() -> Iterator[Any]:
    """The value of a fixture: Chromium, or the test is skipped."""
    opening = open_browser()
    try:
        opened = opening.__enter__()
    except MissingDependencyError as error:
        pytest.skip(str(error))
    yield opened
    opening.__exit__(None, None, None)


class Visit:
    """A page that was opened from its file or address, with all that it asked for or complained of."""

    def __init__(
        self,
        browser: Any,
        path: Path | str,
        *,
        size: dict[str, int] = DESKTOP,
        scheme: str = "light",
    ) -> None:
        self.path, self.size = path, size
        self.address = path if isinstance(path, str) else path.as_uri()
        self.context = browser.new_context(viewport=size, color_scheme=scheme)
        self.page = self.context.new_page()
        self.page.set_default_timeout(20_000)
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", self._refuse)
        self.page.goto(self.address)

    def _refuse(self, dialog: Any) -> None:
        self.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def width(self) -> int:
        """How wide the document is: wider than the window, and it scrolls sideways."""
        return int(self.page.evaluate("document.documentElement.scrollWidth"))

    def too_wide(self) -> list[str]:
        """The innermost elements that end beyond the window and are not within one that scrolls."""
        found: list[str] = self.page.evaluate(TOO_WIDE)
        return found

    def violations(self, axe: str) -> list[str]:
        """What axe-core finds that is serious or critical."""
        # Evaluated, since the policy of the page forbids other scripts.
        self.page.evaluate(axe)
        found: list[str] = self.page.evaluate(VIOLATIONS)
        return found

    def open_details(self) -> None:
        """Open everything that is folded."""
        self.page.evaluate(
            "document.querySelectorAll('details').forEach((each) => each.open = true)"
        )

    def assert_sound(self) -> None:
        """No message, no request but for the file, no scrolling sideways."""
        assert self.complaints == []
        assert self.requests == [self.address]
        assert self.width() <= self.size["width"], self.too_wide()


def numbers(colour: str) -> list[float]:
    """Components of a CSS colour, rgb(…) or rgba(…)."""
    return [float(part) for part in colour.partition("(")[2].rstrip(")").split(",")]


def luminance(colour: list[float]) -> float:
    """Relative luminance (WCAG 2)."""
    parts = [part / 255 for part in colour]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: list[float], second: list[float]) -> float:
    """Contrast ratio of two opaque colours (WCAG 2), from 1 to 21."""
    dark, light = sorted((luminance(first[:3]), luminance(second[:3])))
    return (light + 0.05) / (dark + 0.05)
