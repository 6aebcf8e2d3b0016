"""Image files, valid and hostile."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image


def write_image(path: Path, pixels: np.ndarray, **options: Any) -> Path:
    """A file of uint8 pixels (height, width) or (height, width, channels), in a folder that is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, **options)
    return path


def bright(*, seed: int, level: int, size: tuple[int, int] = (4, 4)) -> np.ndarray:
    """A grey image of about this level."""
    noise = np.random.default_rng(seed).integers(0, 30, size=size)
    return (level + noise).astype(np.uint8)


def write_classes(folder: Path, *, count: int = 12) -> Path:
    """Two labels of different brightness."""
    for number in range(count):
        write_image(folder / "dark" / f"{number}.png", bright(seed=number, level=10))
        write_image(folder / "light" / f"{number}.png", bright(seed=100 + number, level=200))
    return folder


def png_header(*, width: int, height: int) -> bytes:
    """A PNG file that announces any size, with almost no data."""

    def chunk(name: bytes, content: bytes) -> bytes:
        checksum = struct.pack(">I", zlib.crc32(name + content))
        return struct.pack(">I", len(content)) + name + content + checksum

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    data = chunk(b"IDAT", zlib.compress(b"\0" * 100))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + data + chunk(b"IEND", b"")


def encoded(image: Any, kind: str = "PNG", **options: Any) -> bytes:
    """The bytes of a Pillow image in a file."""
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()
