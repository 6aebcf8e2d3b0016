"""Labelled files on the command line: what is cut off, unknown or misread is said, and how to go on."""

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
        *(f"task.max_length={LONGEST}", "task.batch_tokens=200", "task.validation_share=0.2"),
        *("training.evaluate_every=2", "training.averaging=none", "training.warmup_steps=1"),
    )
    settings = [part for setting in small for part in ("--set", setting)]
    return regard(
        "train", "classify", "--recipe", "classify-documents", "--labels", labels, "--steps", steps,
        "--threads", 1, "--out", out, "--json", *settings, *more,
    )  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("documents")
    ran = train(write_reviews(folder / "reviews.csv"), folder / "run")
    assert ran.returncode == 0, ran.stderr
    return folder / "run"


CUT = f"cut off after {LONGEST} tokens, which leaves out"


def test_texts_cut_off_in_held_out_files_are_told_and_recorded(tmp_path: Path) -> None:
    labels = write_reviews(tmp_path / "reviews.csv")
    long = tmp_path / "long.csv"
    long.write_text(f"good,{'fine ' * 4000}\nbad,{'dull ' * 4000}\n")
    ran = train(labels, tmp_path / "run", "--validation", long, "--test", long)
    assert ran.returncode == 0, ran.stderr
    data = json.loads(ran.stdout)["data"]
    assert data["cut_texts"] == {"train": 0, "validation": 2, "test": 2}
    assert f"of the validation part, 2 of 2 texts are {CUT} 99.7 %" in " ".join(ran.stderr.split())


def test_predictions_of_texts_cut_off_say_so(run: Path, tmp_path: Path) -> None:
    long = "a fine film " * 2000
    ran = regard("predict", run, long, "--attention", tmp_path / "look.html")
    assert ran.returncode == 0, ran.stderr
    assert f"1 of 1 text is {CUT} 99.8 %" in ran.stderr
    page = (tmp_path / "look.html").read_text()
    assert "its last 5,988 tokens" in page
    assert len(page) < len(long) + 40_000
    lines = tmp_path / "lines.txt"
    lines.write_text(f"A film.\n{long}\n\n")
    ran = regard("predict", run, "--file", lines)
    assert len(ran.stdout.splitlines()) == 3
    assert f"1 of 2 texts is {CUT}" in ran.stderr
    scored = tmp_path / "scored.csv"
    scored.write_text(f"good,{long}\nbad,A film.\n")
    ran = regard("predict", run, "--score", scored, "--json")
    assert f"1 of 2 texts is {CUT}" in ran.stderr
    assert json.loads(ran.stdout)["accuracy"] >= 0
    assert regard("predict", run, "A film.").stderr == ""


def test_a_file_of_labels_never_learned_has_no_loss(run: Path, tmp_path: Path) -> None:
    path = tmp_path / "unknown.csv"
    path.write_text("meh,A film.\nhm,A fine film.\n")
    ran = regard("predict", run, "--score", path)
    assert ran.returncode == 0, ran.stderr
    assert "2 of 2 texts have labels that the model never learned: meh, hm" in ran.stderr
    assert "     loss  -\n" in ran.stdout
    plain = regard("predict", run, "--score", path, "--json").stdout

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    assert json.loads(plain, parse_constant=refuse)["loss"] is None


def test_a_header_is_not_taken_for_a_label(run: Path, tmp_path: Path) -> None:
    path = write_reviews(tmp_path / "head.csv", header="label,text\n")
    for ran in (train(path, tmp_path / "run"), regard("predict", run, "--score", path)):
        assert ran.returncode == 2
        assert "seems to name the columns ('label', 'text')" in ran.stderr
        assert "Give --header, or name the columns: --source-column text --target" in ran.stderr
    assert train(path, tmp_path / "named", "--header").returncode == 0
    named = ("--source-column", "text", "--target-column", "label")
    assert regard("predict", run, "--score", path, *named).returncode == 0


def test_a_blank_line_ends_no_reading(tmp_path: Path) -> None:
    path = write_reviews(tmp_path / "blank.csv", after="\n")
    ran = train(path, tmp_path / "run")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["data"]["bad_rows"] == 0


def test_long_documents_are_read_alike_by_all_verbs(run: Path, tmp_path: Path) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("fine " * 50_000 + "\n")  # more than a line of pairs may have
    assert regard("predict", run, "--file", lines).returncode == 0
    scored = tmp_path / "scored.csv"
    scored.write_text("good," + "fine " * 210_000 + "\n")
    lines.write_text("fine " * 210_000 + "\n")
    ran = regard("predict", run, "--file", lines)
    assert ran.returncode == 2
    assert "at most 1,000,000 are read. Every line gets an output, so fix the" in ran.stderr
    assert "or raise --max-line-bytes" in ran.stderr
    ran = regard("predict", run, "--score", scored)
    assert (
        "Raise task.max_line_bytes (of predict: --max-line-bytes), shorten the line" in ran.stderr
    )
    longer = ("--max-line-bytes", 2_000_000)
    assert regard("predict", run, "--file", lines, *longer).stdout.strip() in ("good", "bad")
    assert regard("predict", run, "--score", scored, *longer).returncode == 0
    refused = regard("predict", run, "A film.", *longer)
    assert "--max-line-bytes 2000000: it is how long a line may be" in refused.stderr


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--set", "task.vocabulary_size=1"), "task.vocabulary_size=1: 4 numbers are taken"),
        (("--set", "model.nam=hierarchical"), "Did you mean 'model.name'?"),
        (("--set", "task.metric=hop_overlap"), "task.metric=hop_overlap: this model does not look"),
        (("--set", "task.max_line_bytes=0"), "task.max_line_bytes=0: it must be from 1"),
        (("--source-column", 1, "--target-column", 1), "both read from column 1"),
        (("--source-column", 0, "--target-column", 1), "the label column looks like texts"),
    ],
)
def test_what_is_refused(tmp_path: Path, more: tuple[object, ...], message: str) -> None:
    labels = write_reviews(tmp_path / "reviews.csv")
    ran = train(labels, tmp_path / "run", *more)
    assert ran.returncode == 2
    assert message in ran.stderr
    assert not (tmp_path / "run").exists()


def test_a_picture_of_another_kind_names_all_that_can_be_drawn(run: Path, tmp_path: Path) -> None:
    ran = regard("predict", run, "A film.", "--attention", tmp_path / "a.gif")
    assert ran.returncode == 2
    assert "End the name in .html, .svg or .png." in ran.stderr


@pytest.mark.parametrize(
    ("verb", "words"),
    [
        ("train", ("labelled", "film-languages", "movie-reviews", "movie-sentences")),
        ("predict", ("labelled", "--max-line-bytes")),
    ],
)
def test_help_names_the_format_and_the_sets(verb: str, words: tuple[str, ...]) -> None:
    shown = "".join(regard(verb, "--help").stdout.split())  # lines break inside the words
    for word in words:
        assert word in shown
