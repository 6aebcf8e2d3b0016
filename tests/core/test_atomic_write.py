"""Files are written whole or not at all."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import pytest

from regard.core.atomic_write import remove_remains, require_writable, write_whole
from regard.core.errors import RegardError


def test_the_folder_is_made_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "page.html"
    write_whole(path, "ö")
    write_whole(path, "ü")
    assert path.read_text(encoding="utf-8") == "ü"
    assert list(path.parent.iterdir()) == [path]


def test_a_folder_is_refused_with_an_example(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"is a folder; give the path of a file, such as .*page"):
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


def test_a_pipe_is_refused_and_stays_one(tmp_path: Path) -> None:
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for path in (pipe, link):
        message = rf"'{path}' cannot be written: it is a named pipe, and only a regular file is"
        with pytest.raises(RegardError, match=message):
            write_whole(path, "text")
    assert stat.S_ISFIFO(pipe.lstat().st_mode)
    assert link.is_symlink()


@pytest.mark.parametrize("there", [True, False])
def test_a_link_is_kept_and_its_target_written(tmp_path: Path, there: bool) -> None:
    target, link = tmp_path / "elsewhere" / "page.html", tmp_path / "link"
    link.symlink_to(target)
    if there:
        write_whole(target, "old")
    write_whole(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_links_in_a_circle_are_refused(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.symlink_to(second)
    second.symlink_to(first)
    with pytest.raises(RegardError, match=r"first' cannot be written"):
        write_whole(first, "text")
    assert first.is_symlink()


def test_a_read_only_file_is_kept(tmp_path: Path) -> None:
    """By its mode, for root may write it all the same."""
    path = tmp_path / "page.html"
    path.write_text("old")
    path.chmod(0o444)
    with pytest.raises(RegardError, match=r"cannot be written: the file there is read-only"):
        write_whole(path, "new")
    assert path.read_text() == "old"
    assert stat.S_IMODE(path.stat().st_mode) == 0o444


def test_a_replaced_file_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("old")
    path.chmod(0o600)
    write_whole(path, "new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_name_as_long_as_allowed_is_written_and_a_longer_one_refused(tmp_path: Path) -> None:
    longest = os.pathconf(tmp_path, "PC_NAME_MAX")
    write_whole(tmp_path / ("n" * longest), "text")
    with pytest.raises(RegardError, match=r"cannot be written: File name too long"):
        write_whole(tmp_path / ("n" * (longest + 1)), "text")


def test_a_folder_that_takes_no_files_is_known_beforehand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**given: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    with pytest.raises(RegardError, match=r"no file can be made in '.*' \(Permission denied\)"):
        require_writable(tmp_path / "folder" / "page.html")


def test_asking_leaves_nothing_behind(tmp_path: Path) -> None:
    assert require_writable(tmp_path / "a" / "page.html") == tmp_path / "a" / "page.html"
    assert list(tmp_path.iterdir()) == []


def test_bytes_are_written_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    write_whole(path, b"\xff\r\n\x00")
    assert path.read_bytes() == b"\xff\r\n\x00"


def test_text_is_written_with_the_line_ends_it_has(tmp_path: Path) -> None:
    write_whole(tmp_path / "page.html", "a\r\nb\n")
    assert (tmp_path / "page.html").read_bytes() == b"a\r\nb\n"


def test_the_content_is_on_the_disk_before_it_replaces_the_old(
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
    write_whole(tmp_path / "page.html", "text")
    assert happened == ["file", "replace", "folder"]


def test_remains_of_a_killed_writer_are_removed_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / ".regard.abc").write_text("half")
    (tmp_path / "page.html").write_text("whole")
    remove_remains(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
