"""Files are written whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.core.errors import RegardError
from regard.views.whole_file import write_whole


def test_the_folder_is_made_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "page.html"
    write_whole(path, "ö")
    write_whole(path, "ü")
    assert path.read_text(encoding="utf-8") == "ü"
    assert list(path.parent.iterdir()) == [path]


def test_a_folder_is_refused_with_an_example(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"is a folder; give the path of a file, such as .*demo"):
        write_whole(tmp_path, "text")


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RegardError, match=r"cannot be written: '.*file' is not a folder\. Choose"):
        write_whole(tmp_path / "file" / "page.html", "text")


def test_a_failure_leaves_the_old_text_and_no_remains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "page.html"
    write_whole(path, "old")

    def full(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(RegardError, match=r"cannot be written: No space left on device"):
        write_whole(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
