"""`regard plan` from its command line, on a made-up machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.factories.calibration import made_up_calibration
from tests.factories.command_line import exit_code

from regard.cli import plan as plan_verb
from regard.cli.options import memory_limit, time_limit
from regard.core.errors import RegardError
from regard.costs import calibration as calibration_file
from regard.runs import plan as designs, plan as largest_model, plan as planning

TINY = [
    *("--recipe", "pronounce-quick", "--set", "task.validation_share=0.1"),
    *("--set", "model.embedding_dim=4", "--set", "model.hidden_dim=8"),
]


@pytest.fixture(autouse=True)
def made_up_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is measured, and little is traced: that is slow where every shape is checked."""
    monkeypatch.setattr(plan_verb, "calibrated", made_up_calibration)
    monkeypatch.setattr(planning, "SAMPLES", 1)
    monkeypatch.setattr(designs, "SCORES", ("dot",))
    monkeypatch.setattr(designs, "mechanisms_for_all_places", lambda: ["elu"])


def test_it_tells_what_a_run_takes_and_what_else_fits(
    words: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(largest_model, "GREATEST", 1)
    plan = ["plan", "pronounce", "--pairs", str(words), *TINY, "--steps", "5"]
    assert exit_code([*plan, "--time", "1s", "--memory", "1GB"]) == 0
    shown = capsys.readouterr().out
    lines = shown.splitlines()
    assert lines[0].startswith("recurrent (dot) with ")
    assert "5 steps" in shown
    assert "fits within 1 s and 1.00 GB" in lines
    assert any(line.startswith("  recurrent dot (this one)") for line in lines)
    assert any(line.startswith("  transformer elu ") for line in lines)
    assert "the largest recurrent within 1 s and 1.00 GB: embedding_dim " in shown


def test_json_holds_the_same(words: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = ["plan", "pronounce", "--pairs", str(words), *TINY, "--steps", "5", "--json"]
    assert exit_code([*plan, "--only"]) == 0
    alone = json.loads(capsys.readouterr().out)
    assert set(alone) == {"machine", "limits", "plan"}
    limit = round(2 * alone["plan"]["seconds"]["total"], 6)
    assert exit_code([*plan, "--time", f"{limit:f}s"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["limits"]["seconds"] == limit
    assert found["plan"] == alone["plan"]
    assert found["plan"]["steps"] == 5
    assert {row["model"] for row in found["designs"]} == {"recurrent", "transformer"}
    assert found["largest"]["parameters"] > found["plan"]["parameters"]
    assert found["largest"]["seconds"]["total"] <= limit < found["too_large"]["seconds"]["total"]


def test_nothing_fits(words: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = ["plan", "pronounce", "--pairs", str(words), *TINY, "--steps", "5"]
    assert exit_code([*plan, "--memory", "1MB"]) == 0
    shown = capsys.readouterr().out
    assert "does not fit: beyond the limit of memory (0.00 GB)" in shown
    assert "nothing fits within 0.00 GB\n  the smallest tried, with " in shown


def test_without_data(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--set", "model.model_dim=16", "--set", "model.num_layers=1"]
    sizes += ["--set", "task.vocabulary_size=100", "--set", "task.batch_tokens=200"]
    assert exit_code(["plan", "translate", "--length", "8", "--only", *sizes]) == 0
    shown = capsys.readouterr().out
    assert "evaluations   not counted" in shown
    assert "in its place" not in shown


@pytest.mark.parametrize(
    ("words_given", "complaint"),
    [
        (["translate"], "Name a file of pairs: --pairs my.tsv"),
        (["translate"], "--length 32"),
        (["translate", "--length", "8", "--pairs", "my.tsv"], "Leave one of them away"),
        (["pronounce", "--recipe", "pronounce-quik"], "Did you mean 'pronounce-quick'?"),
        (["pronounce", "--recipe", "translate"], "is for the task 'translate'"),
        (["pronounce", "--memory", "4"], "such as --memory 4GB"),
        (["pronounce", "--time", "1 h"], "such as --time 90min"),
        (["pronounce", "--set", "model.wdth=3"], "Unknown option 'model.wdth'"),
    ],
)
def test_mistakes_are_told(
    words_given: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(["plan", *words_given]) == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize("text", ["4", "GB", "4 GB", "4gb", "-4GB", "0GB", "4KB", "1e3MB", "4GBs"])
def test_bad_memory_is_refused(text: str) -> None:
    with pytest.raises(RegardError, match="GB, MB, without a space, such as --memory 4GB"):
        memory_limit(text)


@pytest.mark.parametrize("text", ["1", "h", "1 h", "1H", "0s", "90m", "1h30min", "-1s"])
def test_bad_times_are_refused(text: str) -> None:
    with pytest.raises(RegardError, match="h, min, s, without a space, such as --time 90min"):
        time_limit(text)


def test_halves_are_understood() -> None:
    assert memory_limit("1.5GB") == 1.5e9
    assert time_limit("0.5h") == 1800


def test_a_machine_is_measured_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from regard.cli.cost import calibrated

    measured = []

    def calibrate(_: object) -> object:
        measured.append(True)
        return made_up_calibration()

    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    monkeypatch.setattr(calibration_file, "calibrate", calibrate)
    first, second = calibrated(), calibrated()
    assert first == second
    assert len(measured) == 1
    said = capsys.readouterr().err
    assert "measuring this machine once" in said
    assert str(tmp_path) in said
    calibrated(anew=True)
    assert len(measured) == 2
