"""Images in .npz files: MedMNIST's layout, plain arrays, bad rows, hostile files."""

from __future__ import annotations

import os
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.core.errors import RegardError
from regard.data.readers.arrays import ArrayReader
from regard.data.readers.image_arrays import ImageArrayReader, has_images
from regard.data.readers.text_file import Reader, RowErrors


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.npz"


def images(count: int, *shape: int) -> np.ndarray:
    return np.arange(count * int(np.prod(shape))).astype(np.uint8).reshape(count, *shape)


def read(path: Path) -> list[tuple[tuple[int, ...], str, int]]:
    rows = ImageArrayReader(path=path).rows(errors=RowErrors())
    return [(row.input.shape, row.target, row.line) for row in rows]


def test_medmnist(path: Path) -> None:
    sizes = {"train": 3, "val": 1, "test": 2}
    arrays: dict[str, Any] = {}
    for split, count in sizes.items():
        arrays[f"{split}_images"] = images(count, 2, 3)
        arrays[f"{split}_labels"] = np.arange(count)[:, None]
    np.savez(path, **arrays)
    reader = ImageArrayReader(path=path)
    assert isinstance(reader, Reader)
    assert reader.splits() == ("train", "validation", "test")
    assert [each[1] for each in read(path)] == ["0", "1", "2", "0", "0", "1"]
    [row] = reader.with_split("validation").rows(errors=RowErrors())
    assert row.input.tolist() == [[[0], [1], [2]], [[3], [4], [5]]]
    assert has_images(path)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((4, 5), (4, 5, 1)), ((4, 5, 3), (4, 5, 3)), ((3, 4, 5), (4, 5, 3)), ((2, 3), (2, 3, 1))],
)
@pytest.mark.parametrize("names", [("images", "labels"), ("x", "y"), ("X", "y")])
def test_plain_arrays(
    path: Path, shape: tuple[int, ...], expected: tuple[int, ...], names: tuple[str, str]
) -> None:
    np.savez(path, **{names[0]: images(2, *shape), names[1]: np.array(["a", "b"])})  # type: ignore[arg-type]
    assert read(path) == [(expected, "a", 1), (expected, "b", 2)]
    assert ImageArrayReader(path=path).splits() == ()


def test_bad_rows_are_reported_and_good_ones_used(path: Path) -> None:
    values = np.zeros((6, 2, 2))
    values[1, 0, 0], values[2, 0, 0] = np.nan, np.inf
    np.savez(path, images=values, labels=np.array([1, 1, 1, -1, np.nan, 0.5]))
    errors = RowErrors(skip=True)
    rows = list(ImageArrayReader(path=path).rows(errors=errors))
    assert [(row.target, row.line) for row in rows] == [("1", 1)]
    assert errors.by_reason == {"pixels that are not finite": 2, "invalid label": 3}
    with pytest.raises(RegardError, match=r"a\.npz:2: pixels that are not finite"):
        read(path)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (
            {"images": images(3, 2, 2), "labels": np.zeros(2)},
            r"3 images and labels of shape \(2,\)",
        ),
        ({"images": images(2, 2, 2), "labels": np.zeros((2, 4))}, "one label per image"),
        ({"images": images(2, 2), "labels": np.zeros(2)}, r"have the shape \(2, 2\)"),
        ({"images": images(2, 2, 2, 4), "labels": np.zeros(2)}, "1 or 3 channels"),
        ({"images": images(2, 0, 2), "labels": np.zeros(2)}, "no pixels"),
        ({"images": np.full((1, 2, 2), 7.0), "labels": np.zeros(1)}, "must be from 0 to 1"),
        ({"images": images(1, 2, 2), "labels": np.zeros(1, complex)}, "integers or strings"),
        ({"images": images(1, 2, 2)}, "no array 'labels': it has images"),
        ({"train_images": images(1, 2, 2)}, "no array 'train_labels'"),
        ({"pixels": images(1, 2, 2)}, "no array 'images': it has pixels"),
    ],
)
def test_invalid_arrays(path: Path, arrays: dict[str, Any], message: str) -> None:
    np.savez(path, **arrays)
    with pytest.raises(RegardError, match=message):
        read(path)


class Trap:
    """Unpickling it would write a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (Path.touch, (self.path,))


@pytest.mark.parametrize("name", ["images", "labels"])
def test_objects_are_never_unpickled(path: Path, name: str) -> None:
    trap = path.parent / "unpickled"
    arrays: dict[str, Any] = {"images": images(1, 2, 2), "labels": np.zeros(1)}
    arrays[name] = np.array([Trap(trap)], dtype=object)
    np.savez(path, **arrays)
    for reader in (ImageArrayReader(path=path), ArrayReader(path=path)):
        with pytest.raises(RegardError, match=r"Python objects, which are not unpickled|no array"):
            list(reader.rows(errors=RowErrors()))
    assert not trap.exists()


def test_an_array_that_announces_too_much(path: Path) -> None:
    member = BytesIO()
    header = {"descr": "|u1", "fortran_order": False, "shape": (10**9, 28, 28)}
    np.lib.format.write_array_header_1_0(member, header)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("images.npy", member.getvalue())
        file.writestr("labels.npy", member.getvalue())
    with pytest.raises(RegardError, match=r"'images'.* would take 730 GiB, the maximum is"):
        read(path)


def test_files_that_are_no_archives(path: Path) -> None:
    with pytest.raises(RegardError, match="no file"):
        read(path)
    np.savez_compressed(path, images=images(40, 9, 9), labels=np.zeros(40))
    whole = path.read_bytes()
    for content in (b"", b"text", whole[:300], whole[:60] + b"\xff" * 40 + whole[100:]):
        path.write_bytes(content)
        with pytest.raises(RegardError, match="not a readable"):
            read(path)
    with path.open("wb") as file:
        np.save(file, images(2, 2, 2))
    with pytest.raises(RegardError, match="not a readable"):
        read(path)


@pytest.mark.data
def test_pneumoniamnist() -> None:
    file = Path(os.environ["REGARD_DATA"]) / "pneumoniamnist" / "pneumoniamnist_merged.npz"
    if not file.exists():
        pytest.skip(f"there is no {file}")
    reader = ImageArrayReader(path=file)
    counts = [
        len(list(reader.with_split(split).rows(errors=RowErrors()))) for split in reader.splits()
    ]
    assert counts == [4708, 524, 624]
