"""Labelled files on the command line: truncation, unseen labels, headers, long lines, usage errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.factories.command_line import regard

LONGEST = 12
WORDS = ("fine", "lovely", "great", "poor", "dull", "awful")


def write_reviews(path: Path, *, header: str = "", after: str = "") -> Path:
    rows = [
        f"{'good' if WORDS.index(word) < 3 else 'bad'},Film {number} is {word}.\n"
        for number in range(20)
        for word in WORDS
    ]
    path.write_text(header + "".join(rows) + after)
    return path


def train(labels: Path, out: Path, *more: object, steps: int = 2) -> Any:
    small = (
        *("model.model_dim=8", "model.hidden_dim=4", "model.dropout=0.0", "task.min_count=1"),
        *(f"task.max_length={LONGEST}", "task.batch_tokens=200", "task.validation_fraction=0.2"),
        *("training.evaluate_every=2", "training.averaging=none", "training.warmup_steps=1"),
    )
    settings = [word for setting in small for word in ("--set", setting)]
    return regard(
        "train", "classify", "--recipe", "classify-documents", "--train-file", labels,
        "--steps", steps, "--threads", 1, "--out", out, "--json", *settings, *more,
    )  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("documents")
    ran = train(write_reviews(folder / "reviews.csv"), folder / "run")
    assert ran.returncode == 0, ran.stderr
    return folder / "run"


TRUNCATED = f"truncated to {LONGEST} tokens"


def test_truncation_of_evaluation_files_is_recorded(tmp_path: Path) -> None:
    labels = write_reviews(tmp_path / "reviews.csv")
    long = tmp_path / "long.csv"
    long.write_text(f"good,{'fine ' * 4000}\nbad,{'dull ' * 4000}\n")
    ran = train(labels, tmp_path / "run", "--validation-file", long, "--test-file", long)
    assert ran.returncode == 0, ran.stderr
    data = json.loads(ran.stdout)["data"]
    assert data["truncated_texts"] == {"train": 0, "validation": 2, "test": 2}
    assert f"validation split: 2 of 2 texts {TRUNCATED}, 99.7 %" in " ".join(ran.stderr.split())


def test_truncation_of_predicted_texts_is_reported(run: Path, tmp_path: Path) -> None:
    long = "a fine film " * 2000
    for verb, more in (("predict", ()), ("look", ("--out", tmp_path / "look.html"))):
        ran = regard(verb, run, long, *more)
        assert ran.returncode == 0, ran.stderr
        assert f"1 of 1 text {TRUNCATED}, 99.8 %" in ran.stderr
    assert f"1 of 1 text {TRUNCATED}, 99.8 %" in (tmp_path / "look.html").read_text()
    lines = tmp_path / "lines.txt"
    lines.write_text(f"A film.\n{long}\n\n")
    ran = regard("predict", run, "--file", lines)
    assert len(ran.stdout.splitlines()) == 3
    assert f"1 of 2 texts {TRUNCATED}" in ran.stderr
    scored = tmp_path / "scored.csv"
    scored.write_text(f"good,{long}\nbad,A film.\n")
    ran = regard("predict", run, "--score", scored, "--json")
    assert f"1 of 2 texts {TRUNCATED}" in ran.stderr
    assert json.loads(ran.stdout)["accuracy"] >= 0
    assert regard("predict", run, "film").stderr == ""


def test_unseen_labels_have_no_loss(run: Path, tmp_path: Path) -> None:
    path = tmp_path / "unknown.csv"
    path.write_text("meh,A film.\nhm,A fine film.\n")
    ran = regard("predict", run, "--score", path)
    assert ran.returncode == 0, ran.stderr
    assert "2 of 2 texts with labels unseen in training: meh, hm" in ran.stderr
    assert "\n    loss       -\n" in ran.stdout
    plain = regard("predict", run, "--score", path, "--json").stdout

    def fail(constant: str) -> None:
        raise AssertionError(f"{constant} is not valid JSON")

    assert json.loads(plain, parse_constant=fail)["loss"] is None


def test_undeclared_header_raises(run: Path, tmp_path: Path) -> None:
    path = write_reviews(tmp_path / "head.csv", header="label,text\n")
    for ran in (train(path, tmp_path / "run"), regard("predict", run, "--score", path)):
        assert ran.returncode == 2
        assert "header ('label', 'text')" in ran.stderr
        assert "--source-column text --target-column label" in ran.stderr
    assert train(path, tmp_path / "named", "--header").returncode == 0
    named = ("--source-column", "text", "--target-column", "label")
    assert regard("predict", run, "--score", path, *named).returncode == 0


def test_blank_line(tmp_path: Path) -> None:
    path = write_reviews(tmp_path / "blank.csv", after="\n")
    ran = train(path, tmp_path / "run")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["data"]["row_errors"] == 0


def test_long_lines(run: Path, tmp_path: Path) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("fine " * 50_000 + "\n")  # longer than the limit for pairs
    assert regard("predict", run, "--file", lines).returncode == 0
    scored = tmp_path / "scored.csv"
    scored.write_text("good," + "fine " * 210_000 + "\n")
    lines.write_text("fine " * 210_000 + "\n")
    ran = regard("predict", run, "--file", lines)
    assert ran.returncode == 2
    assert "1,000,000" in ran.stderr
    assert "or raise --max-line-bytes" in ran.stderr
    ran = regard("predict", run, "--score", scored)
    assert "task.max_line_bytes" in ran.stderr
    longer = ("--max-line-bytes", 2_000_000)
    assert regard("predict", run, "--file", lines, *longer).stdout.strip() in ("good", "bad")
    assert regard("predict", run, "--score", scored, *longer).returncode == 0
    refused = regard("predict", run, "A film.", *longer)
    assert "--max-line-bytes 2000000" in refused.stderr


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--set", "task.vocabulary_size=1"), "task.vocabulary_size=1"),
        (("--set", "model.nam=hierarchical"), "Did you mean 'model.name'?"),
        (("--set", "task.metric=hop_overlap"), "task.metric=hop_overlap"),
        (("--set", "task.max_line_bytes=0"), "task.max_line_bytes=0"),
        (("--source-column", 1, "--target-column", 1), "both read from column 1"),
        (("--source-column", 0, "--target-column", 1), "--target-column"),
    ],
)
def test_usage_errors(tmp_path: Path, more: tuple[object, ...], message: str) -> None:
    labels = write_reviews(tmp_path / "reviews.csv")
    ran = train(labels, tmp_path / "run", *more)
    assert ran.returncode == 2
    assert message in ran.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("verb", "words"),
    [
        ("train", ("labelled", "film-languages", "movie-reviews", "movie-sentences")),
        ("predict", ("labelled", "--max-line-bytes")),
    ],
)
def test_help_names_formats_and_datasets(verb: str, words: tuple[str, ...]) -> None:
    shown = "".join(regard(verb, "--help").stdout.split())  # lines break inside words
    for word in words:
        assert word in shown
