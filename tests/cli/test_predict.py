"""`regard predict` on the command line: texts, files, scores, images, and usage errors."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.factories.command_line import exit_code

from regard.runs.folder import RunFolder
from regard.runs.load import TrainedRun, load

LINES = ["abc", "", "cafe", "fed"]


@pytest.fixture
def run(recurrent_run: RunFolder) -> str:
    return str(recurrent_run.path)


@pytest.fixture
def expected(run: str) -> list[str]:
    return load(run).predict(LINES)


def test_texts(run: str, expected: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["predict", run, *LINES]) == 0
    assert capsys.readouterr().out.splitlines() == expected


def test_json(run: str, expected: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["predict", run, "--json", *LINES]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows == [{"output": output} for output in expected]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_file(run: str, expected: list[str], end: str, tmp_path: Path) -> None:
    plain, packed, out = tmp_path / "in.txt", tmp_path / "in.gz", tmp_path / "out.txt"
    content = "".join(line + end for line in LINES).encode()
    plain.write_bytes(content)
    packed.write_bytes(gzip.compress(content))
    for file in (plain, packed):
        assert exit_code(["predict", run, "--file", str(file), "--out", str(out)]) == 0
        assert out.read_text().split("\n") == [*expected, ""]
    # The output may replace the input file.
    assert exit_code(["predict", run, "--file", str(plain), "--out", str(plain)]) == 0
    assert plain.read_text() == out.read_text()


def test_standard_input(
    run: str,
    expected: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("\n".join(LINES).encode())))
    assert exit_code(["predict", run, "--file", "-"]) == 0
    assert capsys.readouterr().out.splitlines() == expected
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"abc\n\xff\n")))
    assert exit_code(["predict", run, "--file", "-"]) == 2
    assert (
        capsys.readouterr().err == "error: Line 2 of the input is not UTF-8. Convert the input.\n"
    )


def test_failed_output_leaves_the_old_file(
    run: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines, out = tmp_path / "in.txt", tmp_path / "out.txt"
    lines.write_bytes(b"abc\n" * 600 + b"\xff\xfe\n")
    out.write_text("old")
    assert exit_code(["predict", run, "--file", str(lines), "--out", str(out)]) == 2
    shown = capsys.readouterr().err
    assert "in.txt:601: not UTF-8" in shown
    assert "--skip-bad-rows" not in shown  # which would not be taken here
    assert out.read_text() == "old"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["in.txt", "out.txt"]


def test_scores(run: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = load(run).predict(["cafe"])[0]
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text(f"cafe\t{output}\ncafe\tF\nalone\n")
    assert exit_code(["predict", run, "--score", str(pairs)]) == 2
    assert "--skip-bad-rows" in capsys.readouterr().err
    score = ["predict", run, "--score", str(pairs), "--skip-bad-rows"]
    assert exit_code([*score, "--json"]) == 0
    shown = capsys.readouterr()
    scores = json.loads(shown.out)
    assert scores.pop("loss") > 0
    assert scores == {"exact_match_error": 0.0, "per": 0.0, "signatures": {}}
    assert "skipped" in shown.err
    assert "scored 1 item\n" in shown.err
    out = tmp_path / "scores.txt"
    assert exit_code([*score, "--out", str(out)]) == 0
    lines = out.read_text().splitlines()
    assert lines[1:] == ["exact_match_error  0.0000 %", "              per  0.0000 %"]
    assert lines[0].startswith("             loss  0.")
    assert exit_code([*score, "--examples", "3"]) == 0  # there is only one
    lines = capsys.readouterr().out.splitlines()
    assert lines[-3].split() == ["input", "cafe"]
    assert lines[-2].split() == ["prediction", *output.split()]
    assert lines[-1].split("  ")[-1] == f"{output} | F"
    assert exit_code(["predict", run, "cafe", "--examples", "3"]) == 2
    assert "--score" in capsys.readouterr().err
    named = tmp_path / "pairs.data"
    named.write_text(f"cafe,{output}\n")
    assert exit_code(["predict", run, "--score", str(named), "--format", "csv", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["exact_match_error"] == 0.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Give one of three"),
        (["abc", "--file", "in.txt"], "Give one of three"),
        (["--file", "none.txt"], "There is no file 'none.txt'"),
        (["--score", "none.tsv"], "There is no file 'none.tsv'"),
        (["abc", "--out", "."], "'.' is a folder"),
        (["abc", "--beam", "0"], "beam_size=0"),
        (["abc", "--length-penalty", "-1"], "length_penalty=-1"),
        (["abc", "--skip-bad-rows"], "need --score"),
        (["abc", "--threads", "0"], "--threads 0"),
        (["a\udcff"], "at character 2"),
    ],
)
def test_usage_errors(
    arguments: list[str],
    message: str,
    run: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert exit_code(["predict", run, *arguments]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("error: ")
    assert message in shown.err
    assert list(tmp_path.iterdir()) == []


def test_folder_without_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["predict", str(tmp_path), "abc"]) == 2
    assert "is not a run" in capsys.readouterr().err


@pytest.mark.parametrize("source", ["texts", "file", "score"])
def test_unknown_characters_are_named_once(
    source: str, run: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["abc", "aжb", "шжюяэцц"]
    lines = {"file": "".join(f"{word}\n" for word in words)}
    lines["score"] = "".join(f"{word}\tA\n" for word in words)
    (tmp_path / "in.tsv").write_text(lines.get(source, ""), encoding="utf-8")
    given = words if source == "texts" else [f"--{source}", str(tmp_path / "in.tsv")]
    assert exit_code(["predict", run, *given]) == 0
    notes = [line for line in capsys.readouterr().err.splitlines() if "vocabulary" in line]
    assert notes == [
        "2 of 3 inputs have characters that are not in the model's vocabulary: "
        "'ж', 'ш', 'ю', 'я', 'э', …"
    ]


@pytest.mark.parametrize("option", ["--file", "--score"])
def test_progress_without_terminal(
    option: str,
    run: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("regard.cli.options.LINE_SECONDS", 0.0)
    file, out = tmp_path / "in.tsv", tmp_path / "out.txt"
    file.write_text("abc\nfed\n" if option == "--file" else "abc\tA\nfed\tF\n")
    assert exit_code(["predict", run, option, str(file), "--out", str(out)]) == 0
    shown = capsys.readouterr().err.splitlines()
    expected = "2 texts, 0 s" if option == "--file" else "2 of 2 texts, 0 s"
    assert expected in shown


def test_threads(run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    predict = TrainedRun.predict_each

    def record(self: TrainedRun, *args: Any, **kwargs: Any) -> Any:
        seen.append(torch.get_num_threads())
        return predict(self, *args, **kwargs)

    monkeypatch.setattr(TrainedRun, "predict_each", record)
    before = torch.get_num_threads()
    assert exit_code(["predict", run, "abc", "--threads", "1"]) == 0
    assert seen == [1]
    assert torch.get_num_threads() == before
