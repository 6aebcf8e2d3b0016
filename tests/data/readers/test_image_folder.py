"""Image folders: layouts, splits, bad rows, and paths that lead out of the folder."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.factories.images import png_header, write_classes, write_image

from regard.core.errors import RegardError
from regard.data.readers.image_folder import ImageFolderReader
from regard.data.readers.text_file import Reader, RowErrors

GREY = np.zeros((2, 2), dtype=np.uint8)


def read(folder: Path) -> list[tuple[str, str, int]]:
    rows = ImageFolderReader(path=folder).rows(errors=RowErrors())
    return [(row.input.name, row.target, row.line) for row in rows]


def test_label_folders_and_splits(tmp_path: Path) -> None:
    for name in ("train/cat/1.png", "train/dog/2.JPG", "val/cat/3.bmp", "test/dog/4.webp"):
        write_image(tmp_path / name, GREY)
    (tmp_path / "train" / "cat" / "notes.txt").write_text("not an image")
    reader = ImageFolderReader(path=tmp_path)
    assert isinstance(reader, Reader)
    assert reader.splits() == ("train", "validation", "test")
    assert read(tmp_path)[:2] == [("train/cat/1.png", "cat", 1), ("train/dog/2.JPG", "dog", 2)]
    found = reader.with_split("test").rows(errors=RowErrors())
    assert [row.input.name for row in found] == ["test/dog/4.webp"]


@pytest.mark.parametrize("name", ["metadata.csv", "metadata.jsonl"])
def test_metadata(tmp_path: Path, name: str) -> None:
    rows = [{"file_name": "a.png", "label": 1}, {"file_name": "deep/b.png", "label": 0}]
    text = "\n".join(map(json.dumps, rows))
    if name.endswith("csv"):
        text = "file_name,label\na.png,1\ndeep/b.png,0\n"
    for each in rows:
        write_image(tmp_path / str(each["file_name"]), GREY)
    (tmp_path / name).write_text(text)
    assert [row[:2] for row in read(tmp_path)] == [("a.png", "1"), ("deep/b.png", "0")]


def test_bad_rows_are_reported_and_good_ones_used(tmp_path: Path) -> None:
    folder = tmp_path / "images"
    files = {
        "good.png": None,
        "text.png": b"some text",
        "bomb.png": png_header(width=60_000, height=60_000),
    }
    for name, content in files.items():
        path = write_image(folder / name, GREY)
        if content is not None:
            path.write_bytes(content)
    write_image(tmp_path / "outside.png", GREY)
    (folder / "link.png").symlink_to(tmp_path / "outside.png")
    lines = [
        "file_name,label",
        "good.png,a",
        "text.png,a",
        "bomb.png,a",
        "../outside.png,a",
        "/etc/passwd,a",
        "link.png,a",
        "absent.png,a",
        "good.png,",
    ]
    (folder / "metadata.csv").write_text("\n".join(lines) + "\n")
    errors = RowErrors(skip=True)
    rows = list(ImageFolderReader(path=folder).rows(errors=errors))
    assert [row.input.name for row in rows] == ["good.png"]
    found = {row.line: row.reason for row in errors.rows}
    expected = {
        3: "not an image: 'text.png'",
        4: "too large: 'bomb.png'",
        5: "path with '..': '../outside.png'",
        6: "absolute path: '/etc/passwd'",
        7: "link out of the folder: 'link.png'",
        8: "missing file: 'absent.png'",
        9: "missing label: 'good.png'",
    }
    assert set(found) == set(expected)
    for line, reason in expected.items():
        assert found[line].startswith(reason)
    with pytest.raises(RegardError, match=r"metadata\.csv:3: not an image.*--skip-bad-rows"):
        read(folder)


def test_folders_without_images(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"is empty\. An image folder has one of these: metadata"):
        read(tmp_path)
    (tmp_path / "a").mkdir()
    with pytest.raises(RegardError, match="no known image layout"):
        read(tmp_path)
    (tmp_path / "metadata.csv").write_text("file_name,caption\na.png,b\n")
    with pytest.raises(
        RegardError, match=r"columns file_name, caption\. It needs file_name, and label\."
    ):
        read(tmp_path)
    with pytest.raises(RegardError, match="no folder"):
        read(tmp_path / "absent")
    file = write_image(tmp_path / "a.png", GREY)
    with pytest.raises(RegardError, match="is a file; images are read from a folder"):
        read(file)


def test_all_files_damaged(tmp_path: Path) -> None:
    folder = write_classes(tmp_path, count=1)
    for path in folder.rglob("*.png"):
        path.write_bytes(b"")
    with pytest.raises(RegardError, match=r"no valid image \(2 errors; the first: .*not an image"):
        list(ImageFolderReader(path=folder).rows(errors=RowErrors(skip=True)))
