"""`regard train` and `predict` of the tasks that read texts: lm, recall, encoder, classify."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.factories.command_line import exit_code

SMALL = ["--threads", "1", "--steps", "2", "--set", "training.evaluate_every=2"]
NARROW = [
    "--set",
    "model.model_dim=16",
    "--set",
    "model.num_heads=2",
    "--set",
    "model.num_layers=1",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts, questions about them, and labels."""
    path = tmp_path_factory.mktemp("texts")
    names = [
        f"{first} {last}"
        for first in ("Ann", "Bo", "Cy", "Di")
        for last in ("Ax", "By", "Co", "De")
    ]
    facts = [f"{name} was born in {place} ." for name in names for place in ("Rome",)]
    (path / "facts.txt").write_text("\n".join(facts) + "\n")
    asked = [f"Where was {name} born ?\tRome\n" for name in names]
    (path / "train.tsv").write_text("".join(asked[:12]))
    (path / "dev.tsv").write_text("".join(asked[12:]))
    labelled = [
        f"{label}\tthis is {label} number {n}\n" for n in range(30) for label in ("good", "bad")
    ]
    (path / "labels.tsv").write_text("".join(labelled))
    return path


@pytest.fixture(scope="module")
def language_model(folder: Path) -> str:
    out = str(folder / "lm")
    words = [
        *("--text", str(folder / "facts.txt"), "--set", "task.validation_share=0"),
        *("--set", "task.vocabulary_size=80"),
    ]
    assert exit_code(["train", "lm", *words, *SMALL, *NARROW, "--out", out]) == 0
    return out


@pytest.fixture(scope="module")
def encoder(folder: Path) -> str:
    out = str(folder / "encoder")
    sizes = ["--set", "task.vocabulary_size=60", "--set", "task.validation_share=0.3"]
    text = ["--text", str(folder / "facts.txt")]
    assert exit_code(["train", "encoder", *text, *SMALL, *NARROW, *sizes, "--out", out]) == 0
    return out


def test_a_text_goes_on_as_it_is_written(
    language_model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    drawing = [
        "--tokens",
        "4",
        "--temperature",
        "0.5",
        "--top-k",
        "5",
        "--top-p",
        "0.9",
        "--seed",
        "7",
    ]
    assert exit_code(["predict", language_model, "Ann Ax", *drawing]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Ann Ax")
    assert exit_code(["predict", language_model, "Ann Ax", *drawing]) == 0
    assert capsys.readouterr().out == shown
    assert exit_code(["predict", language_model, "Ann Ax", *drawing, "--json"]) == 0
    assert "Ann Ax" + json.loads(capsys.readouterr().out)["output"] == shown.rstrip("\n")


def test_a_language_model_is_scored_on_texts(
    language_model: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    score = ["predict", language_model, "--score", str(folder / "facts.txt"), "--json"]
    assert exit_code(score) == 0
    assert {"perplexity", "bits_per_character"} <= set(json.loads(capsys.readouterr().out))


def test_questions_after_texts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = ["--pairs", str(folder / "train.tsv"), "--validation", str(folder / "dev.tsv")]
    reading = ["--text", str(folder / "facts.txt"), "--set", "pretraining.training.steps=2"]
    out = str(folder / "recall")
    assert exit_code(["train", "recall", *files, *reading, *SMALL, *NARROW, "--out", out]) == 0
    shown = capsys.readouterr()
    assert "always 'Rome': 100" in shown.out
    assert "pre-training" in shown.err
    assert (Path(out) / "pretraining" / "record.json").is_file()
    assert exit_code(["predict", out, "Where was Ann Ax born ?", "--tokens", "3"]) == 2
    assert "are for a language model that goes on" in capsys.readouterr().err


def test_a_run_starts_from_another_with_its_model(
    language_model: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = ["--pairs", str(folder / "train.tsv"), "--validation", str(folder / "dev.tsv")]
    out = str(folder / "started")
    start = ["--start", language_model, *SMALL, "--out", out]
    assert exit_code(["train", "recall", *files, *start]) == 0
    assert "tensors start from" in capsys.readouterr().err
    spec = json.loads((Path(out) / "spec.json").read_text())
    assert spec["model"]["model_dim"] == 16
    assert spec["start"] == str(Path(language_model).absolute())
    assert "pretraining" not in spec


def test_masks_are_filled_and_labels_told(
    encoder: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(["predict", encoder, "Ann was born in [MASK] ."]) == 0
    filled = capsys.readouterr().out
    assert "[MASK]" not in filled
    assert filled.startswith("ann was born in")
    out = str(folder / "classify")
    labels = ["--labels", str(folder / "labels.tsv"), "--set", "task.validation_share=0.3"]
    assert exit_code(["train", "classify", *labels, "--start", encoder, *SMALL, "--out", out]) == 0
    shown = capsys.readouterr()
    assert "new: class" in shown.err
    assert "commonest label" in shown.out
    assert exit_code(["predict", out, "this is good"]) == 0
    assert capsys.readouterr().out.strip() in {"good", "bad"}
    assert exit_code(["predict", out, "this is good", "--beam", "3"]) == 2
    assert "for a model that writes an answer" in capsys.readouterr().err
    assert exit_code(["predict", encoder, "a [MASK]", "--attention", str(folder / "a.svg")]) == 2
    assert "for a model that writes an answer" in capsys.readouterr().err
    assert exit_code(["predict", encoder, "word " * 300]) == 2
    assert "Give it in parts" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["train", "translate", "--text", "x.txt"],
            "does not learn from texts, and has no pre-training",
        ),
        (["train", "classify", "--labels", "nowhere.tsv"], "nowhere.tsv'. Check the name"),
        (["train", "recall", "--start", "nowhere"], "'nowhere' is not a run"),
        (["train", "lm", "--set", "model.name=text_encoder"], "cannot learn the task 'lm'"),
        (["train", "lm", "--labels", "x.tsv"], "Unknown option 'task.labels'"),
        (["train", "lm", "--text", "nowhere.txt"], "nowhere.txt'. Check the name and the folder"),
        (["plan", "encoder", "--length", "9"], "makes up pairs of texts"),
    ],
)
def test_mistakes(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(arguments) == 2
    assert message in capsys.readouterr().err
