"""Trees as text: brackets, and lists inside lists with every node once."""

from __future__ import annotations

import dataclasses
from xml.etree import ElementTree

from tests.views.charts.test_autoencoders import RECORD

from regard.core.records.attention import TreeRecord
from regard.views.charts.autoencoders import OPEN_LEVELS, tree_brackets, tree_html


def test_brackets() -> None:
    assert tree_brackets(RECORD) == "((very good) film)"
    words = dataclasses.replace(RECORD, leaves=("(", "good", ")"))
    assert tree_brackets(words) == "((\\( good) \\))"


def test_the_list_follows_the_tree() -> None:
    page = ElementTree.fromstring(tree_html(RECORD).replace(" open>", ">"))
    (root,) = page.findall("li")
    summary = "".join(root.find("details/summary").itertext())  # type: ignore[union-attr]
    assert summary == "very good film good 99%, error 1.50"
    first, second = root.findall("details/ul/li")
    assert first.get("class") == "join"
    assert "".join(second.itertext()) == "film bad 75%"
    assert ["".join(leaf.itertext()) for leaf in first.findall("details/ul/li")] == [
        "very good 50%",
        "good good 100%",
    ]


def test_words_are_escaped() -> None:
    words = dataclasses.replace(RECORD, leaves=("<b>", "&", "film"))
    assert "&lt;b&gt; &amp; film" in tree_html(words)
    assert "<b>" not in tree_html(words)


def test_deep_trees_are_closed_below_the_first_levels() -> None:
    """A chain far deeper than Python may recurse."""
    count = 2000
    record = TreeRecord(
        leaves=("w",) * count,
        joins=tuple((count + place - 1 if place else 0, place + 1) for place in range(count - 1)),
        errors=(0.5,) * (count - 1),
        said=("yes",) * (2 * count - 1),
        sure=(0.7,) * (2 * count - 1),
        title="deep",
    )
    assert tree_brackets(record).startswith("(" * (count - 1) + "w")
    shallow = dataclasses.replace(
        record,
        leaves=record.leaves[:9],
        joins=tuple((9 + place - 1 if place else 0, place + 1) for place in range(8)),
        errors=record.errors[:8],
        said=record.said[:17],
        sure=record.sure[:17],
    )
    assert tree_html(shallow).count("<details open>") == OPEN_LEVELS
    assert tree_html(shallow).count("<details") == 8
