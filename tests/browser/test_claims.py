"""Claims page in a browser: layout, filter."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.browser.visits import DESKTOP, PHONE, SIZES, Visit

pytestmark = pytest.mark.stress


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_parts_are_visible(
    size: dict[str, int], visit: Callable[..., Visit], page_file: Callable[[str], Path]
) -> None:
    page = visit(page_file("claims"), size=size).page
    for summary in page.locator("summary").all():
        summary.click()
    assert page.locator(".claim:visible").count() == 4
    assert page.locator(".claim svg:not(.ramp):visible").count() == 3
    assert page.get_by_text("def squares_are_large()").is_visible()


def test_known_false_claims_are_beside_the_correct_one(
    visit: Callable[..., Visit], page_file: Callable[[str], Path]
) -> None:
    for size, same_row in ((DESKTOP, True), (PHONE, False)):
        page = visit(page_file("claims"), size=size).page
        right, wrong = (
            page.locator(f"#squares-are-{name}").bounding_box() for name in ("even", "odd")
        )
        assert (right["y"] == wrong["y"]) == same_row


def test_filter_by_verdict(visit: Callable[..., Visit], page_file: Callable[[str], Path]) -> None:
    page = visit(page_file("claims")).page
    page.locator(".radio-group").get_by_text("fail").click()
    assert [claim.get_attribute("id") for claim in page.locator(".claim:visible").all()] == [
        "squares-are-odd"
    ]
    assert page.locator(".topics li:visible").count() == 1
    page.locator(".radio-group").get_by_text("all").click()
    assert page.locator(".claim:visible").count() == 4
