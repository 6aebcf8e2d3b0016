"""`regard study` and `regard report` from the command line, and their errors."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from tests.factories.command_line import exit_code

from regard.studies.folder import StudyFolder

TINY = [
    *("--recipe", "pronounce-quick", "--steps", "4", "--seeds", "2", "--workers", "1"),
    *("--set", "model.embedding_dim=4", "--set", "model.hidden_dim=8"),
    *("--set", "task.validation_fraction=0.2", "--set", "task.test_fraction=0.2"),
    *("--set", "training.evaluate_every=2", "--set", "task.beam_size=1"),
]


def test_study_and_report(
    words: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    study = [
        "study",
        *TINY,
        "--train-file",
        str(words),
        "--sweep",
        "cell=lstm,gru",
        "--out",
        "mine",
    ]
    assert exit_code([*study, "--question", "Which cell?"]) == 0
    shown = capsys.readouterr()
    assert "✓ lstm, seed 0" in shown.err
    assert "4 of 4" in shown.err
    for word in ("lstm", "gru", "exact_match_error", "too few seeds", "page: mine/page.html"):
        assert word in shown.out
    page = (tmp_path / "mine/page.html").read_text(encoding="utf-8")
    assert "Which cell?" in page
    assert (tmp_path / "mine/figures/scores.svg").is_file()
    record = json.loads((tmp_path / "mine/record.json").read_text(encoding="utf-8"))
    assert [variant["settings"] for variant in record["variants"]] == [
        {"model": {"cell": "lstm"}},
        {"model": {"cell": "gru"}},
    ]
    assert exit_code(["report", "mine", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == record
    assert exit_code(["report", "mine", "--csv", "--from-record", "--out", "other.html"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(row["variant"], row["seed"]) for row in rows] == [
        ("lstm", "0"),
        ("gru", "0"),
        ("lstm", "1"),
        ("gru", "1"),
    ]
    assert (tmp_path / "other.html").read_text(encoding="utf-8") == page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Name a study: approximation"),
        (["scorse"], "scores"),
        (["none.toml"], "cannot be read"),
        (["scores", "--sweep", "mechanism"], "--sweep mechanism"),
        (["scores", "--sweep", "mechanism="], "--sweep mechanism="),
        (["scores", "--sweep", "mechansim=dot,additive"], "model.mechansim"),
        (["scores", "--seeds", "many"], "seeds=many"),
        (["scores", "--seeds", "3,3"], "seeds=[3, 3]"),
        (["scores", "--learning-rates", "1e-3,fast"], "fast"),
        (["scores", "--match", "speed"], "speed"),
        (["scores", "--executor", "moon"], "--executor moon: choose one of: local, ray"),
        (["scores", "--address", "auto"], "Add --executor ray"),
        (["scores", "--workers", "0"], "workers=0"),
        (["scores", "--train-file", "nothing.tsv"], "nothing.tsv"),
    ],
)
def test_errors_write_nothing(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert exit_code(["study", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "is not a study folder"), ("{", "cannot be read"), ("{}", "is not a study file")],
)
def test_report_of_another_folder_is_refused(
    content: str | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        StudyFolder(tmp_path).write_text(tmp_path / "study.json", content)
    assert exit_code(["report", str(tmp_path)]) == 2
    assert message in capsys.readouterr().err
