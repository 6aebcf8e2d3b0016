"""The page of a large study, 200 variants × 5 seeds: time to write it, size, time to open it.

The time to open is measured in Chromium, until the page is loaded and the first row of a table is visible;
without Playwright or a browser it is skipped.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.browser.visits import DESKTOP, PHONE, open_browser
from tests.factories.pages import study_of_200

from benchmarks.measurement import Measurement
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
    yield _at_most("study page of 200 variants, s", seconds, MAX_SECONDS)
    size = len(html.encode()) / 1e6
    yield _at_most("study page of 200 variants, MB", size, MAX_MEGABYTES)
    with tempfile.TemporaryDirectory() as folder, open_browser() as browser:
        path = Path(folder) / "page.html"
        path.write_text(html, encoding="utf-8")
        for name, window in (("desktop", DESKTOP), ("phone", PHONE)):
            times = []
            for _ in range(VISITS):
                page = browser.new_page(viewport=window)
                began = time.perf_counter()
                page.goto(path.as_uri())
                page.locator("tbody tr").first.wait_for(state="visible")
                times.append(time.perf_counter() - began)
                page.close()
            label = f"opening the page of 200 variants, {name}, s"
            yield _at_most(label, statistics.median(times), MAX_OPENING_SECONDS)


def _at_most(label: str, value: float, threshold: float) -> Measurement:
    return Measurement(label=label, value=value, threshold=threshold, larger_is_better=False)
