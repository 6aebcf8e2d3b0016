"""Folder locks and signal handling."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from regard.core.errors import RegardError
from regard.training.process import (
    SIGNALS,
    EvaluationInterruptedError,
    Interruption,
    folder_lock,
    is_locked,
)


@pytest.mark.skipif(os.name != "posix", reason="needs flock")
def test_second_lock_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "run"
    with (
        folder_lock(folder),
        pytest.raises(RegardError, match=r"Another process is training in '.*run'"),
        folder_lock(folder),
    ):
        pass
    with folder_lock(folder):
        assert list(folder.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="needs flock")
def test_lock_is_seen_without_being_disturbed(tmp_path: Path) -> None:
    assert not is_locked(tmp_path)
    with folder_lock(tmp_path):
        assert is_locked(tmp_path)
        assert is_locked(tmp_path)
    assert not is_locked(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_file_in_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")
    with (
        pytest.raises(RegardError, match=r"run' cannot be created"),
        folder_lock(tmp_path / "run"),
    ):
        pass


@pytest.mark.parametrize("number", SIGNALS)
def test_first_signal_sets_request_second_raises(number: signal.Signals) -> None:
    with Interruption() as interruption:
        found = [interruption.requested]
        signal.raise_signal(number)
        found.append(interruption.requested)
        assert found == [False, True]
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)


def test_handlers_are_restored() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    with Interruption():
        assert [signal.getsignal(number) for number in SIGNALS] != before
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_interruptible_block_raises() -> None:
    with Interruption() as interruption:
        with interruption.interruptible():
            pass
        with pytest.raises(EvaluationInterruptedError), interruption.interruptible():
            signal.raise_signal(signal.SIGINT)
        assert interruption.requested
        with pytest.raises(EvaluationInterruptedError), interruption.interruptible():
            pytest.fail("a stop was requested")
