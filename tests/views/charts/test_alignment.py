"""Alignment figures: content, colour scale, layout, reproducibility."""

from __future__ import annotations

import dataclasses
import re
import warnings
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from regard.core.errors import RegardError
from regard.core.records.attention import AlignmentRecord
from regard.views.charts.alignment import (
    best_columns,
    draw_alignment,
    label,
    labels,
    layout_of,
    wrap_title,
)

PNG_START = b"\x89PNG\r\n\x1a\n"
SVG = "{http://www.w3.org/2000/svg}"

RECORD = AlignmentRecord(
    source_tokens=("ein", "Hund", "."),
    output_tokens=("a", "dog"),
    maps={
        "layer 1": (((1.0, 0.0, 0.0), (0.0, 1.0, 0.0)), ((0.0, 0.0, 1.0), (0.0, 0.5, 0.5))),
        "layer 2": (((0.5, 0.5, 0.0), (0.0, 1.0, 0.0)), ((0.5, 0.0, 0.5), (0.0, 1.0, 0.0))),
    },
    title="Ein Hund",
)
ONE_MAP = dataclasses.replace(RECORD, maps={"layer 1": RECORD.maps["layer 1"][:1]})


def of_size(*, source: int, output: int, maps: int = 1) -> AlignmentRecord:
    weights = tuple(tuple(1.0 / (1 + abs(i - j)) for j in range(source)) for i in range(output))
    return AlignmentRecord(
        source_tokens=tuple(f"source{j}" for j in range(source)),
        output_tokens=tuple(f"output{i}" for i in range(output)),
        maps={f"map {number}": (weights,) for number in range(maps)},
        title="sizes",
    )


def drawn(record: AlignmentRecord, folder: Path, **options: Any) -> ElementTree.Element:
    path = folder / "picture.svg"
    draw_alignment(record, path=path, **options)
    return ElementTree.fromstring(path.read_bytes())


def texts(figure: ElementTree.Element) -> list[str]:
    return ["".join(node.itertext()).strip() for node in figure.iter(f"{SVG}text")]


def cell_colours(figure: ElementTree.Element) -> list[str]:
    """The colours of the cells, panel by panel and row by row: the paths with a white edge."""
    styles = [node.get("style", "") for node in figure.iter()]
    found = [re.match(r"fill: (#\w{6}); stroke: #ffffff", style) for style in styles]
    return [match[1] for match in found if match]


def test_tokens_title_and_names_are_in_the_figure(tmp_path: Path) -> None:
    found = texts(drawn(ONE_MAP, tmp_path))
    for text in ("ein", "Hund", ".", "a", "dog", "Ein Hund", "layer 1"):
        assert found.count(text) == 1
    assert {"source", "output", "weight"} <= set(found)


def test_cell_colour_follows_the_weight(tmp_path: Path) -> None:
    record = dataclasses.replace(RECORD, maps={"m": (((0.0, 0.25, 0.5), (0.5, 0.5, 0.125)),)})
    colours = cell_colours(drawn(record, tmp_path))
    assert len(colours) == 6
    light = [int(colour[1:3], 16) for colour in colours]
    assert light[0] > light[5] > light[1] > light[2] == light[3] == light[4]


def test_heads_mean_or_each(tmp_path: Path) -> None:
    mean = drawn(RECORD, tmp_path)
    assert "layer 1 (mean of 2 heads)" in texts(mean)
    assert len(cell_colours(mean)) == 2 * 6
    each = drawn(RECORD, tmp_path, heads="each")
    assert {"layer 1, head 2", "layer 2, head 1"} <= set(texts(each))
    assert len(cell_colours(each)) == 4 * 6


def test_mean_over_heads(tmp_path: Path) -> None:
    mean = dataclasses.replace(
        RECORD,
        maps={
            "layer 1 (mean of 2 heads)": (((0.5, 0.0, 0.5), (0.0, 0.75, 0.25)),),
            "layer 2 (mean of 2 heads)": (((0.5, 0.25, 0.25), (0.0, 1.0, 0.0)),),
        },
    )
    draw_alignment(RECORD, path=tmp_path / "a.svg")
    draw_alignment(mean, path=tmp_path / "b.svg")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_only_left_and_top_panels_are_labelled(tmp_path: Path) -> None:
    found = texts(drawn(RECORD, tmp_path, heads="each"))  # two rows of two panels
    assert found.count("Hund") == 2
    assert found.count("dog") == 2


def test_negative_weights_get_two_colours(tmp_path: Path) -> None:
    record = dataclasses.replace(ONE_MAP, maps={"m": (((-0.5, 0.0, 0.5), (0.0, 1.0, 0.0)),)})
    figure = drawn(record, tmp_path)
    negative, zero, positive = cell_colours(figure)[:3]
    red, blue = int(negative[1:3], 16), int(negative[5:7], 16)
    assert red > blue
    red, blue = int(positive[1:3], 16), int(positive[5:7], 16)
    assert blue > red
    assert zero == "#f6f7f7"
    assert "−0.5" in texts(figure)
    assert "1.0" in texts(figure)


def test_rounding_below_zero_is_not_negative(tmp_path: Path) -> None:
    record = dataclasses.replace(ONE_MAP, maps={"m": (((-1e-9, 0.0, 1.0), (0.0, 1.0, 0.0)),)})
    assert not [text for text in texts(drawn(record, tmp_path)) if text.startswith("−")]


def test_all_zero_weights(tmp_path: Path) -> None:
    record = dataclasses.replace(ONE_MAP, maps={"m": (((0.0,) * 3,) * 2,)})
    assert len(set(cell_colours(drawn(record, tmp_path)))) == 1


@pytest.mark.parametrize("suffix", [".svg", ".png", ".PNG"])
def test_figure_is_reproducible(suffix: str, tmp_path: Path) -> None:
    first, second = tmp_path / f"first{suffix}", tmp_path / "new" / f"second{suffix}"
    draw_alignment(RECORD, path=first)
    draw_alignment(AlignmentRecord.from_json(RECORD.as_json()), path=second)
    assert first.read_bytes() == second.read_bytes()
    assert first.read_bytes().startswith(PNG_START) == (suffix != ".svg")


def test_user_rcparams_are_not_used_or_changed(tmp_path: Path) -> None:
    import matplotlib as mpl

    draw_alignment(ONE_MAP, path=tmp_path / "usual.svg")
    with mpl.rc_context({"font.size": 40.0, "axes.facecolor": "red", "svg.fonttype": "path"}):
        before = dict(mpl.rcParams)
        draw_alignment(ONE_MAP, path=tmp_path / "other.svg")
        assert dict(mpl.rcParams) == before
    assert (tmp_path / "usual.svg").read_bytes() == (tmp_path / "other.svg").read_bytes()


@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_missing_glyphs_raise_no_warnings(
    suffix: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    tokens = ("日本語", "$x$", "العربية", "\x00", "\ud800", "🙂", "<b>&", "", "x" * 400, "$")
    record = AlignmentRecord(
        source_tokens=tokens,
        output_tokens=tokens,
        maps={"狗 $\n": (((0.1,) * len(tokens),) * len(tokens),)},
        title="題名 $\x01 <i>",
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        draw_alignment(record, path=tmp_path / f"p{suffix}")
    assert [str(warning.message) for warning in caught] == []
    assert capfd.readouterr() == ("", "")
    if suffix == ".svg":
        found = texts(ElementTree.fromstring((tmp_path / "p.svg").read_bytes()))
        assert {"日本語", "$x$", "\\x00", "\\ud800", "<b>&", "題名 $\\x01 <i>"} <= set(found)


@pytest.mark.parametrize("name", ["p.pdf", "p", "p.svg.gz"])
def test_other_file_formats_are_rejected(name: str, tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"\.svg or \.png"):
        draw_alignment(RECORD, path=tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_unknown_heads_option_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"'eahc'. Did you mean 'each'\? Choose from: each, mean"):
        draw_alignment(RECORD, path=tmp_path / "p.svg", heads="eahc")


def test_unwritable_path_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RegardError, match="cannot be written"):
        draw_alignment(ONE_MAP, path=tmp_path / "file" / "p.svg")


def test_many_cells_are_rasterised(tmp_path: Path) -> None:
    few = list(drawn(of_size(source=15, output=14), tmp_path).iter(f"{SVG}image"))
    many = list(drawn(of_size(source=150, output=140), tmp_path).iter(f"{SVG}image"))
    assert len(many) == len(few) + 1
    assert (tmp_path / "picture.svg").stat().st_size < 500_000


def layout(record: AlignmentRecord, *, columns: int | None = None) -> Any:
    return layout_of(
        source_tokens=record.source_tokens,
        output_tokens=record.output_tokens,
        names=list(record.maps),
        title=record.title,
        columns=columns,
    )


@pytest.mark.parametrize("size", [1, 5, 20, 60])
def test_up_to_sixty_tokens_have_labels_that_fit(size: int) -> None:
    found = layout(of_size(source=size, output=size))
    assert len(found.source.texts) == len(found.output.texts) == size
    assert 7.0 <= found.font_size <= 0.75 * 72 * found.cell


def test_more_tokens_have_fewer_labels() -> None:
    assert labels([str(number) for number in range(61)]).texts == [
        str(number) for number in range(0, 61, 2)
    ]
    sixty, many = layout(of_size(source=60, output=60)), layout(of_size(source=600, output=9))
    assert many.panel_width == pytest.approx(sixty.panel_width)
    assert many.source.positions[:3] == [0, 10, 20]


def test_panels_are_inside_the_figure_and_do_not_overlap() -> None:
    record = of_size(source=7, output=3, maps=5)
    found = layout(record)
    corners = [found.corner(number) for number in range(5)]
    assert len(set(corners)) == 5
    assert found.column_pitch > found.panel_width
    assert found.row_pitch > found.panel_height
    for left, top in corners:
        assert 0 < left < left + found.panel_width < found.bar_left
        assert 0 < top < top + found.panel_height < found.height
    assert found.bar_left < found.width


def test_one_row_per_map_and_one_column_per_head() -> None:
    found = layout(of_size(source=4, output=4, maps=6), columns=2)
    assert found.corner(0)[1] == found.corner(1)[1] < found.corner(2)[1]
    assert found.corner(0)[0] == found.corner(4)[0] < found.corner(5)[0]


def test_words_are_rotated_and_letters_are_not() -> None:
    letters = dataclasses.replace(ONE_MAP, source_tokens=("a", "b", "</s>"))
    assert layout(letters).source_rotations == [0, 0, 90]
    assert layout(of_size(source=3, output=3)).source_rotations == [90, 90, 90]


def test_best_number_of_columns() -> None:
    found = [best_columns(count, width=1.0, height=1.0) for count in (1, 2, 3, 4, 6, 12)]
    assert found == [1, 2, 3, 2, 3, 4]


def test_labels_are_truncated_and_spaces_visible() -> None:
    assert label("x" * 40) == "x" * 17 + "…"
    assert label(" a\t") == "␣a\\t"


def test_long_title_is_wrapped() -> None:
    lines = wrap_title("a rose is " * 100, width=4.0).split("\n")
    assert len(lines) == 3
    assert lines[-1].endswith(" …")
    assert wrap_title(" \n ", width=4.0) == ""
