"""The page of 200 variants is small enough to send, and opens; `python -m benchmarks views` times it."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from tests.browser.visits import SIZES, Visit
from tests.factories.pages import study_of_200

from regard.views.pages.study import study_page

pytestmark = pytest.mark.stress

MAX_BYTES = 15_000_000
# Generous: on two shared cores with a cold start.
MAX_SECONDS, MAX_OPENING_SECONDS = 40.0, 15.0


@pytest.fixture(scope="module")
def html() -> str:
    began = time.perf_counter()
    drawn = study_page(study_of_200())
    assert time.perf_counter() - began < MAX_SECONDS
    return drawn


def test_size(html: str) -> None:
    assert len(html.encode()) < MAX_BYTES


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_page_opens(size: dict[str, int], html: str, visit: Callable[..., Visit]) -> None:
    began = time.perf_counter()
    visited = visit(html, size=size)
    visited.page.locator("tbody tr").first.wait_for(state="visible")
    assert time.perf_counter() - began < MAX_OPENING_SECONDS
    visited.assert_sound()
    visited.open_details()
    visited.assert_sound()
