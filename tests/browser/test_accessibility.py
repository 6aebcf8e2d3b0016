"""Every page, and that of a run of every recipe, by axe-core: no violation that is serious or critical."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.browser.visits import SCHEMES, SIZES, Visit
from tests.factories.command_line import regard
from tests.factories.pages import PAGES
from tests.test_recipes import quick_run

from regard.runs.spec import builtin_recipes

pytestmark = pytest.mark.stress


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", PAGES)
def test_axe(
    name: str,
    scheme: str,
    axe: str,
    visit: Callable[..., Visit],
    page_file: Callable[[str], Path],
) -> None:
    visited = visit(page_file(name), scheme=scheme)
    visited.open_details()
    assert visited.violations(axe) == []


@pytest.mark.parametrize("recipe", builtin_recipes())
def test_run_of_a_recipe(
    recipe: str, axe: str, visit: Callable[..., Visit], tmp_path: Path
) -> None:
    task, options = quick_run(recipe, tmp_path)
    for command in (
        ["train", task, *options, "--out", tmp_path / "run"],
        ["report", tmp_path / "run"],
    ):
        result = regard(*command)
        assert result.returncode == 0, result.stderr[-2000:]
    for size in SIZES.values():
        for scheme in SCHEMES:
            visited = visit(tmp_path / "run" / "page.html", size=size, scheme=scheme)
            visited.open_details()
            visited.assert_sound()
            assert visited.violations(axe) == []
