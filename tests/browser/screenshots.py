"""Screenshots of every page: a sheet each, with a desktop and a phone, light and dark.

python -m tests.browser.screenshots FOLDER [NAME or FILE.html ...]
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.browser.visits import SCHEMES, SIZES, Visit, open_browser
from tests.factories.pages import all_pages

SHEET = {"width": 1600, "height": 800}
STYLE = "body { margin: 8px; display: flex; gap: 8px; background: #888; } img { height: 784px; }"
# The first screens of a page, as much as a sheet shows.
SCREENS = {"desktop": 1920, "phone": 1184}


def main(folder: Path, names: list[str]) -> None:
    """Write NAME.jpg for each page, or only for those with these names, or of these files."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = {name: draw for name, draw in all_pages().items() if not names or name in names}
    files = [Path(name) for name in names if name.endswith(".html")]
    pages |= {file.stem: partial(file.read_text, encoding="utf-8") for file in files}
    with open_browser() as browser, TemporaryDirectory() as temporary:
        for name, draw in pages.items():
            path = Path(temporary) / f"{name}.html"
            path.write_text(draw(), encoding="utf-8")
            images = []
            for size_name, size in reversed(SIZES.items()):
                for scheme in SCHEMES:
                    shown = {**size, "height": SCREENS[size_name]}
                    visited = Visit(browser, path, size=shown, scheme=scheme)
                    images.append(Path(temporary) / f"{name}-{size_name}-{scheme}.png")
                    visited.page.screenshot(path=images[-1])
                    visited.context.close()
            sheet = Path(temporary) / "sheet.html"
            body = "".join(f'<img src="{image.name}">' for image in images)
            sheet.write_text(f"<!doctype html><style>{STYLE}</style>{body}", encoding="utf-8")
            visited = Visit(browser, sheet, size=SHEET)
            visited.page.screenshot(
                path=folder / f"{name}.jpg", type="jpeg", quality=60, full_page=True
            )
            visited.context.close()
            print(folder / f"{name}.jpg")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(
            "error: name a folder: python -m tests.browser.screenshots FOLDER [NAME or FILE.html ...]"
        )
    main(Path(sys.argv[1]), sys.argv[2:])
