"""Pictures of images: the pixels of the model, at most 128 in both directions."""

from __future__ import annotations

import numpy as np
import pytest

from regard.data.images.picture import MAX_SIDE, image_record


def test_small_images_are_kept() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, size=(5, 7, 3)).astype(np.uint8)
    record = image_record(pixels, name="a.png")
    assert (record.name, record.height, record.width, record.channels) == ("a.png", 5, 7, 3)
    assert b"".join(record.rows()) == pixels.tobytes()


def test_floats_become_bytes() -> None:
    record = image_record(np.array([[[0.0], [0.5], [1.0]]], dtype=np.float32), name="a")
    assert record.rows() == [bytes([0, 128, 255])]


@pytest.mark.parametrize(("size", "expected"), [((300, 600), (64, 128)), ((129, 1), (128, 1))])
def test_large_images_become_smaller(size: tuple[int, int], expected: tuple[int, int]) -> None:
    pixels = np.full((*size, 1), 200, dtype=np.uint8)
    record = image_record(pixels, name="a")
    assert (record.height, record.width) == expected
    assert max(expected) == MAX_SIDE
    assert set(b"".join(record.rows())) == {200}
