"""Atomic file writes."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import pytest

from regard.core.atomic_write import atomic_write, remove_temporary_files, validate_writable
from regard.core.errors import RegardError


def test_the_folder_is_created_and_no_temporary_file_is_left(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "page.html"
    atomic_write(path, "ö")
    atomic_write(path, "ü")
    assert path.read_text(encoding="utf-8") == "ü"
    assert list(path.parent.iterdir()) == [path]


def test_a_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"is a folder; .*page"):
        atomic_write(tmp_path, "text")


def test_a_file_in_place_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RegardError, match=r"'.*file' is not a folder"):
        atomic_write(tmp_path / "file" / "page.html", "text")


def test_a_failure_keeps_the_old_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "page.html"
    atomic_write(path, "old")

    def full(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(RegardError, match=r"page.html.* No space left on device"):
        atomic_write(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_pipe_is_an_error(tmp_path: Path) -> None:
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for path in (pipe, link):
        message = rf"'{path}'.* named pipe"
        with pytest.raises(RegardError, match=message):
            atomic_write(path, "text")
    assert stat.S_ISFIFO(pipe.lstat().st_mode)
    assert link.is_symlink()


@pytest.mark.parametrize("there", [True, False])
def test_a_symbolic_link_is_followed(tmp_path: Path, there: bool) -> None:
    target, link = tmp_path / "elsewhere" / "page.html", tmp_path / "link"
    link.symlink_to(target)
    if there:
        atomic_write(target, "old")
    atomic_write(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_circular_links_are_an_error(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.symlink_to(second)
    second.symlink_to(first)
    with pytest.raises(RegardError, match=r"first'"):
        atomic_write(first, "text")
    assert first.is_symlink()


def test_a_read_only_file_is_an_error(tmp_path: Path) -> None:
    """By its mode: root may write every file."""
    path = tmp_path / "page.html"
    path.write_text("old")
    path.chmod(0o444)
    with pytest.raises(RegardError, match=r"page.html.* read-only"):
        atomic_write(path, "new")
    assert path.read_text() == "old"
    assert stat.S_IMODE(path.stat().st_mode) == 0o444


def test_a_replaced_file_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("old")
    path.chmod(0o600)
    atomic_write(path, "new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_name_of_the_maximum_length(tmp_path: Path) -> None:
    longest = os.pathconf(tmp_path, "PC_NAME_MAX")
    atomic_write(tmp_path / ("n" * longest), "text")
    with pytest.raises(RegardError, match=r"File name too long"):
        atomic_write(tmp_path / ("n" * (longest + 1)), "text")


def test_an_unwritable_folder_is_found_beforehand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deny(**kwargs: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "mkstemp", deny)
    with pytest.raises(RegardError, match=r"Permission denied"):
        validate_writable(tmp_path / "folder" / "page.html")


def test_the_check_leaves_no_file(tmp_path: Path) -> None:
    assert validate_writable(tmp_path / "a" / "page.html") == tmp_path / "a" / "page.html"
    assert list(tmp_path.iterdir()) == []


def test_bytes(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    atomic_write(path, b"\xff\r\n\x00")
    assert path.read_bytes() == b"\xff\r\n\x00"


def test_line_endings_are_preserved(tmp_path: Path) -> None:
    atomic_write(tmp_path / "page.html", "a\r\nb\n")
    assert (tmp_path / "page.html").read_bytes() == b"a\r\nb\n"


def test_the_content_is_flushed_before_the_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened: list[str] = []
    sync, replace = os.fsync, Path.replace

    def noted_sync(descriptor: int) -> None:
        happened.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        sync(descriptor)

    def noted_replace(self: Path, target: Path) -> Path:
        happened.append("replace")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(Path, "replace", noted_replace)
    atomic_write(tmp_path / "page.html", "text")
    assert happened == ["file", "replace", "folder"]


def test_temporary_files_of_killed_writers_are_removed(tmp_path: Path) -> None:
    (tmp_path / ".regard.abc").write_text("half")
    (tmp_path / "page.html").write_text("whole")
    remove_temporary_files(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
