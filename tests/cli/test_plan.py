"""`regard plan`, with a dummy calibration."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.factories.calibration import dummy_calibration
from tests.factories.command_line import exit_code

from regard.api import planning as plan_function
from regard.api.planning import memory_limit, time_limit
from regard.core.errors import RegardError
from regard.runs import plan as planning

TINY = [
    *("--recipe", "pronounce-quick", "--set", "task.validation_fraction=0.1"),
    *("--set", "model.embedding_dim=4", "--set", "model.hidden_dim=8"),
]


@pytest.fixture(autouse=True)
def dummy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dummy calibration, and little to trace, which is slow with shape checks."""
    monkeypatch.setattr(plan_function, "load_or_calibrate", lambda **_: dummy_calibration())
    monkeypatch.setattr(planning, "SAMPLES", 1)
    monkeypatch.setattr(planning, "slot_mechanisms", lambda _: ["dot", "elu"])


def test_it_prints_the_plan_the_alternatives_and_the_largest_model(
    words: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(planning, "MAX_SIZE", 1)
    plan = ["plan", "pronounce", "--train-file", str(words), *TINY, "--steps", "5"]
    assert exit_code([*plan, "--time", "1s", "--memory", "1GB"]) == 0
    shown = capsys.readouterr().out
    lines = shown.splitlines()
    assert lines[0].startswith("recurrent (dot) with ")
    assert "5 steps" in shown
    assert "fits within 1.00 s and 954 MiB" in lines
    assert any(line.startswith("  recurrent dot (this one)") for line in lines)
    assert any(line.startswith("  transformer elu ") for line in lines)
    assert "largest recurrent within 1.00 s and 954 MiB: embedding_dim " in shown


def test_json(words: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = ["plan", "pronounce", "--train-file", str(words), *TINY, "--steps", "5", "--json"]
    assert exit_code([*plan, "--only"]) == 0
    alone = json.loads(capsys.readouterr().out)
    assert set(alone) == {"machine", "limits", "plan"}
    limit = round(2 * alone["plan"]["seconds"]["total"], 6)
    assert exit_code([*plan, "--time", f"{limit:f}s"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["limits"]["seconds"] == limit
    assert found["plan"] == alone["plan"]
    assert found["plan"]["steps"] == 5
    assert {row["model"] for row in found["alternatives"]} == {"recurrent", "transformer"}
    assert found["largest"]["parameters"] > found["plan"]["parameters"]
    assert found["largest"]["seconds"]["total"] <= limit < found["too_large"]["seconds"]["total"]


def test_nothing_fits(
    words: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(planning, "MIN_SIZE", -2)
    plan = ["plan", "pronounce", "--train-file", str(words), *TINY, "--steps", "5"]
    assert exit_code([*plan, "--memory", "1MB"]) == 0
    shown = capsys.readouterr().out
    assert "does not fit: exceeds the limit of memory (977 KiB)" in shown
    assert "nothing fits within 977 KiB\n  the smallest tried, with " in shown


def test_without_data(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--set", "model.model_dim=16", "--set", "model.num_layers=1"]
    sizes += ["--set", "task.vocabulary_size=100", "--set", "task.batch_tokens=200"]
    assert exit_code(["plan", "translate", "--length", "8", "--only", *sizes]) == 0
    shown = capsys.readouterr().out
    assert "evaluations   not included" in shown
    assert "alternatives" not in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["translate"], "--train-file"),
        (["translate"], "--length 32"),
        (["translate", "--length", "8", "--train-file", "my.tsv"], "--length 8"),
        (["pronounce", "--recipe", "pronounce-quik"], "Did you mean 'pronounce-quick'?"),
        (["pronounce", "--recipe", "translate"], "'translate'"),
        (["pronounce", "--memory", "4"], "--memory 4"),
        (["pronounce", "--time", "1 h"], "--time 1 h"),
        (["pronounce", "--set", "model.wdth=3"], "Unknown option 'model.wdth'"),
    ],
)
def test_errors(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["plan", *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("text", ["4", "GB", "4 GB", "4gb", "-4GB", "0GB", "4KB", "1e3MB", "4GBs"])
def test_bad_memory_limits_are_rejected(text: str) -> None:
    with pytest.raises(RegardError, match=f"--memory {text}"):
        memory_limit(text)


@pytest.mark.parametrize("text", ["1", "h", "1 h", "1H", "0s", "90m", "1h30min", "-1s"])
def test_bad_time_limits_are_rejected(text: str) -> None:
    with pytest.raises(RegardError, match=f"--time {text}"):
        time_limit(text)


def test_limits_may_be_fractions() -> None:
    assert memory_limit("1.5GB") == 1.5e9
    assert time_limit("0.5h") == 1800
