"""Calibrations are kept and found again; a damaged one is told, another machine's is not used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.factories.calibration import SECONDS, made_up_calibration

from regard.core.cost import AttentionShape
from regard.core.errors import RegardError
from regard.costs.calibration import (
    FORMAT,
    Calibration,
    calibration_path,
    keep,
    kept_calibration,
)
from regard.costs.operator_benchmarks import GRIDS
from regard.costs.predict import predict
from regard.costs.trace import trace
from regard.costs.workloads import attention_workload


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    return tmp_path


def test_what_is_kept_is_found_again(cache: Path) -> None:
    assert kept_calibration() is None
    path = keep(made_up_calibration())
    assert path == calibration_path()
    assert cache in path.parents
    assert kept_calibration() == made_up_calibration()


def test_another_machine_or_format_is_not_used() -> None:
    path = keep(made_up_calibration())
    held = json.loads(path.read_text())
    for change in ({"machine": {**held["machine"], "torch": "0.1"}}, {"format": -1}):
        path.write_text(json.dumps({**held, **change}))
        assert kept_calibration() is None


@pytest.mark.parametrize("text", ["", "{", "[1]", "{}", f'{{"format": {FORMAT}}}'])
def test_a_damaged_one_is_told(text: str) -> None:
    path = keep(made_up_calibration())
    path.write_text(text)
    with pytest.raises(RegardError, match="Measure anew: regard cost --calibrate"):
        kept_calibration()


def test_a_table_that_is_missing_numbers_is_damage() -> None:
    path = keep(made_up_calibration())
    held = json.loads(path.read_text())
    held["tables"]["exp"]["seconds"].pop()
    path.write_text(json.dumps(held))
    with pytest.raises(RegardError, match="is damaged"):
        kept_calibration()


def test_every_kind_that_is_measured_is_in_a_calibration() -> None:
    assert set(made_up_calibration().tables) == set(GRIDS)


def test_a_prediction_adds_up_its_kinds() -> None:
    shape = AttentionShape(query_length=64, key_length=64, key_dim=16, value_dim=16)
    calibration: Calibration = made_up_calibration()
    predicted = predict(trace(attention_workload("general", shape, "forward")), calibration)
    assert predicted.seconds == pytest.approx(sum(predicted.by_kind.values()))
    assert predicted.by_kind["product"] >= 64 * 16 * 16 * SECONDS
