"""`regard train` on the command line: output, resuming, and usage errors."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.factories.command_line import exit_code

from regard.api.options import absolute_files
from regard.tasks import TASKS

TINY = [
    *("--set", "model.embedding_dim=4", "--set", "model.hidden_dim=8"),
    *("--set", "task.validation_fraction=0.1", "--recipe", "pronounce-quick"),
]


def test_runs_are_numbered_and_reported(
    words: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    train = [
        "train",
        "pronounce",
        "--train-file",
        "words.dict",
        *TINY,
        "--steps",
        "2",
        "--seed",
        "5",
    ]
    assert exit_code([*train, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["folder"] == "runs/pronounce-1"
    assert {**shown, "folder": None} == {
        **json.loads((tmp_path / "runs/pronounce-1/record.json").read_text()),
        "folder": None,
    }
    assert shown["spec"]["seed"] == 5
    assert shown["spec"]["task"]["train_file"] == str(words)  # in full
    assert shown["spec"]["training"]["steps"] == 2
    assert exit_code(train) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("2 steps, ")
    assert lines[1].split()[0] == "validation"
    assert lines[-1] == 'use it: regard predict runs/pronounce-2 "some text"'
    models = [tmp_path / f"runs/pronounce-{n}/model.safetensors" for n in (1, 2)]
    assert models[0].read_bytes() == models[1].read_bytes()


def test_help_lists_every_task(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["train", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"One of: {', '.join(TASKS)}." in shown
    assert "aa_star" in shown


def test_budget_replaces_that_of_the_recipe(words: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    train = ["train", "pronounce", "--train-file", str(words), *TINY, "--out", str(out)]
    assert exit_code([*train, "--minutes", "0.0001"]) == 0
    training = json.loads((out / "spec.json").read_text())["training"]
    assert (training["steps"], training["seconds"]) == (None, 0.006)
    assert training["averaging"] == "exponential"  # from the recipe


def test_summary_of_a_short_run(
    words: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train = [
        "train",
        "pronounce",
        "--train-file",
        str(words),
        *TINY,
        "--out",
        str(tmp_path / "run"),
    ]
    assert exit_code([*train, "--steps", "2", "--threads", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"2 steps, [\d,]+ tokens, [\d.]+ m?s on 1 thread", lines[0])
    assert re.search(r"validation loss \S+ nats  exact_match_error \S+ %  per \S+ %$", lines[1])


def test_resume_from_another_folder(
    words: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupted in a subprocess and resumed here: the same bytes as without interruption."""
    monkeypatch.chdir(tmp_path)
    train = ["train", "pronounce", "--train-file", "words.dict", *TINY, "--steps", "6"]
    assert exit_code([*train, "--out", "whole"]) == 0
    code = (
        "import signal\nfrom regard.cli.main import main\nfrom regard.training import callbacks\n"
        "class Stop:\n"
        "    def on_step_end(self, info):\n"
        "        if info.step == 3: signal.raise_signal(signal.SIGINT)\n"
        "    def __getattr__(self, name): return lambda *_: None\n"
        "callbacks.ProgressDisplay = Stop\n"
        f"main({[*train, '--out', 'stopped', '--threads', '1']!r})\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 130
    assert done.stderr.endswith("resume with: regard train --resume stopped\n")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert exit_code(["train", "--resume", "../stopped"]) == 0
    for name in ("model.safetensors", "metrics.jsonl", "preprocessor.json"):
        assert (tmp_path / "stopped" / name).read_bytes() == (
            tmp_path / "whole" / name
        ).read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Name a task, one of: pronounce, translate"),
        (["pronunce"], "Unknown task 'pronunce'. Did you mean 'pronounce'?"),
        (["translate"], "--train-file"),
        (["pronounce", "--recipe", "quick"], "Unknown recipe 'quick'"),
        (["pronounce", "--recipe", "translate"], "is for the task 'translate', not 'pronounce'"),
        (["pronounce", "--recipe", "bad.toml"], "task=3"),
        (["pronounce", "--set", "modle.x=3"], "Unknown section 'modle'"),
        (["pronounce", "--set", "task=translate"], "SECTION.OPTION=VALUE"),
        (["pronounce", "--set", "model.num_layers=abc"], "model.num_layers=abc"),
        (["pronounce", "--steps", "0"], "training.steps=0"),
        (["pronounce", "--minutes", "nan"], "training.seconds=nan"),
        (["pronounce", "--threads", "0"], "threads=0"),
        (["pronounce", "--threads", "100000000"], "threads=100000000"),
        (["pronounce", "--seed", "-1"], "seed=-1"),
        (["pronounce", "--train-file", "none.tsv"], "There is no file"),
        (["pronounce", "--train-file", "x" * 5000 + ",y"], "There is no file"),
        (["pronounce", "--train-file", "words.dict", "--format", "xml"], "Unknown format 'xml'"),
        (
            ["pronounce", "--train-file", "words.dict", "--validation-file", "none.tsv"],
            "There is no file",
        ),
        (["pronounce", "--out", "words.dict"], "is a file. Choose a folder"),
        (["--resume", "none"], "is not a run"),
        (["pronounce", "--resume", "none"], "--resume none"),
        (["--resume", "none", "--steps", "9"], "--resume none"),
        (["--resume", "none", "--skip-bad-rows"], "--resume none"),
    ],
)
def test_usage_errors_leave_no_files(
    arguments: list[str],
    message: str,
    words: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.toml").write_text("task = 3\n")
    assert exit_code(["train", *arguments]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.removeprefix("reading the data\n").startswith("error: ")
    assert message in shown.err
    assert sorted(file.name for file in tmp_path.iterdir()) == ["bad.toml", "words.dict"]


def test_absolute_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a,b").write_text("")
    assert absolute_files("a") == str(tmp_path / "a")
    assert absolute_files("a,b") == str(tmp_path / "a,b")  # such a file exists
    assert absolute_files("x.de,y.en") == f"{tmp_path / 'x.de'},{tmp_path / 'y.en'}"


def test_columns_and_header(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs = tmp_path / "pairs.csv"
    rows = [f"{word.upper()},x,{word}" for word in ("ab", "ba", "aab", "bb", "bab", "abb")]
    pairs.write_text("phones,other,word\n" + "\n".join(rows) + "\n")
    columns = ["--source-column", "word", "--target-column", "phones"]
    command = [
        "train",
        "pronounce",
        "--train-file",
        str(pairs),
        "--validation-file",
        str(pairs),
        *columns,
        *TINY,
    ]
    out = tmp_path / "run"
    assert exit_code([*command, "--steps", "2", "--threads", "1", "--out", str(out)]) == 0
    log = capsys.readouterr().err
    assert "6 training pairs" in log
    assert "6 validation inputs also occur in training" in log
    assert set(json.loads((out / "preprocessor.json").read_text())["input"]["tokens"]) == {"a", "b"}
    assert json.loads((out / "spec.json").read_text())["threads"] == 1
    numbers = tmp_path / "numbers.csv"
    numbers.write_text("word,phones\nab,AB\n")
    score = ["predict", str(out), "--score", str(numbers), "--header", "--json"]
    score += ["--source-column", "0", "--target-column", "1"]
    assert exit_code([*score, "--examples", "9"]) == 0
    shown = json.loads(capsys.readouterr().out)["examples"]
    assert [example["input"] for example in shown] == ["ab"]
    assert exit_code(["predict", str(out), "ab", "--header"]) == 2
    assert "--score" in capsys.readouterr().err
