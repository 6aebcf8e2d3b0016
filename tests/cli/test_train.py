"""`regard train` from its command line: what is asked for, where it goes, and every mistake."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.factories.command_line import exit_code

from regard.cli.options import full_paths
from regard.tasks import TASKS

TINY = [
    *("--set", "model.embedding_dim=4", "--set", "model.hidden_dim=8"),
    *("--set", "task.validation_share=0.1", "--recipe", "pronounce-quick"),
]


def test_runs_are_numbered_and_reported(
    words: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    train = ["train", "pronounce", "--pairs", "words.dict", *TINY, "--steps", "2", "--seed", "5"]
    assert exit_code([*train, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["folder"] == "runs/pronounce-1"
    assert {**shown, "folder": None} == {
        **json.loads((tmp_path / "runs/pronounce-1/record.json").read_text()),
        "folder": None,
    }
    assert shown["spec"]["seed"] == 5
    assert shown["spec"]["task"]["pairs"] == str(words)  # in full
    assert shown["spec"]["training"]["steps"] == 2
    assert exit_code(train) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("2 steps, ")
    assert lines[1].split()[0] == "validation"
    assert lines[-1] == 'use it: regard predict runs/pronounce-2 "some text"'
    models = [tmp_path / f"runs/pronounce-{n}/model.safetensors" for n in (1, 2)]
    assert models[0].read_bytes() == models[1].read_bytes()


def test_the_help_names_every_task(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["train", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"One of: {', '.join(TASKS)}." in shown
    assert "even_as" in shown


def test_a_budget_replaces_that_of_the_recipe(words: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    train = ["train", "pronounce", "--pairs", str(words), *TINY, "--out", str(out)]
    assert exit_code([*train, "--minutes", "0.0001"]) == 0
    training = json.loads((out / "spec.json").read_text())["training"]
    assert (training["steps"], training["seconds"]) == (None, 0.006)
    assert training["averaging"] == "exponential"  # the rest is the recipe's


def test_a_stopped_run_goes_on_from_another_folder(
    words: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupted in a process of its own, and resumed here: the same bytes as undisturbed."""
    monkeypatch.chdir(tmp_path)
    train = ["train", "pronounce", "--pairs", "words.dict", *TINY, "--steps", "6"]
    assert exit_code([*train, "--out", "whole"]) == 0
    code = (
        "import signal\nfrom regard.cli import train\nfrom regard.cli.main import main\n"
        "class Stop:\n"
        "    def stepped(self, info):\n"
        "        if info.step == 3: signal.raise_signal(signal.SIGINT)\n"
        "    def __getattr__(self, name): return lambda *_: None\n"
        "train._watchers = lambda folder, tensorboard: [Stop()]\n"
        f"main({[*train, '--out', 'stopped', '--threads', '1']!r})\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 130
    assert done.stderr.endswith("go on with: regard train --resume stopped\n")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert exit_code(["train", "--resume", "../stopped"]) == 0
    for name in ("model.safetensors", "metrics.jsonl", "vocabulary.json"):
        assert (tmp_path / "stopped" / name).read_bytes() == (
            tmp_path / "whole" / name
        ).read_bytes()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "Name a task, one of: pronounce, translate"),
        (["pronunce"], "Unknown task 'pronunce'. Did you mean 'pronounce'?"),
        (["translate"], "The task 'translate' has no data of its own"),
        (["pronounce", "--recipe", "quick"], "Unknown recipe 'quick'"),
        (["pronounce", "--recipe", "translate"], "is for the task 'translate', not 'pronounce'"),
        (["pronounce", "--recipe", "bad.toml"], "The section 'task' is 3"),
        (["pronounce", "--set", "modle.x=3"], "Unknown section 'modle'"),
        (["pronounce", "--set", "task=translate"], "SECTION.OPTION=VALUE"),
        (["pronounce", "--set", "model.num_layers=abc"], "model.num_layers='abc'"),
        (["pronounce", "--steps", "0"], "steps is 0"),
        (["pronounce", "--minutes", "nan"], "seconds is nan"),
        (["pronounce", "--threads", "0"], "threads=0"),
        (["pronounce", "--threads", "100000000"], "threads=100000000"),
        (["pronounce", "--seed", "-1"], "seed=-1"),
        (["pronounce", "--pairs", "none.tsv"], "There is no file"),
        (["pronounce", "--pairs", "x" * 5000 + ",y"], "There is no file"),
        (["pronounce", "--pairs", "words.dict", "--format", "xml"], "Unknown format 'xml'"),
        (["pronounce", "--pairs", "words.dict", "--validation", "none.tsv"], "There is no file"),
        (["pronounce", "--out", "words.dict"], "is a file. Choose a folder"),
        (["--resume", "none"], "is not a run"),
        (["pronounce", "--resume", "none"], "takes no task and no other settings"),
        (["--resume", "none", "--steps", "9"], "takes no task and no other settings"),
        (["--resume", "none", "--skip-bad-rows"], "takes no task and no other settings"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(
    arguments: list[str],
    complaint: str,
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
    assert complaint in shown.err
    assert sorted(file.name for file in tmp_path.iterdir()) == ["bad.toml", "words.dict"]


def test_paths_are_written_in_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a,b").write_text("")
    assert full_paths("a") == str(tmp_path / "a")
    assert full_paths("a,b") == str(tmp_path / "a,b")  # such a file is there
    assert full_paths("x.de,y.en") == f"{tmp_path / 'x.de'},{tmp_path / 'y.en'}"


def test_columns_and_a_header_are_read_as_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = tmp_path / "pairs.csv"
    rows = [f"{word.upper()},x,{word}" for word in ("ab", "ba", "aab", "bb", "bab", "abb")]
    pairs.write_text("phones,other,word\n" + "\n".join(rows) + "\n")
    columns = ["--source-column", "word", "--target-column", "phones"]
    asked = [
        "train",
        "pronounce",
        "--pairs",
        str(pairs),
        "--validation",
        str(pairs),
        *columns,
        *TINY,
    ]
    out = tmp_path / "run"
    assert exit_code([*asked, "--steps", "2", "--threads", "1", "--out", str(out)]) == 0
    told = capsys.readouterr().err
    assert "6 pairs to learn from" in told
    assert "6 validation sources stand in the training part too" in told
    assert set(json.loads((out / "vocabulary.json").read_text())["source"]["tokens"]) == {"a", "b"}
    assert json.loads((out / "spec.json").read_text())["threads"] == 1
    numbers = tmp_path / "numbers.csv"
    numbers.write_text("word,phones\nab,AB\n")
    score = ["predict", str(out), "--score", str(numbers), "--header", "--json"]
    score += ["--source-column", "0", "--target-column", "1"]
    assert exit_code([*score, "--examples", "9"]) == 0
    shown = json.loads(capsys.readouterr().out)["examples"]
    assert [example["source"] for example in shown] == ["ab"]
    assert exit_code(["predict", str(out), "ab", "--header"]) == 2
    assert "--score" in capsys.readouterr().err
