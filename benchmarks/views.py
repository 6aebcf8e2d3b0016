"""The page of a large study, 200 variants × 5 seeds: time to write it, size, time to open it.

The time to open is measured in Chromium, until the page is loaded and the first row of a table is visible;
without Playwright or a browser it is skipped.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.browser.visits import DESKTOP, PHONE, open_browser
from tests.factories.pages import study_of_200

from benchmarks.measurement import Measurement, at_most
from regard.views.pages.study import study_page

MAX_SECONDS, MAX_MEGABYTES, MAX_OPENING_SECONDS = 10.0, 15.0, 3.0
VISITS = 5


def views() -> Iterator[Measurement]:
    """Time and size of the page of 200 variants, and the median time to open it."""
    record = study_of_200()
    study_page(record)
    began = time.perf_counter()
    html = study_page(record)
    seconds = time.perf_counter() - began
    yield at_most("study page of 200 variants, s", seconds, MAX_SECONDS)
    size = len(html.encode()) / 1e6
    yield at_most("study page of 200 variants, MB", size, MAX_MEGABYTES)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        path.write_text(html, encoding="utf-8")
        for name, opening in opening_seconds(path, until=_shows_a_row):
            label = f"opening the page of 200 variants, {name}, s"
            yield at_most(label, opening, MAX_OPENING_SECONDS)


def opening_seconds(path: Path, *, until: Callable[[Any], None]) -> Iterator[tuple[str, float]]:
    """The median time to open a page, on a desktop and a phone; `until` waits for what it must show."""
    with open_browser() as browser:
        for name, window in (("desktop", DESKTOP), ("phone", PHONE)):
            times = []
            for _ in range(VISITS):
                page = browser.new_page(viewport=window)
                began = time.perf_counter()
                page.goto(path.as_uri())
                until(page)
                times.append(time.perf_counter() - began)
                page.close()
            yield name, statistics.median(times)


def _shows_a_row(page: Any) -> None:
    page.locator("tbody tr").first.wait_for(state="visible")
