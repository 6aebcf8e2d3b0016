"""Tree pictures: what is on them, joins above what they join, the same bytes each time."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from xml.etree import ElementTree

import pytest

from regard.core.errors import RegardError
from regard.core.records.attention import TreeRecord
from regard.views.charts.autoencoders import COLOURS, colours, draw_tree, places, strength

SVG = "{http://www.w3.org/2000/svg}"
RECORD = TreeRecord(
    leaves=("very", "good", "film"),
    joins=((0, 1), (3, 2)),
    errors=(0.25, 1.5),
    said=("good", "good", "bad", "good", "good"),
    sure=(0.5, 1.0, 0.75, 0.9, 0.99),
    title="a & <title>",
)


def texts(path: Path) -> list[str]:
    picture = ElementTree.fromstring(path.read_bytes())
    return ["".join(node.itertext()).strip() for node in picture.iter(f"{SVG}text")]


def test_words_errors_classes_and_title_are_on_the_picture(tmp_path: Path) -> None:
    draw_tree(RECORD, path=tmp_path / "tree.svg")
    found = texts(tmp_path / "tree.svg")
    for text in ("very", "good", "film", "0.25", "1.50", "a & <title>", "● good", "● bad"):
        assert found.count(text) == 1, text


def test_joins_stand_above_and_between_what_they_join() -> None:
    at = places(RECORD)
    assert [place.up for place in at[:3]] == [0.0, 0.0, 0.0]
    for node, (left, right) in enumerate(RECORD.joins, start=3):
        assert at[left].across < at[node].across < at[right].across
        assert at[node].up > max(at[left].up, at[right].up)


def test_colours_are_of_classes_and_fade_where_it_is_a_guess() -> None:
    assert colours(RECORD) == {"bad": COLOURS[0], "good": COLOURS[1]}
    assert strength(1.0, classes=2) == 1.0
    assert strength(0.5, classes=2) == pytest.approx(0.15)
    assert strength(0.2, classes=2) == pytest.approx(0.15)
    many = dataclasses.replace(RECORD, said=tuple("abcde"))
    assert len(set(colours(many).values())) == 5


def test_the_same_tree_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one.svg", "two.svg"):
        draw_tree(RECORD, path=tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


@pytest.mark.parametrize("count", [1, 2, 52])
def test_any_length_can_be_drawn(tmp_path: Path, count: int) -> None:
    """A chain to the left: as deep as a tree can be."""
    record = TreeRecord(
        leaves=tuple(f"word{place}" for place in range(count)),
        joins=tuple((count + place - 1 if place else 0, place + 1) for place in range(count - 1)),
        errors=(0.5,) * (count - 1),
        said=("yes",) * (2 * count - 1),
        sure=(0.7,) * (2 * count - 1),
        title="long " * count,
    )
    draw_tree(record, path=tmp_path / "tree.png")
    assert (tmp_path / "tree.png").read_bytes().startswith(b"\x89PNG")
    draw_tree(record, path=tmp_path / "tree.svg")
    assert f"word{count - 1}" in texts(tmp_path / "tree.svg")


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"names no kind of picture.*\.svg or \.png"):
        draw_tree(RECORD, path=tmp_path / "tree.gif")
