"""Hostile strings in every field of every record are text of the page, and nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.factories.documents import make_document_record
from tests.factories.hostile_strings import STRINGS, harmless, with_string
from tests.factories.pages import PAGES, claim_records, dummy_costs
from tests.factories.runs import sequence_run, speech_run, tree_run
from tests.factories.studies import dummy_study

from regard import views

# The small ones; these have every kind of part.
LEFT_OUT = {"study-small", "study-40", "look-language-model", "look-long", "look-unlike"}
DRAWN = {name: page for name, page in PAGES.items() if name not in LEFT_OUT}
# Where a line of text is broken depends on its characters.
LINES = frozenset({"tspan", "wbr"})
FORBIDDEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


class Structure(HTMLParser):
    """Tags with the names of their attributes, in order, and the values that are not plain text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, ...]] = []
        self.code: list[str] = []
        self.data: list[str] = []
        self.values: dict[str, list[str]] = {}
        self.declarations: list[str] = []
        self.text = ""
        self._within = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._within = "data" if ("type", "application/json") in attrs else tag
        if tag not in LINES:
            self.tags.append((tag, *(name for name, _ in attrs)))
        for name, value in attrs:
            self.values.setdefault(name, []).append(value or "")

    def handle_endtag(self, tag: str) -> None:
        self._within = ""
        if tag not in LINES:
            self.tags.append((f"/{tag}",))

    def handle_data(self, data: str) -> None:
        if self._within in ("script", "style"):
            self.code.append(data)
        elif self._within == "data":
            self.data.append(data)
        else:
            self.text += data

    def styles(self) -> list[str]:
        """Values of `style`, without the numbers: widths depend on the characters of a text."""
        return [re.sub(r"[\d.]+", "0", value) for value in self.values.get("style", [])]

    def handle_comment(self, data: str) -> None:
        self.declarations.append(data)

    def handle_decl(self, decl: str) -> None:
        self.declarations.append(decl)

    def unknown_decl(self, data: str) -> None:
        self.declarations.append(data)

    def handle_pi(self, data: str) -> None:
        self.declarations.append(data)


@cache
def plain(name: str, text: str) -> Structure:
    """The page with a harmless string."""
    page = DRAWN[name]
    return Structure(page.draw(with_string(page.record(), text)))


@pytest.mark.parametrize("text", STRINGS.values(), ids=STRINGS)
@pytest.mark.parametrize("name", DRAWN)
def test_page(name: str, text: str) -> None:
    page = DRAWN[name]
    html = page.draw(with_string(page.record(), text))
    html.encode()
    assert FORBIDDEN.findall(html) == []
    found, expected = Structure(html), plain(name, harmless(text))
    assert found.code == expected.code
    assert found.declarations == expected.declarations == ["doctype html"]
    assert found.styles() == expected.styles()
    assert not [attribute for attribute in found.values if attribute.startswith("on")]
    links, sources = found.values.get("href", []), found.values.get("src", [])
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in links)
    assert all(source.startswith("data:audio/wav;base64,") for source in sources)
    identifiers = found.values.get("id", [])
    assert len(identifiers) == len(set(identifiers))
    assert all(re.fullmatch(r"\S+", identifier) for identifier in identifiers)
    assert {"srcdoc", "action", "formaction"}.isdisjoint(found.values)
    assert found.tags == expected.tags
    assert shapes(found) == shapes(expected)


def shapes(page: Structure) -> list[object]:
    """The data of a page, strings and keys left out."""
    return [_shape(json.loads(text)) for text in page.data]


def _shape(value: object) -> object:
    match value:
        case str():
            return "text"
        case dict():
            return [_shape(each) for each in value.values()]
        case list():
            return [_shape(each) for each in value]
    return value


def drawings(text: str) -> dict[str, Callable[[Path], object]]:
    """Every kind of figure file, with the string in every field of its record."""
    study, run, tree = (with_string(each, text) for each in (SMALL, sequence_run(), tree_run()))
    document, speech = with_string(make_document_record(hops=2), text), with_string(SPEECH, text)
    costs, claims = with_string(dummy_costs(), text), with_string(claim_records(), text)
    return {
        "study": lambda path: views.write_figures(study, path.parent),
        "alignment": lambda path: views.draw_alignment(run.alignments[0], path=path),
        "sound": lambda path: views.draw_sound(speech.alignments[0], path=path),
        "tree": lambda path: views.draw_tree(tree.trees[0], path=path),
        "document": lambda path: views.draw_document(document, path=path),
        "costs": lambda path: views.draw_cost_curves(costs, path=path),
        "curves": lambda path: views.draw_claim(claims[0].finding.figure, path=path),
        "matrix": lambda path: views.draw_claim(claims[1].finding.figure, path=path),
    }


SMALL, SPEECH = dummy_study(names=["a", "b"]), speech_run()


@pytest.mark.parametrize("text", STRINGS.values(), ids=STRINGS)
def test_figure_files(text: str, tmp_path: Path) -> None:
    for name, draw in drawings(text).items():
        folder = tmp_path / name.replace(" ", "-")
        folder.mkdir()
        draw(folder / "figure.svg")
        paths = list(folder.glob("*.svg"))
        assert paths
        for path in paths:
            tree = ElementTree.fromstring(path.read_text(encoding="utf-8"))
            tags = {element.tag.partition("}")[2] for element in tree.iter()}
            assert tags <= {
                *("svg", "g", "path", "rect", "circle", "line", "polyline", "polygon", "text"),
                *("tspan", "title", "desc", "style", "defs", "clipPath", "use", "pattern"),
                *("linearGradient", "stop", "image", "mask"),
            }
            attributes = {name for element in tree.iter() for name in element.attrib}
            assert not [name for name in attributes if name.startswith("on")]
