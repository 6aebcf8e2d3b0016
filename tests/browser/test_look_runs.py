"""`regard look` of trained runs of seven kinds and of the pretrained models, in a browser."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.browser.test_keyboard import use_controls
from tests.browser.visits import SCHEMES, SIZES, Visit
from tests.factories import tiny_runs
from tests.factories.tiny_runs import train_tiny

import regard
from regard.core.errors import MissingDependencyError

pytestmark = pytest.mark.stress

# The sections of a run, and what it is shown: a text, or the pattern of a file.
KINDS: dict[str, tuple[Callable[[Path], dict[str, Any]], str]] = {
    "translation": (tiny_runs.translation, "ein Haus am See"),
    "pronunciation": (tiny_runs.seq2seq, "abc"),
    "language model": (tiny_runs.language_model, "ab ba"),
    "document": (tiny_runs.documents, "the plot is dull. a great film."),
    "tree": (tiny_runs.trees, "a great film"),
    "image": (tiny_runs.images, "*.png"),
    "speech": (tiny_runs.speech, "*.wav"),
}
PRETRAINED = {"minilm": "The bank by the river was closed.", "smollm2": "one two three one two"}
# What only some of the kinds have.
PARTS = {"tree": ".tree", "image": "canvas[tabindex].picture", "speech": ".look-sound"}


@pytest.fixture(scope="module")
def look_file(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The page of a kind of run, or of a pretrained model, which is made once."""
    made: dict[str, Path] = {}

    def make(kind: str) -> Path:
        if kind not in made:
            folder = tmp_path_factory.mktemp(kind.replace(" ", "-"))
            made[kind] = folder / "look.html"
            if kind in PRETRAINED:
                options: dict[str, Any] = {"tokens": 2} if kind == "smollm2" else {}
                try:
                    shown = regard.look(kind, PRETRAINED[kind], **options)
                except MissingDependencyError as error:
                    del made[kind]
                    pytest.skip(str(error))
            else:
                sections, value = KINDS[kind]
                run = train_tiny(sections, folder / "run")
                if value.startswith("*"):
                    value = str(next(folder.rglob(value)))
                shown = regard.look(run.path, value)
            shown.save(made[kind])
        return made[kind]

    return make


def use_methods(visited: Visit) -> None:
    """Every method, layer and head."""
    page = visited.page
    fields = page.locator(".look-controls select")
    for method in range(fields.nth(0).locator("option").count()):
        fields.nth(0).select_option(index=method)
        layers = fields.nth(1).locator("option").count() if fields.nth(1).is_visible() else 0
        for layer in range(layers)[:3]:
            fields.nth(1).select_option(index=layer)
            for head in range(fields.nth(2).locator("option").count())[:3]:
                fields.nth(2).select_option(index=head)
                assert page.locator("canvas.map").is_visible()
                assert page.locator(".tiles [aria-selected=true]").count() == 1
                assert "→" in page.locator("#map .map-note").inner_text()


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("kind", [*KINDS, *PRETRAINED])
def test_page(
    kind: str,
    size: dict[str, int],
    scheme: str,
    visit: Callable[..., Visit],
    look_file: Callable[[str], Path],
    axe: str,
) -> None:
    visited = visit(look_file(kind), size=size, scheme=scheme)
    visited.assert_sound()
    assert visited.violations(axe) == []
    if kind in PARTS:
        assert visited.page.locator(PARTS[kind]).is_visible()
    use_methods(visited)
    use_controls(visited)
    visited.assert_sound()
