"""Control characters of names, data and predictions never reach a terminal raw."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, strategies as st
from rich.console import Console
from tests.factories.claims import CLAIMS
from tests.factories.command_line import exit_code, regard
from tests.factories.jobs import toy_job
from tests.factories.studies import dummy_study

from regard import api
from regard.claims.engine import run_claims
from regard.cli.options import echo, echo_data, echo_json, log, terminal_status
from regard.cli.studies import StudyProgress
from regard.core.errors import CONTROLS, printable_lines
from regard.core.records.claim import records_as_json
from regard.studies.execution.jobs import Failed, Started
from regard.training.callbacks import ProgressDisplay, TrainingStart
from regard.training.options import TrainingOptions
from regard.views.text.study import study_table

NASTY = "\x1b[31mred\x1b]0;title\x07\x9b1A\x7f\r\u202egnp.exe\u2066"
SHOWN = r"\x1b[31mred\x1b]0;title\x07\x9b1A\x7f\r\u202egnp.exe\u2066"
# What the pseudo-terminal and rich themselves write.
OWN = ("\r\n", "\x1b[?25l", "\x1b[?25h", "\x1b[2K", "\x1b[1A")


def in_terminal(write: Callable[[Any], None]) -> str:
    """What is written to a pseudo-terminal by a function of its text stream."""
    reader, writer = pty.openpty()
    with os.fdopen(writer, "w", encoding="utf-8") as stream:
        write(stream)
    found = b""
    with suppress(OSError):  # the end, once all that was written is read
        while piece := os.read(reader, 1 << 16):
            found += piece
    os.close(reader)
    return found.decode()


def regard_in_terminal(*arguments: object) -> str:
    """The output of a command whose streams are a pseudo-terminal."""

    def run(stream: Any) -> None:
        subprocess.run(
            [sys.executable, "-m", "regard", *map(str, arguments)],
            stdout=stream,
            stderr=stream,
            check=False,
            timeout=60,
        )

    return in_terminal(run)


def assert_clean(text: str) -> None:
    for own in OWN:
        text = text.replace(own, "\n")
    assert CONTROLS.findall(text) == []


@given(st.text(st.characters(codec=None, categories=None)))
@example(NASTY)
@example("\ud800 \x00 é 日本 \U0001f469\u200d\U0001f680 \u00a0 \u202f")
def test_printable_lines(text: str) -> None:
    shown = printable_lines(text)
    assert not CONTROLS.search(shown)
    assert printable_lines(shown) == shown
    shown.encode()
    if not CONTROLS.search(text):
        assert shown == text
    assert shown.count("\n") == text.count("\n")


@given(st.text(st.characters(codec=None, categories=None)))
@example(NASTY)
@example("\ud800")
def test_json_has_the_same_value_without_control_characters(text: str) -> None:
    record = {text: [text]}
    stream = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        echo_json(json.dumps(record, ensure_ascii=False))
    assert json.loads(stream.getvalue()) == record
    assert not CONTROLS.search(stream.getvalue())


def test_lines_and_log(capsys: pytest.CaptureFixture[str]) -> None:
    echo(f"a\t{NASTY}\nb")
    log(NASTY)
    captured = capsys.readouterr()
    assert captured.out == f"a\t{SHOWN}\nb\n"
    assert captured.err == f"{SHOWN}\n"


def test_predictions_are_exact_in_a_file_and_escaped_in_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "predict", lambda *_, write, **__: write(f"{NASTY}\n"))
    command = ["predict", "run", "text"]
    with (tmp_path / "out").open("w", encoding="utf-8", newline="") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        assert exit_code(command) == 0
    assert (tmp_path / "out").read_bytes() == f"{NASTY}\n".encode()

    def write(stream: Any) -> None:
        monkeypatch.setattr(sys, "stdout", stream)
        assert exit_code(command) == 0

    assert in_terminal(write) == f"{SHOWN}\r\n"


def test_a_prediction_with_a_lone_surrogate(capsys: pytest.CaptureFixture[str]) -> None:
    echo_data("\ud800 \x1b")
    assert capsys.readouterr().out == "\\ud800 \x1b"


def test_json_predictions(monkeypatch: pytest.MonkeyPatch) -> None:
    line = json.dumps({"output": NASTY}, ensure_ascii=False)
    monkeypatch.setattr(api, "predict", lambda *_, write, **__: write(f"{line}\n"))
    result = regard("predict", "run", "text", "--json")
    assert json.loads(result.stdout) == {"output": NASTY}
    assert_clean(result.stdout)


@pytest.mark.parametrize(
    "command",
    [
        [NASTY],
        ["train", NASTY],
        ["predict", NASTY, "text"],
        ["study", f"{NASTY}.toml"],
        ["report", NASTY],
        ["data", NASTY, "file"],
        ["data", "describe", NASTY],
        ["claims", "show", NASTY],
        ["list", NASTY],
        ["cost", f"--{NASTY}"],
    ],
    ids=lambda command: command[0] if command[0] != NASTY else "verb",
)
def test_errors(command: list[str]) -> None:
    result = regard(*command)
    assert result.returncode == 2
    assert r"\x1b" in result.stderr
    assert_clean(result.stdout + result.stderr)


def test_an_error_in_a_terminal() -> None:
    found = regard_in_terminal("claims", "show", NASTY)
    assert r"\x1b[31mred" in found
    assert_clean(found)


def data_file(folder: Path) -> Path:
    path = folder / "data.tsv"
    labels = [NASTY.replace("\r", ""), "b"]
    path.write_text("".join(f"{labels[n % 2]}\ttext {n}\n" for n in range(8)), encoding="utf-8")
    return path


def test_data(tmp_path: Path) -> None:
    found = regard_in_terminal("data", "describe", data_file(tmp_path), "--target", "label")
    assert r"\u202egnp.exe" in found
    assert_clean(found)
    result = regard("data", "describe", data_file(tmp_path), "--target", "label", "--json")
    assert "\u202egnp.exe" in json.dumps(json.loads(result.stdout), ensure_ascii=False)
    assert_clean(result.stdout)


def test_claims(tmp_path: Path) -> None:
    records = [
        dataclasses.replace(record, statement=NASTY, topic=NASTY) for record in run_claims(CLAIMS)
    ]
    path = tmp_path / "records.json"
    path.write_text(records_as_json(records), encoding="utf-8")
    for options in ([], ["--json"]):
        result = regard("claims", "--from", path, *options)
        assert_clean(result.stdout + result.stderr)
        assert r"[31mred" in result.stdout


def test_table_of_a_study(capsys: pytest.CaptureFixture[str]) -> None:
    echo(study_table(dummy_study(names=[NASTY, "b"]), width=200))
    assert_clean(capsys.readouterr().out)


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_of_a_study(terminal: bool, tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=200, color_system=None)
    job = dataclasses.replace(toy_job(tmp_path / "study"), variant=NASTY)
    with StudyProgress(console) as progress:
        progress.begin([job])
        progress.update(Started(job=job))
        progress.update(Failed(job=job, reason=f"loss {NASTY}"))
    assert isinstance(console.file, io.StringIO)
    found = console.file.getvalue()
    assert r"\x1b[31mred" in found
    assert_clean(found.replace("\r", "\n"))


def test_progress_of_training() -> None:
    console = Console(file=io.StringIO(), width=200)
    start = TrainingStart(
        folder=Path(NASTY),
        options=TrainingOptions(steps=1),
        parameters=1,
        step=0,
        tokens=0,
        seconds=0.0,
        progress=0.0,
        metric="loss",
        lower_is_better=True,
        best=None,
        finished=None,
    )
    ProgressDisplay(console).on_train_begin(start)
    assert isinstance(console.file, io.StringIO)
    assert SHOWN in console.file.getvalue()


def test_status(monkeypatch: pytest.MonkeyPatch) -> None:
    def write(stream: Any) -> None:
        monkeypatch.setattr(sys, "stderr", stream)
        with terminal_status("begin") as status:
            status.progress(f"[red]{NASTY}")
            status.log(f"[red]{NASTY}")

    found = in_terminal(write)
    assert "[red]" in found
    assert r"\x1b]0;title\x07" in found
    assert "\x1b]0;" not in found
