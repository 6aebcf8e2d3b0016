"""Saving and loading calibrations; damaged files; other machines; busy machines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.factories.calibration import SECONDS, dummy_calibration

from regard.core.cost import AttentionShape
from regard.core.errors import RegardError
from regard.costs.calibration import (
    FORMAT,
    Calibration,
    Probe,
    busy_reason,
    calibration_path,
    load_calibration,
    probe,
    save_calibration,
)
from regard.costs.operator_benchmarks import GRIDS
from regard.costs.predict import predict
from regard.costs.trace import trace
from regard.costs.workloads import attention_workload


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    return tmp_path


def test_a_saved_calibration_is_loaded(cache: Path) -> None:
    assert load_calibration() is None
    path = save_calibration(dummy_calibration())
    assert path == calibration_path()
    assert cache in path.parents
    assert load_calibration() == dummy_calibration()


def test_another_machine_or_format_is_not_used() -> None:
    path = save_calibration(dummy_calibration())
    record = json.loads(path.read_text())
    for change in ({"machine": {**record["machine"], "torch": "0.1"}}, {"format": -1}):
        path.write_text(json.dumps({**record, **change}))
        assert load_calibration() is None


@pytest.mark.parametrize("text", ["", "{", "[1]", "{}", f'{{"format": {FORMAT}}}'])
def test_a_damaged_file_is_an_error(text: str) -> None:
    path = save_calibration(dummy_calibration())
    path.write_text(text)
    with pytest.raises(RegardError, match="calibration"):
        load_calibration()


def test_a_table_with_missing_values_is_damaged() -> None:
    path = save_calibration(dummy_calibration())
    record = json.loads(path.read_text())
    record["tables"]["exp"]["seconds"].pop()
    path.write_text(json.dumps(record))
    with pytest.raises(RegardError, match="is damaged"):
        load_calibration()


def test_a_calibration_has_every_operator_kind() -> None:
    assert set(dummy_calibration().tables) == set(GRIDS)


def test_a_prediction_is_the_sum_of_its_kinds() -> None:
    shape = AttentionShape(query_length=64, key_length=64, key_dim=16, value_dim=16)
    calibration: Calibration = dummy_calibration()
    predicted = predict(trace(attention_workload("general", shape, "forward")), calibration)
    assert predicted.seconds == pytest.approx(sum(predicted.by_kind.values()))
    assert predicted.by_kind["matmul"] >= 64 * 16 * 16 * SECONDS


@pytest.mark.parametrize(
    ("probes", "reason"),
    [
        ([Probe(1.0, 1.0)] * 3 + [Probe(1.2, 0.95)], ""),
        # One slow spell among many: other passes make up for it.
        ([Probe(1.0, 1.0)] * 9 + [Probe(3.0, 0.5)], ""),
        ([Probe(1.0, 0.5)] * 4, "regard got 50% of a core"),
        (
            [Probe(1.0, 1.0)] * 2 + [Probe(2.0, 1.0)] * 2,
            "a quarter of the time, the same computation took 2.0 times as long",
        ),
    ],
    ids=["quiet", "one slow spell", "lasting load", "load that comes and goes"],
)
def test_a_busy_machine_is_noticed(probes: list[Probe], reason: str) -> None:
    assert busy_reason(probes) == reason


def test_a_probe_compares_cpu_time_with_wall_time() -> None:
    clock, cpu_clock = iter([10.0, 12.0]), iter([5.0, 6.0])
    assert probe(lambda: next(clock), lambda: next(cpu_clock)) == Probe(2.0, 0.5)
