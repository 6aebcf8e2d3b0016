"""`regard cost`: output, files, errors, and the calibration it uses. Nothing is measured."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.factories.calibration import dummy_calibration
from tests.factories.command_line import exit_code

from regard.api.costs import load_or_calibrate
from regard.costs import calibration as calibrations, compare as comparison, predict as crossover
from regard.costs.calibration import calibration_path, save_calibration

ALL_LAYERS = comparison.LAYER_NAMES
SMALL = ["--length", "32", "--heads", "2", "--head-dim", "8"]
PLUGIN = """
from regard.mechanisms.scores.dot_product import ScaledDotAttention
class Mine(ScaledDotAttention):
    pass
class Broken(ScaledDotAttention):
    def forward(self, *args, **kwargs):
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
    """The current folder, with a dummy calibration, short lengths and two layers."""

    def calibrate(*_: object) -> None:
        raise AssertionError("a machine was calibrated")

    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(calibrations, "calibrate", calibrate)
    for module in (comparison, crossover):
        monkeypatch.setattr(module, "LENGTHS", (32, 64, 128))
    monkeypatch.setattr(
        comparison, "LAYER_NAMES", ("lstm", "self-attention")
    )  # the others are slow
    monkeypatch.chdir(tmp_path)
    save_calibration(dummy_calibration())
    return tmp_path


def test_it_prints_mechanisms_layers_and_crossovers(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["cost", *SMALL, "--only", "elu", "--only", "retention", "--only", "scaled_dot"]
    assert exit_code(arguments) == 0
    shown = capsys.readouterr().out
    lines = shown.splitlines()
    assert "32 tokens, 2 heads" in lines[0]
    assert any(line.startswith("scaled_dot") and "4n²d" in line for line in lines)
    assert any(line.startswith("lstm") and "16nw²" in line for line in lines)
    assert "  retention: RetentionAttention" in shown
    assert "scaled_dot" in lines[-2]
    assert "an LSTM layer" in lines[-1]


def test_rows_are_shown_on_standard_error_before_the_table(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ["--only", "general", "--only", "dot", "--no-calibrate", "--json"]
    assert exit_code(["cost", *SMALL, *arguments]) == 0
    shown = capsys.readouterr()
    names = [line.split()[0] for line in shown.err.splitlines()]
    assert names == ["general", "dot", "lstm", "self-attention"]
    assert "FLOPs" in shown.err
    assert len(json.loads(shown.out)["mechanisms"]) == 2


def test_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(comparison, "LAYER_NAMES", ALL_LAYERS)
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
    assert "fewer FLOPs than" in shown
    assert "predicted" not in shown


def test_all_formulas_of_one_mechanism(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["cost", *SMALL, "--only", "polynomial", "--set", "power=1", "--formulas"]
    assert exit_code(arguments) == 0
    shown = capsys.readouterr().out
    for figure in (
        "matmul_flops",
        "transcendental_ops",
        "elementwise_ops",
        "step_matmul_flops",
        "memory",
        "state",
    ):
        assert f"\n{figure} " in shown


def test_a_new_calibration_is_saved(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calibration_path().unlink()
    monkeypatch.setattr(calibrations, "calibrate", lambda _: dummy_calibration())
    assert exit_code(["cost", *SMALL, "--only", "dot"]) == 0
    assert "half a minute" in capsys.readouterr().err
    assert calibration_path().exists()


def test_a_damaged_calibration_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    calibration_path().write_text("{")
    assert exit_code(["cost", *SMALL, "--only", "dot"]) == 2
    assert "regard cost --calibrate" in capsys.readouterr().err


def test_plot_and_page_are_written(machine: Path) -> None:
    arguments = ["cost", *SMALL, "--only", "elu", "--plot", "time.svg", "--page", "cost.html"]
    assert exit_code(arguments) == 0
    picture = (machine / "time.svg").read_text()
    assert "scaled_dot" in picture
    assert "lstm" in picture
    page = (machine / "cost.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "an LSTM layer" in page


@pytest.mark.usefixtures("no_plugins")
def test_plugins_are_compared_and_a_broken_one_shows_its_error(
    machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (machine / "mine.py").write_text(PLUGIN)
    plugins = ["--plugin", "mine.py:Mine", "--plugin", "mine.py:Broken"]
    assert exit_code(["cost", *SMALL, *plugins, "--only", "Mine", "--only", "Broken"]) == 0
    shown = capsys.readouterr().out
    assert "\nMine " in shown
    assert "Broken: it failed: KeyError: 'oops'" in shown
    assert (
        "Mine is faster than scaled_dot" in shown or "Mine is never faster than scaled_dot" in shown
    )


def test_measured_time_and_memory(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import regard.costs.measure as measured

    monkeypatch.setattr(measured, "measured_seconds", lambda *_, **__: 0.5)
    monkeypatch.setattr(
        measured, "peaks_in_child", lambda factories, **_: [2048 for _ in factories]
    )
    assert exit_code(["cost", *SMALL, "--only", "dot", "--measure"]) == 0
    shown = capsys.readouterr().out
    assert "500 ms" in shown
    assert "2.00 KiB" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--length", "0"], "--length 0 is out of range. Use an integer from 1 to 131072"),
        (["--length", "-3"], "--length -3"),
        (["--length", "many"], "'--length'"),
        (["--heads", "0"], "--heads 0"),
        (["--head-dim", "99999"], "--head-dim 99999"),
        (["--batch", "0"], "--batch 0"),
        (["--threads", "0"], "--threads 0"),
        (["--train", "--decode"], "--train and --decode"),
        (["--calibrate", "--no-calibrate"], "--calibrate and --no-calibrate"),
        (["--only", "adittive"], "Did you mean 'additive'?"),
        (["--set", "radius=3"], "--only names none"),
        (["--formulas", "--only", "elu", "--only", "dot"], "--only names 2"),
        (["--only", "elu", "--set", "radius=3"], "radius"),
        (["--only", "retention"], "Causal()"),
        (["--plot", "time.gif"], "time.gif"),
        (["--page", "page.txt"], "page.txt"),
        (["--page", "file/page.html"], "file"),
        (["--input", "2x3"], "--input 2x3 needs --module"),
        (["--module", "model.py:linear", "--only", "dot"], "--only"),
        (["--module", "model.py", "--input", "2x3"], "FILE.py:FUNCTION"),
        (["--module", "gone.py:build", "--input", "2x3"], "gone.py"),
        (["--module", "model.py:gone", "--input", "2x3"], "'gone'"),
        (["--module", "model.py:number", "--input", "2x3"], "'number'"),
        (["--module", "model.py:linear"], "--input"),
        (["--module", "model.py:wrong", "--input", "2x3"], "returned a int"),
        (["--module", "model.py:linear", "--input", "2by3"], "--input 2by3"),
        (["--module", "model.py:linear", "--input", "0x3"], "--input 0x3"),
        (["--module", "model.py:fails", "--input", "2x3"], "KeyError: 'no such\\nweight', line 15"),
        (["--module", "model.py:linear", "--input", "2x3"], "cannot run on these inputs"),
    ],
)
def test_an_error_is_one_line(
    arguments: list[str], message: str, machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (machine / "file").write_text("")
    (machine / "model.py").write_text(MODULE)
    before = sorted(machine.iterdir())
    assert exit_code(["cost", *arguments]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("error: ")
    assert shown.err.count("\n") == 1
    assert message in shown.err
    assert [path for path in sorted(machine.iterdir()) if path.name != "__pycache__"] == before


def test_a_users_module(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (machine / "model.py").write_text(MODULE)
    arguments = ["cost", "--module", "model.py:linear", "--input", "16x8", "--json"]
    assert exit_code(arguments) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["inputs"] == ["16×8"]
    assert report["parameters"] == 8 * 4 + 4
    assert report["forward_flops"] == 2 * 16 * 8 * 4 + 16 * 4
    assert report["backward_flops"] > 2 * 2 * 16 * 8 * 4
    assert report["seconds"] > 0
    assert {row["kind"] for row in report["kinds"]} >= {"matmul"}


def test_a_module_with_its_own_or_with_integer_inputs(
    machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (machine / "model.py").write_text(MODULE)
    assert exit_code(["cost", "--module", "model.py:with_inputs"]) == 0
    assert "model.py:with_inputs on 2×3" in capsys.readouterr().out
    arguments = ["cost", "--module", "model.py:with_inputs", "--input", "int10:5x7"]
    assert exit_code([*arguments, "--no-calibrate"]) == 0
    shown = capsys.readouterr().out
    assert "on 5×7" in shown
    assert "index_select" in shown


def test_module_errors_are_raised_before_calibration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    monkeypatch.setattr(calibrations, "calibrate", lambda _log: pytest.fail("it was measured"))
    missing = tmp_path / "nothere.py"
    assert exit_code(["cost", "--module", f"{missing}:build"]) == 2
    assert "nothere.py" in capsys.readouterr().err


def test_a_machine_is_calibrated_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = []

    def calibrate(_: object) -> calibrations.Calibration:
        measured.append(True)
        return dummy_calibration()

    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "empty"))
    monkeypatch.setattr(calibrations, "calibrate", calibrate)
    monkeypatch.setattr("regard.core.malloc.keep_freed_memory", lambda: True)
    lines: list[str] = []
    assert load_or_calibrate(log=lines.append) == load_or_calibrate()
    assert len(measured) == 1
    assert str(tmp_path / "empty") in lines[-1]
    load_or_calibrate(force=True)
    assert len(measured) == 2


def test_a_calibration_of_a_busy_machine_is_not_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = replace(dummy_calibration(), busy="regard got 50% of a core")
    found = iter([busy, dummy_calibration(), busy])
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "empty"))
    monkeypatch.setattr(calibrations, "calibrate", lambda _log: next(found))
    monkeypatch.setattr("regard.core.malloc.keep_freed_memory", lambda: True)
    lines: list[str] = []
    assert load_or_calibrate(log=lines.append) is busy
    assert (
        "the machine was busy: regard got 50% of a core; the calibration is not saved" in lines[-1]
    )
    assert not calibration_path().exists()
    assert load_or_calibrate() == dummy_calibration()
    saved = calibration_path().read_bytes()
    assert load_or_calibrate(force=True) is busy
    assert calibration_path().read_bytes() == saved


def test_a_calibration_that_cannot_be_saved_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "regard").write_text("a file in place of the folder")
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    monkeypatch.setattr(calibrations, "calibrate", lambda _log: dummy_calibration())
    monkeypatch.setattr("regard.core.malloc.keep_freed_memory", lambda: True)
    lines: list[str] = []
    assert load_or_calibrate(force=True, log=lines.append) == dummy_calibration()
    assert "$REGARD_CACHE" in lines[-1]
