"""Every page in a browser: nothing but the file is loaded, no messages, layout, colours."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.browser.visits import DESKTOP, PHONE, SCHEMES, SIZES, Visit, contrast, numbers
from tests.factories.hostile_strings import STRINGS, harmless, with_string
from tests.factories.pages import PAGES

pytestmark = pytest.mark.stress

ALL_BUT_THE_LONG = "".join(text for name, text in STRINGS.items() if name != "long word")
# In every field; a tenth of the longest word keeps pages below 10 MB.
HOSTILE = {"all": ALL_BUT_THE_LONG, "long word": STRINGS["long word"][:1000]}
# Where a line of text is broken, and whether all columns of a map fit, depends on characters.
STRUCTURE = """
[...document.querySelectorAll("*")]
  .filter((node) => !["tspan", "wbr"].includes(node.localName))
  .map((node) => [node.localName, ...node.getAttributeNames().filter((name) => name !== "hidden")]
    .join(" "))
"""


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("name", PAGES)
def test_page(
    name: str,
    size: dict[str, int],
    scheme: str,
    visit: Callable[..., Visit],
    page_file: Callable[[str], Path],
) -> None:
    visited = visit(page_file(name), size=size, scheme=scheme)
    assert visited.page.get_by_role("heading", level=1).is_visible()
    ground, ink = visited.page.evaluate(
        "['backgroundColor', 'color'].map((name) => getComputedStyle(document.body)[name])"
    )
    assert (sum(numbers(ground)[:3]) > sum(numbers(ink)[:3])) == (scheme == "light")
    assert contrast(numbers(ground), numbers(ink)) >= 7
    visited.assert_sound()
    visited.open_details()
    visited.assert_sound()


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("name", [name for name in PAGES if name != "study-40"])
def test_hostile_strings(name: str, text: str, visit: Callable[..., Visit]) -> None:
    page = PAGES[name]
    visited = visit(page.draw(with_string(page.record(), text)), size=PHONE)
    visited.open_details()
    visited.page.mouse.wheel(0, 500)
    for place in ("h1", "td", "svg", "a", "summary"):
        if visited.page.locator(place).count():
            visited.page.locator(place).first.dispatch_event("mouseover")
    assert visited.page.evaluate("window.__pwned") is None
    visited.assert_sound()
    visited.page.set_viewport_size(DESKTOP)
    assert visited.width() <= DESKTOP["width"], visited.too_wide()
    plain = visit(page.draw(with_string(page.record(), harmless(text))), size=PHONE)
    plain.open_details()
    assert visited.page.evaluate(STRUCTURE) == plain.page.evaluate(STRUCTURE)
