"""Trees as figures; singular values against penalties."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from xml.etree import ElementTree

import pytest

from regard.core.errors import RegardError
from regard.core.records.attention import TreeRecord
from regard.views.charts.trees import (
    class_numbers,
    draw_tree,
    node_opacity,
    node_positions,
)

SVG = "{http://www.w3.org/2000/svg}"
RECORD = TreeRecord(
    leaves=("very", "good", "film"),
    merges=((0, 1), (3, 2)),
    errors=(0.25, 1.5),
    predictions=("good", "good", "bad", "good", "good"),
    confidences=(0.5, 1.0, 0.75, 0.9, 0.99),
    title="a & <title>",
)


def texts(path: Path) -> list[str]:
    figure = ElementTree.fromstring(path.read_bytes())
    return ["".join(node.itertext()).strip() for node in figure.iter(f"{SVG}text")]


def test_tree_figure_has_words_errors_classes_and_title(tmp_path: Path) -> None:
    draw_tree(RECORD, path=tmp_path / "tree.svg")
    found = texts(tmp_path / "tree.svg")
    for text in ("very", "good", "film", "0.25", "1.50", "a & <title>", "● good", "● bad"):
        assert found.count(text) == 1, text


def test_merges_are_above_and_between_their_children() -> None:
    at = node_positions(RECORD)
    assert [node.y for node in at[:3]] == [0.0, 0.0, 0.0]
    for node, (left, right) in enumerate(RECORD.merges, start=3):
        assert at[left].x < at[node].x < at[right].x
        assert at[node].y > max(at[left].y, at[right].y)


def test_colour_is_the_class_and_opacity_the_confidence() -> None:
    assert class_numbers(RECORD) == {"bad": 0, "good": 1}
    assert node_opacity(1.0, classes=2) == 1.0
    assert node_opacity(0.5, classes=2) == pytest.approx(0.15)
    assert node_opacity(0.2, classes=2) == pytest.approx(0.15)
    many = dataclasses.replace(RECORD, predictions=tuple("abcde"))
    assert len(set(class_numbers(many).values())) == 5


def test_tree_figure_is_reproducible(tmp_path: Path) -> None:
    for name in ("one.svg", "two.svg"):
        draw_tree(RECORD, path=tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


@pytest.mark.parametrize("count", [1, 2, 52])
def test_trees_of_any_length(tmp_path: Path, count: int) -> None:
    """A left-branching chain, the deepest tree."""
    record = TreeRecord(
        leaves=tuple(f"word{index}" for index in range(count)),
        merges=tuple((count + index - 1 if index else 0, index + 1) for index in range(count - 1)),
        errors=(0.5,) * (count - 1),
        predictions=("yes",) * (2 * count - 1),
        confidences=(0.7,) * (2 * count - 1),
        title="long " * count,
    )
    draw_tree(record, path=tmp_path / "tree.png")
    assert (tmp_path / "tree.png").read_bytes().startswith(b"\x89PNG")
    draw_tree(record, path=tmp_path / "tree.svg")
    assert f"word{count - 1}" in texts(tmp_path / "tree.svg")


def test_other_file_formats_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"\.svg or \.png"):
        draw_tree(RECORD, path=tmp_path / "tree.gif")
