"""One process at a time trains in a folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from regard.core.errors import RegardError
from regard.training.process import folder_locked


@pytest.mark.skipif(os.name != "posix", reason="there are no such locks")
def test_a_second_one_is_refused_until_the_first_is_done(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "run"
    with (
        folder_locked(folder),
        pytest.raises(RegardError, match=r"Another process is training in '.*run'"),
        folder_locked(folder),
    ):
        pass
    with folder_locked(folder):
        assert list(folder.iterdir()) == []


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")
    with (
        pytest.raises(RegardError, match=r"run' cannot be made a run folder: File exists"),
        folder_locked(tmp_path / "run"),
    ):
        pass
