"""The manifest of a folder: changes are noticed, and a kill at any point leaves a valid folder."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from regard.core.atomic_write import atomic_write
from regard.core.errors import RegardError
from regard.core.manifest import Manifest, content_state


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    found = Manifest(tmp_path / "folder")
    found.folder.mkdir()
    found.create(key="k")
    found.replace(found.folder / "a.json", "one")
    return found


def test_written_file_is_valid(manifest: Manifest) -> None:
    content = manifest.verify(["a.json", "b.json"])
    assert content.keys == ["k"]
    assert content.files == {"a.json": [content_state(b"one")]}
    assert manifest.read_bytes(manifest.folder / "a.json") == b"one"


@pytest.mark.parametrize("text", ["onf", "", "one\n"])
def test_changed_file_is_refused(manifest: Manifest, text: str) -> None:
    (manifest.folder / "a.json").write_text(text)
    with pytest.raises(RegardError, match=r"a\.json' was modified.*Restore it"):
        manifest.verify(["a.json"])
    with pytest.raises(RegardError, match=r"a\.json' was modified"):
        manifest.read_bytes(manifest.folder / "a.json")


def test_missing_and_added_files_are_refused(manifest: Manifest) -> None:
    (manifest.folder / "b.json").write_text("")
    with pytest.raises(RegardError, match=r"b\.json' was added"):
        manifest.verify(["b.json"])
    (manifest.folder / "a.json").unlink()
    with pytest.raises(RegardError, match=r"a\.json' is missing"):
        manifest.verify(["a.json"])
    manifest.verify(["a.json"], may_be_missing=["a.json"])


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace('"k"', '"j"'),
        lambda text: text.replace('"size": 3', '"size": 4'),
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\ufeff" + text,
        lambda text: text.replace("{", '{"keys": [],', 1),
        lambda text: json.dumps({**json.loads(text), "files": {}}),
        lambda _: "[" * 100_000,
        lambda _: "null",
        lambda _: "{}",
        lambda _: "",
        lambda _: '{"checksum": NaN}',
    ],
)
def test_changed_manifest_is_refused(manifest: Manifest, change: Any) -> None:
    manifest.path.write_text(change(manifest.path.read_text()))
    with pytest.raises(RegardError, match=r"manifest\.json' was modified or damaged"):
        manifest.read()


@pytest.mark.skipif(os.name != "posix", reason="needs links and pipes")
def test_links_and_pipes_are_refused(manifest: Manifest) -> None:
    path = manifest.folder / "a.json"
    path.rename(manifest.folder / "kept")
    path.symlink_to(manifest.folder / "kept")
    for use in (lambda: manifest.verify(["a.json"]), lambda: manifest.replace(path, "two")):
        with pytest.raises(RegardError, match=r"a\.json' is a symbolic link"):
            use()
    assert (manifest.folder / "kept").read_text() == "one"
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(RegardError, match=r"a\.json' cannot be read \(it is not a regular file"):
        manifest.verify(["a.json"])


def test_log_may_grow(manifest: Manifest) -> None:
    log = manifest.folder / "log"
    log.write_text("12")
    manifest.replace(manifest.folder / "a.json", "two", logs={"log": content_state(b"12")})
    log.write_text("123")
    manifest.verify(["log"])
    assert manifest.read_bytes(log) == b"123"
    manifest.verify_logs({"log": 2})
    log.write_text("13")
    for use in (lambda: manifest.verify(["log"]), lambda: manifest.verify_logs({"log": 2})):
        with pytest.raises(RegardError, match="log' was modified"):
            use()


def test_complete_log_may_not_grow(manifest: Manifest) -> None:
    log = manifest.folder / "log"
    log.write_text("12")
    manifest.replace(manifest.folder / "a.json", "two", complete_logs=["log"])
    manifest.verify(["log"])
    log.write_text("123")
    with pytest.raises(RegardError, match="log' was modified"):
        manifest.verify(["log"])


class Killed(BaseException):
    """In place of SIGKILL."""


@pytest.mark.parametrize("writes", range(4))
def test_kill_between_two_writes(
    manifest: Manifest, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    """Manifest, file, manifest: after any of them the folder is valid, and can be written again."""
    left = [writes]

    def dying(*arguments: Any) -> None:
        if not left[0]:
            raise Killed
        left[0] -= 1
        atomic_write(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr("regard.core.manifest.atomic_write", dying)
        if writes < 3:
            with pytest.raises(Killed):
                manifest.replace(manifest.folder / "a.json", "two")
        else:
            manifest.replace(manifest.folder / "a.json", "two")
    manifest.verify(["a.json"])
    expected = "two" if writes >= 2 else "one"
    assert manifest.read_bytes(manifest.folder / "a.json").decode() == expected
    manifest.replace(manifest.folder / "a.json", "three")
    assert manifest.read().files == {"a.json": [content_state(b"three")]}


def test_writer_meanwhile_is_no_error(manifest: Manifest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that has read the manifest before a writer replaced the file reads it again."""
    path, parse = manifest.folder / "a.json", Manifest._parse

    def written_meanwhile(self: Manifest, text: str) -> Any:
        monkeypatch.undo()
        Manifest(manifest.folder).replace(path, "two")
        return parse(self, text)

    monkeypatch.setattr(Manifest, "_parse", written_meanwhile)
    assert manifest.read_bytes(path) == b"two"


def test_removed_folder_is_not_written_again(manifest: Manifest, tmp_path: Path) -> None:
    shutil.rmtree(manifest.folder)
    with pytest.raises(RegardError, match="has no manifest"):
        manifest.replace(manifest.folder / "a.json", "two")
    assert not manifest.folder.exists()


def test_exchanged_folder_is_not_written(manifest: Manifest, tmp_path: Path) -> None:
    shutil.copytree(manifest.folder, tmp_path / "copy")
    manifest.folder.rename(tmp_path / "moved")
    (tmp_path / "copy").rename(manifest.folder)
    with pytest.raises(RegardError, match="exchanged while it was used"):
        manifest.replace(manifest.folder / "a.json", "two")
    assert (manifest.folder / "a.json").read_text() == "one"
