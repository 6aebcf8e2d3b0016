"""`regard report` of a run and of several runs, and its errors; of studies in test_study.py."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.factories.command_line import exit_code, regard
from tests.factories.tiny_runs import StopAt, seq2seq, train_tiny

import regard as library
from regard.api import reports
from regard.core.errors import RegardError
from regard.core.records.run import RunRecord
from regard.core.records.study import StudyRecord
from regard.runs.folder import RunFolder
from regard.runs.train import resume_run
from regard.studies.folder import StudyFolder
from regard.studies.run_report import run_record

REFRESH = 'http-equiv="refresh"'


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunFolder]:
    """Two finished runs and one that was stopped."""
    place = tmp_path_factory.mktemp("runs")
    return {
        "dot": train_tiny(seq2seq, place / "dot", data=place),
        "additive": train_tiny(
            seq2seq, place / "additive", data=place, model={"mechanism": "additive"}
        ),
        "stopped": train_tiny(seq2seq, place / "stopped", data=place, callbacks=(StopAt(4),)),
    }


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def stopped(tmp_path: Path) -> RunFolder:
    """A run of six steps that was stopped after the fourth."""
    return train_tiny(seq2seq, tmp_path / "run", callbacks=(StopAt(4),))


def test_run(runs: dict[str, RunFolder], here: Path) -> None:
    folder = runs["dot"]
    result = regard("report", folder.path)
    assert result.returncode == 0, result.stderr
    assert "exact_match_error" in result.stdout
    assert result.stdout.endswith(f"page: {folder.page}\n")
    page = folder.page.read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert REFRESH not in page
    folder.verify(checkpoint=True)
    assert regard("predict", folder.path, "abc").returncode == 0
    assert list(here.iterdir()) == []
    result = regard("report", folder.path, "--out", "here.html", "--json")
    record = RunRecord.from_json(result.stdout)
    assert record == run_record(folder) == library.report(folder.path)
    assert [path.name for path in here.iterdir()] == ["here.html"]
    assert (here / "here.html").read_text(encoding="utf-8") == page


def test_figures(runs: dict[str, RunFolder], here: Path) -> None:
    for arguments in (["--figures", "svg"], ["--figures", "png", "--png"]):
        result = regard("report", runs["dot"].path, "--out", "page.html", *arguments)
        assert result.returncode == 0, result.stderr
    names = {path.stem for path in (here / "svg").glob("*.svg")}
    assert {"learning-curve-loss", "scores-test", "scores-validation", "attention-1"} <= names
    assert {path.stem for path in (here / "png").glob("*.png")} == names
    # The chart of the figure file is that of the page.
    figure = (here / "svg/learning-curve-loss.svg").read_text(encoding="utf-8")
    page = (here / "page.html").read_text(encoding="utf-8")
    (line, *_) = re.findall(r'<polyline points="[^"]+" class="stroke">', figure)
    assert line in page
    both = [runs["dot"].path, runs["additive"].path]
    result = regard("report", *both, "--figures", "both", "--png")
    assert result.returncode == 0, result.stderr
    assert (here / "both/scores.png").read_bytes().startswith(b"\x89PNG")


def test_unfinished_run(runs: dict[str, RunFolder]) -> None:
    folder = runs["stopped"]
    result = regard("report", folder.path, "--out", "page.html")
    assert result.returncode == 0, result.stderr
    assert "stopped" in result.stdout
    assert "stopped" in Path("page.html").read_text(encoding="utf-8")
    record = library.report([folder.path], out="page.html")
    assert isinstance(record, RunRecord)
    assert record.state == "stopped"


def test_comparison(
    runs: dict[str, RunFolder], here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [runs["dot"].path, runs["additive"].path]
    result = regard("report", *paths)
    assert result.returncode == 0, result.stderr
    assert "mechanism=additive" in result.stdout
    assert result.stdout.endswith("page: report.html\n")
    assert [path.name for path in here.iterdir()] == ["report.html"]
    assert "mechanism=additive" in Path("report.html").read_text(encoding="utf-8")
    result = regard("report", *paths, "--csv", "--out", "other.html")
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert [(row["variant"], row["seed"]) for row in rows] == [
        ("mechanism=dot", "0"),
        ("mechanism=additive", "0"),
    ]
    monkeypatch.setattr("sys.argv", ["regard", "report", "a", "b", "--json"])
    record = StudyRecord.from_json(regard("report", *paths, "--json").stdout)
    assert [variant.name for variant in record.variants] == ["mechanism=dot", "mechanism=additive"]
    assert record.reproducibility["command"] == "regard report a b --json"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Missing argument 'PATH...'"),
        (["nowhere"], "'nowhere' does not exist. Give the folder printed by `regard train`"),
        (["file"], "'file' is a file, not a folder"),
        (["empty"], "'empty' is not a study folder and not a run: it has neither study.json nor"),
        (["{runs}"], "It has run folders inside: regard report {runs}/additive {runs}/dot"),
        (["{runs}/dot", "study"], "'study' is a study folder, and a study is reported alone"),
        (["{runs}/dot", "{runs}/dot"], "{runs}/dot' is given twice"),
        (["{runs}/dot", "{runs}/stopped"], "regard train --resume {runs}/stopped"),
        (["{runs}/dot", "--csv"], "--csv: '{runs}/dot' is one run"),
        (["{runs}/dot", "--csv", "--json"], "--json and --csv exclude each other"),
        (["{runs}/dot", "--from-record"], "--from-record: '{runs}/dot' is a run"),
        (["{runs}/dot", "{runs}/additive", "--watch"], "--watch: '{runs}/dot' is one of 2 runs"),
        (["study", "--watch"], "--watch: 'study' is a study"),
        (["{runs}/dot", "--watch", "--interval", "0"], "--interval 0: "),
        (["{runs}/dot", "--out", "empty"], "'empty' is a folder"),
        (["{runs}/dot", "--figures", "file"], "--figures file: it is a file"),
        (["{runs}/dot", "--figures", "file/inside"], "file"),
        (["{runs}/dot", "--png"], "--png: charts are written to a folder"),
        (["{runs}/dot", "--device", "abacus"], "--device abacus"),
        (["{runs}/dot", "--threads", "0"], "--threads 0"),
        (["{runs}/dot", "--plugin", "none.py:None"], "none.py"),
    ],
)
def test_errors_write_nothing(
    arguments: list[str], message: str, runs: dict[str, RunFolder], here: Path
) -> None:
    (here / "empty").mkdir()
    (here / "file").write_text("")
    StudyFolder(here / "study").write(here / "study/study.json", {})
    place = runs["dot"].path.parent

    def files() -> set[Path]:
        return {*here.rglob("*"), *place.rglob("*")}

    before = files()
    result = regard("report", *(argument.format(runs=place) for argument in arguments))
    assert result.returncode == 2
    assert message.format(runs=place) in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    assert files() == before


def test_linked_page_is_refused(stopped: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "other.html").write_text("mine")
    stopped.page.symlink_to(tmp_path / "other.html")
    with pytest.raises(RegardError, match=r"page\.html' is a symbolic link"):
        library.report(stopped.path)
    assert (tmp_path / "other.html").read_text() == "mine"


def sleeping(monkeypatch: pytest.MonkeyPatch, *actions: Callable[[], Any]) -> list[float]:
    """Do one of the actions in place of each sleep of the watch; returns the seconds it slept."""
    left, slept = list(actions), list[float]()

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        left.pop(0)()

    monkeypatch.setattr(reports, "sleep", sleep)
    return slept


def interrupt() -> None:
    raise KeyboardInterrupt


def test_watch_ends_with_the_run(stopped: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    pages: list[str] = []

    def look() -> None:
        pages.append(stopped.page.read_text(encoding="utf-8"))

    slept = sleeping(monkeypatch, look, look, lambda: resume_run(stopped))
    result = regard("report", stopped.path, "--watch", "--interval", "5")
    assert result.returncode == 0, result.stderr
    assert slept == [5.0, 5.0, 5.0]
    # One line per page: nothing changed between the first two looks.
    first, last = [line for line in result.stderr.splitlines() if "wrote" in line]
    assert first == f"stopped: step 4, 67 % of 6 steps; wrote {stopped.page}"
    assert last == f"finished: step 6, 100 % of 6 steps; wrote {stopped.page}"
    assert pages[0] == pages[1]
    assert REFRESH in pages[0]
    assert REFRESH not in stopped.page.read_text(encoding="utf-8")


def test_watch_of_a_finished_run_writes_once(
    runs: dict[str, RunFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    slept = sleeping(monkeypatch)
    result = regard("report", runs["dot"].path, "--watch", "--out", "page.html", "--json")
    assert (result.returncode, slept) == (0, [])
    assert json.loads(result.stdout)["state"] == "finished"


def test_watch_is_interrupted(stopped: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    sleeping(monkeypatch, interrupt)
    assert exit_code(["report", str(stopped.path), "--watch"]) == 130
    assert stopped.page.is_file()


def test_watch_of_a_damaged_run_is_an_error(
    stopped: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error may be that of a moment, so it is looked at twice."""
    stopped.spec.write_text("{}")
    slept = sleeping(monkeypatch, lambda: None)
    result = regard("report", stopped.path, "--watch")
    assert (result.returncode, slept) == (2, [2.0])
    assert "spec.json' was modified" in result.stderr
    assert not stopped.page.exists()


def test_watch_sees_every_row(stopped: RunFolder) -> None:
    before = reports._state(stopped)
    assert reports._state(stopped) == before
    with stopped.lock():
        assert reports._state(stopped) != before
    os.utime(stopped.timing, (1, 1))
    assert reports._state(stopped) != before
