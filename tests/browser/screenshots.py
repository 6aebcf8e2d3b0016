"""Screenshots of every page, on a phone and a desktop, light and dark.

python -m tests.browser.screenshots FOLDER [NAME ...]
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.browser.visits import SCHEMES, SIZES, Visit, open_browser
from tests.factories.pages import all_pages


def main(folder: Path, names: list[str]) -> None:
    """Write NAME-SIZE-SCHEME.png and the page itself, NAME.html, for each page."""
    folder.mkdir(parents=True, exist_ok=True)
    with open_browser() as browser:
        for name, draw in all_pages().items():
            if names and name not in names:
                continue
            path = folder.absolute() / f"{name}.html"
            path.write_text(draw(), encoding="utf-8")
            for size_name, size in SIZES.items():
                for scheme in SCHEMES:
                    visited = Visit(browser, path, size=size, scheme=scheme)
                    target = folder / f"{name}-{size_name}-{scheme}.png"
                    visited.page.screenshot(path=target, full_page=True)
                    visited.context.close()
                    print(target)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("error: name a folder: python -m tests.browser.screenshots FOLDER [NAME ...]")
    main(Path(sys.argv[1]), sys.argv[2:])
