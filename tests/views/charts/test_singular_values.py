"""Singular values by penalty: points where the values are, lines where the formula is."""

from __future__ import annotations

import math
from pathlib import Path
from xml.etree import ElementTree

import pytest

from regard.core.errors import RegardError
from regard.views.charts.autoencoders import draw_singular_values

SVG = "{http://www.w3.org/2000/svg}"
EIGENVALUES = [8.0, 2.0]
PENALTIES = [0.5, 1.0, 4.0, 16.0]
VALUES = [[math.sqrt(max(0.0, 1 - p / s)) for s in EIGENVALUES] for p in PENALTIES]


def draw(path: Path) -> None:
    draw_singular_values(
        penalties=PENALTIES, singular_values=VALUES, eigenvalues=EIGENVALUES, path=path
    )


def lines(path: Path) -> list[list[tuple[float, float]]]:
    """The corners of the drawn lines, which are the thickest."""
    tree = ElementTree.fromstring(path.read_bytes())
    found = []
    for node in tree.iter(f"{SVG}path"):
        if "stroke-width: 1.6" in node.get("style", ""):
            numbers = [float(word) for word in node.get("d", "").split() if word not in "ML"]
            found.append(list(zip(numbers[::2], numbers[1::2], strict=True)))
    return found


def marks(path: Path) -> set[tuple[float, float]]:
    """Where a small shape was placed: the points, and the ticks of the axes."""
    tree = ElementTree.fromstring(path.read_bytes())
    uses = tree.iter(f"{SVG}use")
    return {(round(float(use.get("x", "")), 1), round(float(use.get("y", "")), 1)) for use in uses}


def test_the_points_lie_on_the_lines(tmp_path: Path) -> None:
    draw(tmp_path / "values.svg")
    drawn = lines(tmp_path / "values.svg")
    assert len(drawn) == 2
    # A line goes from the first penalty to the last, and values were given for both.
    ends = {(round(x, 1), round(y, 1)) for line in drawn for x, y in (line[0], line[-1])}
    assert len(ends) == 3  # they meet on the ground
    assert ends <= marks(tmp_path / "values.svg")


def test_eigenvalues_and_axes_are_named_in_plain_text(tmp_path: Path) -> None:
    draw(tmp_path / "values.svg")
    tree = ElementTree.fromstring((tmp_path / "values.svg").read_bytes())
    texts = {"".join(node.itertext()).strip() for node in tree.iter(f"{SVG}text")}
    assert {"eigenvalue", "8", "2", "penalty λ", "1", "10"} <= texts
    assert not [text for text in texts if "$" in text]


@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_the_same_values_give_the_same_bytes(suffix: str, tmp_path: Path) -> None:
    draw(tmp_path / f"one{suffix}")
    draw(tmp_path / f"two{suffix}")
    assert (tmp_path / f"one{suffix}").read_bytes() == (tmp_path / f"two{suffix}").read_bytes()


def test_an_eigenvalue_of_zero_is_drawn_on_the_ground(tmp_path: Path) -> None:
    draw_singular_values(
        penalties=[1.0, 2.0],
        singular_values=[[0.0], [0.0]],
        eigenvalues=[0.0],
        path=tmp_path / "values.svg",
    )
    (line,) = lines(tmp_path / "values.svg")
    assert len({y for _, y in line}) == 1


@pytest.mark.parametrize(
    ("penalties", "values", "complaint"),
    [
        ([], [], r"The penalties \[\] cannot be drawn.*all finite and above 0"),
        ([0.0, 1.0], [[1.0], [1.0]], r"The penalties \[0\.0, 1\.0\] cannot be drawn"),
        ([math.inf], [[1.0]], r"The penalties \[inf\] cannot be drawn"),
        ([1.0], [[1.0, 1.0]], r"1 penalties and 1 eigenvalues, but rows of \[2\] singular values"),
        ([1.0], [], r"rows of \[\] singular values\. Give a row for each penalty"),
    ],
)
def test_what_cannot_be_drawn_is_refused(
    penalties: list[float], values: list[list[float]], complaint: str, tmp_path: Path
) -> None:
    with pytest.raises(RegardError, match=complaint):
        draw_singular_values(
            penalties=penalties,
            singular_values=values,
            eigenvalues=[3.0],
            path=tmp_path / "values.svg",
        )
    assert not list(tmp_path.iterdir())


def test_other_kinds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"End the name in \.svg or \.png"):
        draw(tmp_path / "values.gif")
