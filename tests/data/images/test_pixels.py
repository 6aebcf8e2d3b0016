"""Pixels of files and arrays: bit depths, palettes, alpha, sizes, damaged and hostile files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.factories.images import encoded, png_header, write_image

from regard.core.errors import MissingDependencyError, RegardError
from regard.data.images import pixels
from regard.data.images.pixels import (
    ImageFile,
    ImageFileError,
    as_pixels,
    prepared,
    read_image,
    scaled_pixels,
)

RED, GREEN = (255, 0, 0), (0, 255, 0)


def read(tmp_path: Path, image: Any, kind: str = "PNG", **options: Any) -> np.ndarray:
    path = tmp_path / f"image.{kind.lower()}"
    path.write_bytes(encoded(image, kind, **options))
    return read_image(path)


def test_grey_and_colour(tmp_path: Path) -> None:
    grey = np.array([[0, 128], [255, 7]], dtype=np.uint8)
    assert np.array_equal(read(tmp_path, Image.fromarray(grey)), grey[..., None])
    colour = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    assert np.array_equal(read(tmp_path, Image.fromarray(colour)), colour)
    bits = read(tmp_path, Image.fromarray(grey > 100))
    assert bits[..., 0].tolist() == [[0, 255], [255, 0]]


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_16_bits_are_scaled_by_their_range(tmp_path: Path, kind: str) -> None:
    values = np.array([[0, 65_535], [13_107, 255]], dtype=np.uint16)
    found = read(tmp_path, Image.fromarray(values), kind)
    assert found.dtype == np.float32
    expected = np.array([[0.0, 1.0], [0.2, 255 / 65_535]])
    np.testing.assert_allclose(found[..., 0], expected, atol=1e-7)


def test_a_palette_becomes_rgb(tmp_path: Path) -> None:
    image = Image.new("P", (2, 1))
    image.putpalette([*RED, *GREEN])
    image.putpixel((1, 0), 1)
    assert read(tmp_path, image).tolist() == [[list(RED), list(GREEN)]]


def test_transparent_becomes_white(tmp_path: Path) -> None:
    image = Image.new("RGBA", (3, 1), (255, 0, 0, 255))
    image.putpixel((1, 0), (255, 0, 0, 0))
    image.putpixel((2, 0), (0, 0, 0, 128))
    found = read(tmp_path, image)
    assert found[0, :2].tolist() == [list(RED), [255, 255, 255]]
    assert found[0, 2].tolist() == pytest.approx([127] * 3, abs=1)
    grey = read(tmp_path, Image.new("LA", (1, 1), (9, 0)))
    assert grey.tolist() == [[[255]]]


def test_cmyk_becomes_rgb(tmp_path: Path) -> None:
    found = read(tmp_path, Image.new("CMYK", (8, 8), (0, 255, 255, 0)), "JPEG", quality=100)
    assert found[4, 4].tolist() == pytest.approx(RED, abs=4)


def test_floating_point_files(tmp_path: Path) -> None:
    image = Image.fromarray(np.array([[0.25, 1.0]], dtype=np.float32))
    assert read(tmp_path, image, "TIFF")[..., 0].tolist() == [[0.25, 1.0]]
    for values, message in (([[np.nan]], "not finite"), ([[3.0]], "from 0 to 3, but must")):
        with pytest.raises(ImageFileError, match=message):
            read(tmp_path, Image.fromarray(np.array(values, dtype=np.float32)), "TIFF")


def test_orientation_of_cameras_is_applied(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees
    image = Image.fromarray(np.zeros((2, 5), dtype=np.uint8))
    assert read(tmp_path, image, "JPEG", exif=exif).shape == (5, 2, 1)


def damaged(tmp_path: Path) -> dict[str, tuple[bytes, str]]:
    whole = encoded(Image.fromarray(np.random.default_rng(0).integers(0, 255, (40, 40), np.uint8)))
    frames = [Image.new("L", (2, 2), level) for level in (0, 90, 200)]
    moving = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    return {
        "truncated.png": (whole[: len(whole) // 2], "damaged file"),
        "text.png": (b"I am a text", "not an image: its content is none of PNG"),
        "empty.png": (b"", "not an image"),
        "bomb.png": (png_header(width=50_000, height=50_000), "too large: over 89,478,485 pixels"),
        "large.png": (png_header(width=10_000, height=10_000), "too large"),
        "short.png": (png_header(width=100, height=100), "damaged file"),
        "moving.gif": (moving, "animated image: 3 frames"),
        "script.eps": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not an image"),
    }


def test_damaged_files(tmp_path: Path) -> None:
    for name, (content, message) in damaged(tmp_path).items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ImageFileError, match=message) as found:
            read_image(tmp_path / name)
        assert name in str(found.value)
        assert "\n" not in str(found.value)


def test_missing_files_and_pipes(tmp_path: Path) -> None:
    with pytest.raises(ImageFileError, match="missing file"):
        ImageFile("a", tmp_path / "absent.png").facts()
    with pytest.raises(ImageFileError, match="not an image: it is a folder"):
        read_image(tmp_path)
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(ImageFileError, match="no regular file"):
        read_image(tmp_path / "pipe.png")


def test_without_pillow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'regard\[images\]'"):
        read_image(tmp_path / "a.png")


def test_one_picture_in_two_formats_has_one_hash(tmp_path: Path) -> None:
    values = np.arange(16, dtype=np.uint8).reshape(4, 4)
    files = [write_image(tmp_path / name, values) for name in ("a.png", "b.bmp", "c.tiff")]
    assert len({ImageFile(path.name, path).content_hash() for path in files}) == 1
    write_image(tmp_path / "a.png", values + 1)
    hashes = {ImageFile(path.name, path).content_hash() for path in files}
    assert len(hashes) == 2
    wide = ImageFile("d", write_image(tmp_path / "d.png", values.reshape(2, 8)))
    assert wide.content_hash() not in hashes


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.array([0, 7, 255], dtype=np.int64), [0, 7, 255]),
        (np.array([True, False]), [255, 0]),
        (np.array([0, 65_535], dtype=np.uint16), [0.0, 1.0]),
        (np.array([0.0, 0.5], dtype=np.float64), [0.0, 0.5]),
    ],
)
def test_arrays_are_scaled(values: np.ndarray, expected: list[float]) -> None:
    assert scaled_pixels(values).tolist() == expected


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.array([256]), "from 0 to 256, but must be from 0 to 255"),
        (np.array([-1]), "from -1 to 0"),
        (np.array([0.0, 255.0]), "from 0 to 255, but must be from 0 to 1"),
        (np.array(["a"]), "pixels are numbers"),
    ],
)
def test_arrays_out_of_range(values: np.ndarray, message: str) -> None:
    with pytest.raises(RegardError, match=message):
        scaled_pixels(values)


def test_shapes_of_arrays() -> None:
    assert as_pixels(np.zeros((3, 5), dtype=np.uint8)).shape == (3, 5, 1)
    for shape in ((3,), (2, 2, 4), (1, 2, 2, 3)):
        with pytest.raises(RegardError, match="an image is"):
            as_pixels(np.zeros(shape, dtype=np.uint8))


def test_channels_are_converted() -> None:
    grey = np.array([[[10], [20]]], dtype=np.uint8)
    assert prepared(grey, channels=3, size=None).tolist() == [[[10] * 3, [20] * 3]]
    colours = np.array([[RED, GREEN, (100, 100, 100)]], dtype=np.uint8)
    # 0.299 · 255 and 0.587 · 255
    assert prepared(colours, channels=1, size=None)[..., 0].tolist() == [[76, 150, 100]]


def test_resizing_averages() -> None:
    checks = np.array([[0, 100, 0, 100], [100, 0, 100, 0]] * 2, dtype=np.uint8)[..., None]
    small = prepared(checks, channels=1, size=(1, 1))
    assert small.tolist() == [[[50]]]
    assert prepared(np.full((2, 2, 3), 9, np.uint8), channels=3, size=(3, 5)).shape == (3, 5, 3)
    unit = prepared(np.ones((2, 2, 1), np.float32), channels=1, size=(4, 4))
    assert unit.dtype == np.float32
    assert pixels.unit_scale(np.array([255], np.uint8)) == 1.0
