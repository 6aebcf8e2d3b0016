"""`regard cost`: what is printed, written and refused. No machine is calibrated here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.factories.calibration import made_up_calibration
from tests.factories.command_line import exit_code

from regard.costs import calibration as calibrations, compare as comparison, predict as crossover
from regard.costs.calibration import calibration_path, keep

SMALL = ["--length", "32", "--heads", "2", "--head-dim", "8"]
PLUGIN = """
from regard.mechanisms.scores.dot_product import ScaledDotAttention
class Mine(ScaledDotAttention):
    pass
class Broken(ScaledDotAttention):
    def forward(self, *args, **words):
        raise KeyError("oops")
"""
MODULE = """
import torch
from torch import nn

def linear():
    return nn.Linear(8, 4)

def with_inputs():
    return nn.Embedding(10, 4), torch.zeros(2, 3, dtype=torch.long)

def wrong():
    return 3

def fails():
    raise KeyError("no such\\nweight")

number = 3
"""


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, where a made-up calibration is kept, and no length is long."""

    def measuring(*_: object) -> None:
        raise AssertionError("a machine was calibrated")

    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(calibrations, "calibrate", measuring)
    for module in (comparison, crossover):
        monkeypatch.setattr(module, "LENGTHS", (32, 64, 128))
    monkeypatch.chdir(tmp_path)
    keep(made_up_calibration())
    return tmp_path


def test_a_table_layers_and_crossings_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["cost", *SMALL, "--only", "elu", "--only", "retention", "--only", "scaled_dot"]
    assert exit_code(arguments) == 0
    shown = capsys.readouterr().out
    lines = shown.splitlines()
    assert lines[0] == "one forward call: 32 tokens, 2 heads of width 8, batch 1"
    assert any(line.startswith("scaled_dot") and "4n²d" in line for line in lines)
    assert any(line.startswith("lstm") and "16nw²" in line for line in lines)
    assert "  retention: RetentionAttention reads the past only" in shown
    assert "scaled_dot" in lines[-2]
    assert "an LSTM layer" in lines[-1]


def test_json_holds_all_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["cost", *SMALL, "--only", "dot", "--train", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["mode"] == "train"
    assert [row["name"] for row in report["mechanisms"]] == ["dot"]
    assert report["mechanisms"][0]["seconds"] > 0
    assert report["mechanisms"][0]["formula"] == "14n²d"
    assert len(report["layers"]) == 4


def test_without_calibration_there_are_counts_and_no_times(
    capsys: pytest.CaptureFixture[str],
) -> None:
    calibration_path().unlink()
    assert exit_code(["cost", *SMALL, "--only", "elu", "--no-calibrate"]) == 0
    shown = capsys.readouterr().out
    assert "no times: this machine was not calibrated" in shown
    assert "fewer operations than" in shown
    assert "predicted" not in shown


def test_all_formulas_of_one_mechanism(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["cost", *SMALL, "--only", "polynomial", "--set", "power=1", "--formulas"]
    assert exit_code(arguments) == 0
    shown = capsys.readouterr().out
    for figure in ("products", "functions", "arithmetic", "step_products", "memory", "state"):
        assert f"\n{figure} " in shown


def test_a_machine_without_calibration_is_calibrated_and_that_is_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calibration_path().unlink()
    monkeypatch.setattr(calibrations, "calibrate", lambda _: made_up_calibration())
    assert exit_code(["cost", *SMALL, "--only", "dot"]) == 0
    assert "half a minute" in capsys.readouterr().err
    assert calibration_path().exists()


def test_a_damaged_calibration_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    calibration_path().write_text("{")
    assert exit_code(["cost", *SMALL, "--only", "dot"]) == 2
    assert "Measure anew: regard cost --calibrate" in capsys.readouterr().err


def test_plot_and_page_are_written(machine: Path) -> None:
    arguments = ["cost", *SMALL, "--only", "elu", "--plot", "time.svg", "--page", "cost.html"]
    assert exit_code(arguments) == 0
    picture = (machine / "time.svg").read_text()
    assert "scaled_dot" in picture
    assert "lstm" in picture
    page = (machine / "cost.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "an LSTM layer" in page


def test_plug_ins_are_priced_and_a_broken_one_says_why(
    machine: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.mechanisms._PLUGGED_IN", {})
    (machine / "mine.py").write_text(PLUGIN)
    plugins = ["--plugin", "mine.py:Mine", "--plugin", "mine.py:Broken"]
    assert exit_code(["cost", *SMALL, *plugins, "--only", "Mine", "--only", "Broken"]) == 0
    shown = capsys.readouterr().out
    assert "\nMine " in shown
    assert "Broken: it failed: KeyError: 'oops'" in shown
    assert "Mine beats scaled_dot" in shown or "Mine never beats scaled_dot" in shown


def test_measured_figures_stand_beside_the_prediction(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import regard.costs.measure as measured

    monkeypatch.setattr(measured, "measured_seconds", lambda *_, **__: 0.5)
    monkeypatch.setattr(measured, "peaks_in_child", lambda recipes, **_: [2048 for _ in recipes])
    assert exit_code(["cost", *SMALL, "--only", "dot", "--measure"]) == 0
    shown = capsys.readouterr().out
    assert "500 ms" in shown
    assert "2.00 KiB" in shown


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--length", "0"], "--length 0: it is a whole number from 1 to 131072"),
        (["--length", "-3"], "--length -3"),
        (["--length", "many"], "'--length'"),
        (["--heads", "0"], "--heads 0"),
        (["--head-dim", "99999"], "--head-dim 99999: it is a whole number from 1 to 4096"),
        (["--batch", "0"], "--batch 0"),
        (["--threads", "0"], "--threads 0"),
        (["--train", "--decode"], "--train and --decode contradict each other"),
        (["--calibrate", "--no-calibrate"], "--calibrate and --no-calibrate contradict"),
        (["--only", "adittive"], "Did you mean 'additive'?"),
        (["--set", "radius=3"], "--set is for one mechanism, and --only names none"),
        (["--formulas", "--only", "elu", "--only", "dot"], "--only names 2"),
        (["--only", "elu", "--set", "radius=3"], "radius"),
        (["--only", "retention"], "Causal()"),
        (["--plot", "time.gif"], "End the name in .svg or .png"),
        (["--page", "page.txt"], "End the name in .html"),
        (["--page", "file/page.html"], "is not a folder"),
        (["--input", "2x3"], "--input 2x3 is an input of --module"),
        (["--module", "model.py:linear", "--only", "dot"], "--only does not go with it"),
        (["--module", "model.py", "--input", "2x3"], "FILE.py:FUNCTION"),
        (["--module", "gone.py:build", "--input", "2x3"], "there is no file 'gone.py'"),
        (["--module", "model.py:gone", "--input", "2x3"], "has no function 'gone'"),
        (["--module", "model.py:number", "--input", "2x3"], "something else called 'number'"),
        (["--module", "model.py:linear"], "Give the shape of each with --input"),
        (["--module", "model.py:wrong", "--input", "2x3"], "returned a int, not a module"),
        (["--module", "model.py:linear", "--input", "2by3"], "--input 2by3: an input is a shape"),
        (["--module", "model.py:linear", "--input", "0x3"], "--input 0x3: an input is a shape"),
        (["--module", "model.py:fails", "--input", "2x3"], "KeyError: 'no such\\nweight', line 15"),
        (["--module", "model.py:linear", "--input", "2x3"], "cannot be run on these inputs"),
    ],
)
def test_mistakes_are_one_sentence(
    arguments: list[str], complaint: str, machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (machine / "file").write_text("")
    (machine / "model.py").write_text(MODULE)
    before = sorted(machine.iterdir())
    assert exit_code(["cost", *arguments]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("error: ")
    assert shown.err.count("\n") == 1
    assert complaint in shown.err
    assert [path for path in sorted(machine.iterdir()) if path.name != "__pycache__"] == before


def test_a_module_of_the_users_is_priced(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (machine / "model.py").write_text(MODULE)
    arguments = ["cost", "--module", "model.py:linear", "--input", "16x8", "--json"]
    assert exit_code(arguments) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["inputs"] == ["16×8"]
    assert report["parameters"] == 8 * 4 + 4
    assert report["forward_operations"] == 2 * 16 * 8 * 4 + 16 * 4
    assert report["backward_operations"] > 2 * 2 * 16 * 8 * 4
    assert report["seconds"] > 0
    assert {row["kind"] for row in report["kinds"]} >= {"product"}


def test_a_module_may_bring_its_inputs_or_take_whole_numbers(
    machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (machine / "model.py").write_text(MODULE)
    assert exit_code(["cost", "--module", "model.py:with_inputs"]) == 0
    assert "model.py:with_inputs on 2×3" in capsys.readouterr().out
    arguments = ["cost", "--module", "model.py:with_inputs", "--input", "int10:5x7"]
    assert exit_code([*arguments, "--no-calibrate"]) == 0
    shown = capsys.readouterr().out
    assert "on 5×7" in shown
    assert "gather" in shown


def test_what_is_wrong_with_a_module_is_told_before_the_machine_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    monkeypatch.setattr(calibrations, "calibrate", lambda _tell: pytest.fail("it was measured"))
    missing = tmp_path / "nothere.py"
    assert exit_code(["cost", "--module", f"{missing}:build"]) == 2
    assert "there is no file" in capsys.readouterr().err
