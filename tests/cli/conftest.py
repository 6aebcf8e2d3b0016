"""Runs that the tests of the verbs look into."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.factories.toy_pronunciation import trained_folder, write_dictionary

from regard.runs.folder import RunFolder


@pytest.fixture(scope="session")
def recurrent_run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return trained_folder("recurrent", tmp_path_factory.mktemp("learned"))


@pytest.fixture
def words(tmp_path: Path) -> Path:
    return write_dictionary(tmp_path / "words.dict", count=120)
