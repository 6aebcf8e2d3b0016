"""Fixtures: a browser, visits, and the files of pages. Skipped where there is no browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.browser.visits import Visit, browser_or_skip
from tests.factories.pages import all_pages

# Installed by `make stress`, where there is npm.
AXE = Path(__file__).parents[2] / "build" / "axe" / "node_modules" / "axe-core" / "axe.min.js"


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    yield from browser_or_skip()


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core, which checks accessibility."""
    if not AXE.exists():
        pytest.skip(f"axe-core is not installed: npm install --prefix {AXE.parents[2]} axe-core")
    return AXE.read_text(encoding="utf-8")


@pytest.fixture
def visit(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Visit]]:
    """Open a page, HTML, the path of a file or an address; it is closed after the test."""
    opened: list[Visit] = []

    def open_page(page: str | Path, **options: Any) -> Visit:
        if isinstance(page, str) and not page.startswith("http://"):
            path = tmp_path / f"page-{len(opened)}.html"
            path.write_text(page, encoding="utf-8")
            page = path
        opened.append(Visit(browser, page, **options))
        return opened[-1]

    yield open_page
    for each in opened:
        each.context.close()


@pytest.fixture(scope="session")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The file of a page of `all_pages`, by name."""
    folder, pages = tmp_path_factory.mktemp("pages"), all_pages()

    def write(name: str) -> Path:
        path = folder / f"{name}.html"
        if not path.exists():
            path.write_text(pages[name](), encoding="utf-8")
        return path

    return write
