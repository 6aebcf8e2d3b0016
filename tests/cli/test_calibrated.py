"""The calibration a verb uses: kept where there is one, measured and kept where not, never lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.factories.calibration import made_up_calibration

from regard.cli.cost import calibrated
from regard.costs import calibration as calibrations


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One number for every time the machine is measured."""
    times: list[int] = []

    def measure(tell: object) -> calibrations.Calibration:
        times.append(1)
        return made_up_calibration()

    monkeypatch.setattr(calibrations, "calibrate", measure)
    monkeypatch.setattr("regard.core.malloc.keep_freed_memory", lambda: True)
    return times


def test_it_is_measured_once_and_kept(
    measured: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    assert calibrated() == calibrated()
    assert len(measured) == 1
    calibrated(anew=True)
    assert len(measured) == 2


def test_what_cannot_be_kept_is_used_all_the_same(
    measured: list[int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "regard").write_text("a file where the folder should be")
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    assert calibrated(anew=True) == made_up_calibration()
    assert "$REGARD_CACHE" in capsys.readouterr().err
