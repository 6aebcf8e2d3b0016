"""The table of right and said labels: counts, shares, shades, and no label gets out as markup."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from regard.core.errors import RegardError
from regard.views.charts.classification import confusion_table

LABELS = ["good", "<bad>", "none"]
COUNTS = [[1600, 400, 0], [9, 1, 0], [0, 0, 0]]


def rows() -> list[ElementTree.Element]:
    drawn = ElementTree.fromstring(f"<div>{confusion_table(labels=LABELS, counts=COUNTS)}</div>")
    return list(drawn.iter("tr"))


def test_every_cell_says_what_it_counts() -> None:
    head, *body = rows()
    assert [cell.findtext("span") for cell in head.findall("th")[:-1]] == LABELS
    assert [row.findtext("th") for row in body] == LABELS
    texts = [[cell.text or "" for cell in row.findall("td")] for row in body]
    assert texts == [
        ["1\u202f600", "400", "", "80\u202f%"],
        ["9", "1", "", "10\u202f%"],
        ["", "", "", "–"],
    ]
    titles = [cell.get("title") for cell in body[1].findall("td")]
    assert titles[0] == "<bad>, taken for good: 9 of 10 (90.0 %)"
    assert titles[1] == "<bad>, said right: 1 of 10 (10.0 %)"


def test_shades_follow_the_share_of_the_row() -> None:
    body = rows()[1:]
    styles = [[cell.get("style") or "" for cell in row.findall("td")] for row in body]
    strengths = [
        [int(found[1]) if (found := re.search(r"(\d+)%", style)) else 0 for style in row]
        for row in styles
    ]
    assert strengths[1][0] > strengths[0][0] > strengths[0][1] > strengths[1][1] > 0
    assert strengths[2] == [0, 0, 0, 0]
    assert "--plus" in styles[0][0]
    assert "--minus" in styles[0][1]


@pytest.mark.parametrize("counts", [[[1]], [[1, 2], [3, 4]], [[1, 2, 3]] * 2])
def test_counts_that_do_not_fit_are_refused(counts: list[list[int]]) -> None:
    with pytest.raises(RegardError, match="There are 3 labels, but the counts are not 3 rows"):
        confusion_table(labels=LABELS, counts=counts)
