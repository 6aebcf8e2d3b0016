"""Figure files: positions, size limit, rcParams, text width."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.core.errors import RegardError
from regard.views.charts import figure_file
from regard.views.charts.figure_file import (
    Sheet,
    figure_settings,
    printable,
    text_width,
    write_figure,
)


def size_in_pixels(path: Path) -> tuple[int, int]:
    """Size from the header of a PNG."""
    header = path.read_bytes()[16:24]
    return int.from_bytes(header[:4]), int.from_bytes(header[4:])


def test_positions_are_in_inches_from_the_top_left() -> None:
    with figure_settings():
        sheet = Sheet(width=8.0, height=4.0)
        axes = sheet.axes(2.0, 1.0, 4.0, 2.0)
        sheet.text(2.0, 1.0, "here")
    assert axes.get_position().bounds == pytest.approx((0.25, 0.25, 0.5, 0.5))
    assert sheet.figure.texts[0].get_position() == pytest.approx((0.25, 0.75))


def test_large_png_has_a_lower_resolution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "p.png"
    with figure_settings():
        write_figure(Sheet(width=2.0, height=1.0).figure, path=path)
        assert size_in_pixels(path) == (320, 160)
        monkeypatch.setattr(figure_file, "MAX_PIXELS", 5000.0)
        write_figure(Sheet(width=2.0, height=1.0).figure, path=path)
    assert size_in_pixels(path) == (100, 50)


def test_file_is_replaced_atomically(tmp_path: Path) -> None:
    path = tmp_path / "p.svg"
    path.write_text("old", encoding="utf-8")
    with figure_settings():
        write_figure(Sheet(width=1.0, height=1.0).figure, path=path)
    assert path.read_bytes().startswith(b"<?xml")
    assert list(tmp_path.iterdir()) == [path]


def test_other_file_formats_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"p\.jpg' .*\.svg or \.png"):
        write_figure(Sheet(width=1.0, height=1.0).figure, path=tmp_path / "p.jpg")


def test_rcparams_are_restored_after_an_error() -> None:
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    with pytest.raises(KeyError), figure_settings():
        raise KeyError
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize(
    ("text", "expected"),
    [("naïve 狗 a b", "naïve 狗 a b"), ("a\nb\x00", "a\\nb\\x00"), ("\ud800", "\\ud800")],
)
def test_unprintable_characters_are_escaped(text: str, expected: str) -> None:
    assert printable(text) == expected


def test_text_width_grows_with_length_and_font_size() -> None:
    with figure_settings():
        assert text_width("", font_size=10.0) == 0.0
        assert text_width("mm", font_size=10.0) == pytest.approx(
            2 * text_width("m", font_size=10.0)
        )
        assert text_width("m", font_size=20.0) > 1.8 * text_width("m", font_size=10.0)
        assert text_width("狗狗", font_size=36.0) >= 1.0
