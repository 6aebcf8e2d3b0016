"""Figures of what a model attends to: every view of every kind of record, for a page and for print."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.factories import looks
from tests.factories.hostile_strings import STRINGS

from regard.core.errors import RegardError
from regard.core.records.look import Axis, LookRecord
from regard.views.charts.figure_file import PaperWidth
from regard.views.charts.look import default_view, draw_look, shaded_words
from regard.views.charts.look_maps import MAX_ARCS, Choice, bar_chart, subtracted

SVG = "{http://www.w3.org/2000/svg}"
MAPS = ("heads", "map", "row", "heat", "curves")
VIEWS: dict[Callable[[], LookRecord], tuple[str, ...]] = {
    looks.language_model: (*MAPS, "arcs"),
    looks.translation: ("heads", "map", "row", "heat", "arcs"),
    looks.classified_document: ("heat",),
    looks.parsed_tree: ("tree",),
    looks.classified_picture: ("heads", "map", "row", "heat"),
    looks.recognised_speech: ("alignment", "heads", "heat"),
    looks.long_text: ("heads", "map", "row", "heat"),
}
CASES = [(make, view) for make, views in VIEWS.items() for view in views]


def drawn(records: list[LookRecord], folder: Path, view: str | None, **choice: object) -> str:
    path = folder / "picture.svg"
    draw_look(records, path=path, view=view, choice=Choice(**choice))  # type: ignore[arg-type]
    text = path.read_text()
    ElementTree.fromstring(text)
    return text


def words(text: str) -> list[str]:
    root = ElementTree.fromstring(text)
    return ["".join(node.itertext()) for node in root.iter(f"{SVG}text")]


@pytest.mark.parametrize(("make", "view"), CASES)
def test_views_are_valid_and_identical_in_two_runs(
    make: Callable[[], LookRecord], view: str, tmp_path: Path
) -> None:
    texts = set()
    for name in ("a.svg", "b.svg"):
        draw_look([make()], path=tmp_path / name, view=view, width=PaperWidth(85.0))
        texts.add((tmp_path / name).read_text())
    (text,) = texts
    root = ElementTree.fromstring(text)
    assert root.get("width") == "85.00mm"
    box = [float(side) for side in root.get("viewBox", "").split()]
    # Text is as large as in a paper: no chart is shrunk to less than two thirds.
    assert box[2] <= 1.65 * PaperWidth(85.0).units
    ids = [node.get("id") for node in root.iter() if node.get("id")]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("make", VIEWS)
def test_default_views_are_drawn(make: Callable[[], LookRecord], tmp_path: Path) -> None:
    record = make()
    assert default_view(record) in ("tree", "alignment", "heat", "heads", "map")
    draw_look([record], path=tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_choice_of_method_layer_head_and_query(tmp_path: Path) -> None:
    record = looks.translation()
    maps = record.maps[0]
    text = drawn([record], tmp_path, "map", layer=maps.layer, head="2")
    assert f"Attention weights of {maps.layer}, head 2" in text
    queries = record.axes[maps.queries].tokens
    text = drawn([record], tmp_path, "row", layer=maps.layer, query=1)
    assert f"for query 1, {queries[0]}" in " ".join(words(text))
    for choice, message in (
        ({"method": "weight"}, "Unknown method 'weight'"),
        ({"layer": "encoder/99"}, "Unknown attention layer 'encoder/99'"),
        ({"layer": maps.layer, "head": "99"}, "Unknown head of"),
        ({"query": 0}, "--query 0: .* has the queries 1 to"),
        ({"query": 999}, "--query 999"),
    ):
        with pytest.raises(RegardError, match=message):
            drawn([record], tmp_path, "row", **choice)


@pytest.mark.parametrize(
    ("make", "view", "message"),
    [
        (looks.language_model, "tree", "builds no tree"),
        (looks.language_model, "alignment", "no attention over a source"),
        (looks.parsed_tree, "map", "no attention maps"),
        (looks.long_text, "arcs", f"at most {MAX_ARCS}. Use --view map"),
        (looks.parsed_tree, "photo", "Unknown view 'photo'"),
        (looks.parsed_tree, "curves", "was not measured: the model has no attention"),
    ],
)
def test_views_that_a_record_does_not_have(
    make: Callable[[], LookRecord], view: str, message: str, tmp_path: Path
) -> None:
    record = dataclasses.replace(make(), faithfulness=()) if view == "curves" else make()
    with pytest.raises(RegardError, match=message):
        drawn([record], tmp_path, view)
    assert not (tmp_path / "picture.svg").exists()


@pytest.mark.parametrize("view", ["heads", "map", "row", "heat"])
def test_two_models_and_their_difference(view: str, tmp_path: Path) -> None:
    one, other = looks.language_model("runs/a"), looks.language_model("runs/b", seed=1)
    text = drawn([one, other], tmp_path, view)
    found = words(text)
    assert {"runs/a", "runs/b", "runs/a minus runs/b"} <= set(found)
    assert "negative" in text or view == "heat"
    longer = dataclasses.replace(
        other, title="x", axes={"input": Axis(tokens=("a", *one.axes["input"].tokens[1:]))}
    )
    unlike = words(drawn([one, longer], tmp_path, view))
    assert any(each.startswith("There is no difference of runs/a") for each in unlike)


def test_equal_models_have_no_difference(tmp_path: Path) -> None:
    record = looks.language_model("runs/a")
    chart = drawn([record, record], tmp_path, "map").rpartition("runs/a minus runs/a")[2]
    assert "fill-opacity" not in chart.partition('class="cells"')[2].partition("ramp")[2]
    assert subtracted([[1.0, 2.0]], [[0.5, 2.0]]) == [[0.5, 0.0]]


def test_signed_bars_and_words() -> None:
    bars = str(bar_chart([("a", 0.5), ("b", -1.0)]))
    widths = [float(each) for each in re.findall(r'<rect[^>]* width="([0-9.]+)"', bars)]
    assert widths[1] == pytest.approx(2 * widths[0], abs=0.02)
    assert bars.count('class="negative"') == 1
    shaded = str(shaded_words(["good", "bad"], [1.0, -3.0]))
    assert shaded.count('class="negative"') == 1
    opacities = [float(each) for each in re.findall(r'fill-opacity="([0-9.]+)"', shaded)]
    assert opacities[1] > opacities[0] > 0


@pytest.mark.parametrize("text", STRINGS.values(), ids=list(STRINGS))
def test_hostile_tokens(text: str, tmp_path: Path) -> None:
    record = looks.language_model()
    tokens = (text, *record.axes["input"].tokens[1:])
    hostile = dataclasses.replace(
        record, title=text, prediction=text, model=text, axes={"input": Axis(tokens=tokens)}
    )
    for view in ("heads", "map", "row", "heat", "arcs"):
        drawn([hostile, hostile], tmp_path, view)


@pytest.mark.parametrize(
    ("text", "millimetres"), [("85mm", 85.0), ("8.5 cm", 85.0), ("2in", 50.8), ("144pt", 50.8)]
)
def test_widths_in_print(text: str, millimetres: float) -> None:
    assert PaperWidth.parse(text).millimetres == pytest.approx(millimetres)


@pytest.mark.parametrize("text", ["85", "mm", "85px", "-3cm", "1mm", "9e9mm", "1000in", ""])
def test_invalid_widths(text: str) -> None:
    with pytest.raises(RegardError, match=r"--width .*give a width from 20 to 1000 mm"):
        PaperWidth.parse(text)


def test_a_png_for_print_has_300_pixels_per_inch(tmp_path: Path) -> None:
    draw_look([looks.language_model()], path=tmp_path / "a.png", width=PaperWidth(50.8))
    content = (tmp_path / "a.png").read_bytes()
    assert int.from_bytes(content[16:20], "big") == pytest.approx(600, abs=2)
