"""Every page by keyboard alone: all controls are reached, show that they are, and work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.browser.visits import Visit
from tests.factories.pages import PAGES

pytestmark = pytest.mark.stress

CONTROLS = "a[href], button, input, select, textarea, summary, [tabindex]"
# What shows the focus of a control: itself, its label, or what is around it.
PREPARE = """
(selector) => {
  window.shown = (node) => [node, node.nextElementSibling, node.parentElement, node.labels?.[0]]
    .filter(Boolean)
    .map((each) => getComputedStyle(each))
    .map((style) => [style.outlineStyle !== "none" && style.outlineWidth !== "0px"
      ? style.outline : "", style.boxShadow].join(" "))
    .join("; ");
  window.controls = [...document.querySelectorAll(selector)].filter(
    (node) => node.tabIndex >= 0 && !node.disabled && node.checkVisibility({visibilityProperty: true}),
  );
  window.before = window.controls.map(window.shown);
  const inGroup = (node) => node.type === "radio" && node.name;
  const first = (node) => {
    const group = window.controls.filter((each) => inGroup(each) && each.name === node.name);
    return group.find((each) => each.checked) ?? group[0];
  };
  return window.controls.map((node, index) => [index, inGroup(node) ? first(node) === node : true])
    .filter(([, counts]) => counts).map(([index]) => index);
}
"""
FOCUSED = """
() => {
  const index = window.controls.indexOf(document.activeElement);
  const node = document.activeElement;
  return [index, index >= 0 && window.shown(node) !== window.before[index],
    node === document.body, node.outerHTML.slice(0, 120)];
}
"""
KINDS = """
() => window.controls.map((node) => node.localName === "input" ? node.type : node.localName)
"""


def names(visited: Visit, indices: set[int]) -> list[str]:
    """The markup of some controls, for a message."""
    found: list[str] = visited.page.evaluate(
        "(all) => all.map((index) => window.controls[index].outerHTML.slice(0, 120))",
        sorted(indices),
    )
    return found


@pytest.mark.parametrize("name", PAGES)
def test_all_controls_are_reached_and_show_the_focus(
    name: str, visit: Callable[..., Visit], page_file: Callable[[str], Path]
) -> None:
    visited = visit(page_file(name))
    visited.open_details()
    expected = set(visited.page.evaluate(PREPARE, CONTROLS))
    reached: set[int] = set()
    unmarked: set[str] = set()
    for _ in range(2 * len(expected) + 50):
        visited.page.keyboard.press("Tab")
        index, is_marked, is_end, markup = visited.page.evaluate(FOCUSED)
        if is_end:
            break
        reached.add(index)
        if index >= 0 and not is_marked:
            unmarked.add(markup)
    assert names(visited, expected - reached) == []
    assert sorted(unmarked) == []
    visited.assert_sound()


@pytest.mark.parametrize("name", PAGES)
def test_controls_work(
    name: str, visit: Callable[..., Visit], page_file: Callable[[str], Path]
) -> None:
    use_controls(visit(page_file(name)))


def use_controls(visited: Visit) -> None:
    """Use every control of a page by keyboard."""
    page = visited.page
    open_by_keyboard(page)
    page.evaluate(PREPARE, CONTROLS)
    for index, kind in enumerate(page.evaluate(KINDS)):
        control = page.evaluate_handle("(index) => window.controls[index]", index).as_element()
        if not control.is_visible() and kind not in ("radio", "checkbox"):
            continue
        control.focus()
        match kind:
            case "radio":
                use_radio(page, control)
            case "checkbox":
                before = control.is_checked()
                page.keyboard.press("Space")
                assert control.is_checked() != before
                page.keyboard.press("Space")
            case "text" | "search":
                page.keyboard.type("zzz no such row")
                page.keyboard.press("Control+A")
                page.keyboard.press("Delete")
            case "select":
                page.keyboard.press("ArrowDown")
            case "button" | "a":
                page.keyboard.press("Enter")
            case "summary":
                page.keyboard.press("Space")
                page.keyboard.press("Space")
            case _:
                for arrow in ("ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp"):
                    page.keyboard.press(arrow)
    assert page.evaluate("document.querySelectorAll('details:not([open])').length") == 0
    assert visited.complaints == []
    assert {request.partition("#")[0] for request in visited.requests} == {visited.address}
    assert visited.width() <= visited.size["width"]


def open_by_keyboard(page: Any) -> None:
    """Open everything that is folded, outermost first."""
    while page.locator("details:not([open]) > summary:visible").count():
        summary = page.locator("details:not([open]) > summary:visible").first
        before = page.locator("details[open]").count()
        summary.focus()
        page.keyboard.press("Enter")
        assert page.locator("details[open]").count() == before + 1


def use_radio(page: Any, control: Any) -> None:
    """Arrow keys select the next choice of the group, unless it is the only one."""
    size = control.evaluate(
        "(node) => [...document.getElementsByName(node.name)].filter((each) => each.form === node.form)"
        ".length"
    )
    page.keyboard.press("Space")
    assert control.is_checked()
    page.keyboard.press("ArrowRight")
    assert control.is_checked() == (size == 1)


ORDER = (
    "(table) => [...table.tBodies].flatMap((body) => [...body.rows].map((row) => row.innerText))"
)


@pytest.mark.parametrize("name", PAGES)
def test_sort_buttons_sort(
    name: str, visit: Callable[..., Visit], page_file: Callable[[str], Path]
) -> None:
    page = visit(page_file(name)).page
    open_by_keyboard(page)
    for table in page.locator("table.sortable:visible").all():
        for button in table.locator("thead th button").all():
            orders = []
            for direction in ("ascending", "descending"):
                button.focus()
                page.keyboard.press("Enter")
                sort = button.evaluate("(node) => node.closest('th').getAttribute('aria-sort')")
                assert sort == direction
                orders.append(table.evaluate(ORDER))
            assert sorted(orders[0]) == sorted(orders[1])
            column = button.evaluate("(node) => node.closest('th').cellIndex")
            keys = table.evaluate(
                "(table, column) => [...table.tBodies].map((body) => [...body.rows]"
                ".map((row) => row.cells[column]?.dataset.sort).filter((key) => key))",
                column,
            )
            if any(len(set(body)) > 1 for body in keys):
                assert orders[0] != orders[1]


@pytest.mark.parametrize("name", PAGES)
def test_filters_hide_rows(
    name: str, visit: Callable[..., Visit], page_file: Callable[[str], Path]
) -> None:
    page = visit(page_file(name)).page
    open_by_keyboard(page)
    for field in page.locator("input[data-table]:visible").all():
        rows = page.locator(f"#{field.get_attribute('data-table')} tbody tr:visible")
        count = rows.count()
        field.focus()
        page.keyboard.type("zzz no such row")
        assert rows.count() == 0
        field.fill("")
        assert rows.count() == count
        word = rows.last.inner_text().split()[0]
        page.keyboard.type(word)
        assert 1 <= rows.count() <= count
        field.fill("")
