"""`regard train` and `predict` of language models: lm, closed_book_qa, masked_lm, and fine-tuning."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.factories.command_line import exit_code

import regard

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
    questions = [f"Where was {name} born ?\tRome\n" for name in names]
    (path / "train.tsv").write_text("".join(questions[:12]))
    (path / "validation.tsv").write_text("".join(questions[12:]))
    labelled = [
        f"{label}\tthis is {label} number {n}\n" for n in range(30) for label in ("good", "bad")
    ]
    (path / "labels.tsv").write_text("".join(labelled))
    return path


@pytest.fixture(scope="module")
def language_model(folder: Path) -> str:
    out = str(folder / "lm")
    options = [
        *("--train-file", str(folder / "facts.txt"), "--set", "task.validation_fraction=0"),
        *("--set", "task.vocabulary_size=80"),
    ]
    assert exit_code(["train", "lm", *options, *SMALL, *NARROW, "--out", out]) == 0
    return out


@pytest.fixture(scope="module")
def encoder(folder: Path) -> str:
    out = str(folder / "masked_lm")
    sizes = ["--set", "task.vocabulary_size=60", "--set", "task.validation_fraction=0.3"]
    text = ["--train-file", str(folder / "facts.txt")]
    assert exit_code(["train", "masked_lm", *text, *SMALL, *NARROW, *sizes, "--out", out]) == 0
    return out


def test_generation(language_model: str, capsys: pytest.CaptureFixture[str]) -> None:
    sampling = [
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
    assert exit_code(["predict", language_model, "Ann Ax", *sampling]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Ann Ax")
    assert exit_code(["predict", language_model, "Ann Ax", *sampling]) == 0
    assert capsys.readouterr().out == shown
    assert exit_code(["predict", language_model, "Ann Ax", *sampling, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record == {"text": "Ann Ax", "continuation": shown.removeprefix("Ann Ax").rstrip("\n")}


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--tokens", "0"], "--tokens 0: it must be 1 or more"),
        (["--temperature", "-1"], "--temperature -1.0:"),
        (["--top-k", "0"], "--top-k 0:"),
    ],
)
def test_nothing_is_written_before_a_usage_error(
    option: list[str],
    message: str,
    language_model: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = ["--out", str(tmp_path / "out.txt")]
    for arguments in (option, [*option, *out]):
        assert exit_code(["predict", language_model, "Ann", *arguments]) == 2
        shown = capsys.readouterr()
        assert shown.out == ""
        assert message in shown.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("count", [1, 2])
def test_the_prompt_comes_before_its_continuation(
    count: int, language_model: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in Hugging Face's text-generation pipeline, whatever the number of texts and their source."""
    prompts = ["Ann Ax", "Bob"][:count]
    assert exit_code(["predict", language_model, *prompts, "--tokens", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.startswith(text) for line, text in zip(lines, prompts, strict=True)] == [
        True
    ] * count
    (folder / "prompts.txt").write_text("".join(f"{text}\n" for text in prompts))
    file = ["--file", str(folder / "prompts.txt")]
    assert exit_code(["predict", language_model, *file, "--tokens", "3"]) == 0
    assert capsys.readouterr().out.splitlines() == lines
    assert regard.predict(language_model, prompts, tokens=3) == lines


def test_evaluate_a_language_model(
    language_model: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    score = ["predict", language_model, "--score", str(folder / "facts.txt"), "--json"]
    assert exit_code(score) == 0
    assert {"perplexity", "bits_per_character"} <= set(json.loads(capsys.readouterr().out))


def test_closed_book_qa_after_pre_training(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [
        "--train-file",
        str(folder / "train.tsv"),
        "--validation-file",
        str(folder / "validation.tsv"),
    ]
    pretraining = [
        "--pretrain-file",
        str(folder / "facts.txt"),
        "--set",
        "pretraining.training.steps=2",
    ]
    out = str(folder / "closed_book_qa")
    assert (
        exit_code(["train", "closed_book_qa", *files, *pretraining, *SMALL, *NARROW, "--out", out])
        == 0
    )
    shown = capsys.readouterr()
    assert re.search(r"majority baseline 'Rome': exact_match 100 %  \([\d.]+ (m|µ)?s\)", shown.out)
    assert "pre-training" in shown.err
    assert (Path(out) / "pretraining" / "record.json").is_file()
    assert exit_code(["predict", out, "Where was Ann Ax born ?", "--tokens", "3"]) == 2
    assert "--temperature" in capsys.readouterr().err


def test_init_from(language_model: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [
        "--train-file",
        str(folder / "train.tsv"),
        "--validation-file",
        str(folder / "validation.tsv"),
    ]
    out = str(folder / "started")
    init = ["--init-from", language_model, *SMALL, "--out", out]
    assert exit_code(["train", "closed_book_qa", *files, *init]) == 0
    assert "tensors" in capsys.readouterr().err
    spec = json.loads((Path(out) / "spec.json").read_text())
    assert spec["model"]["model_dim"] == 16
    assert spec["init_from"] == str(Path(language_model).absolute())
    assert "pretraining" not in spec


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("task.tokens=words", "task.tokens=words, but its vocabulary"),
        ("model.hidden_dim=3", "The model is that of"),
    ],
)
def test_options_that_the_initial_run_decides(
    setting: str,
    message: str,
    language_model: str,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    train = ["train", "lm", "--train-file", str(folder / "facts.txt"), "--init-from"]
    out = folder / "refused"
    assert exit_code([*train, language_model, "--set", setting, "--out", str(out)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert language_model in error
    assert not out.exists()


def test_tokens_of_another_kind_of_task_follow_the_initial_run(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The recipe of closed_book_qa has subwords, the language model characters."""
    text = ["--train-file", str(folder / "facts.txt"), "--set", "task.validation_fraction=0"]
    before, out = str(folder / "characters"), folder / "qa-characters"
    characters = ["--set", "task.tokens=characters", "--out", before]
    assert exit_code(["train", "lm", *text, *SMALL, *NARROW, *characters]) == 0
    pairs = ["--train-file", str(folder / "train.tsv"), "--init-from", before]
    assert exit_code(["train", "closed_book_qa", *pairs, *SMALL, "--out", str(out)]) == 0
    assert f"model and vocabulary of {before}\n" in capsys.readouterr().err
    task = json.loads((out / "spec.json").read_text())["task"]
    assert (task["source_tokens"], task["target_tokens"]) == ("characters", "characters")


def test_masked_lm_and_fine_tuning(
    encoder: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(["predict", encoder, "Ann was born in [MASK] ."]) == 0
    filled = capsys.readouterr().out
    assert "[MASK]" not in filled
    assert filled.startswith("ann was born in")
    out = str(folder / "classify")
    labels = ["--train-file", str(folder / "labels.tsv"), "--set", "task.validation_fraction=0.3"]
    assert (
        exit_code(["train", "classify", *labels, "--init-from", encoder, *SMALL, "--out", out]) == 0
    )
    shown = capsys.readouterr()
    assert "new: head" in shown.err
    assert "majority baseline: " in shown.out
    assert "TF-IDF + logistic regression: " in shown.out
    assert exit_code(["predict", out, "this is good"]) == 0
    assert capsys.readouterr().out.strip() in {"good", "bad"}
    assert exit_code(["predict", out, "this is good", "--beam", "3"]) == 2
    assert "sequence-to-sequence" in capsys.readouterr().err
    assert exit_code(["look", encoder, "a [MASK]", "--svg", str(folder / "a.svg")]) == 0
    assert (folder / "a.svg").read_bytes().startswith(b"<svg")
    capsys.readouterr()
    assert exit_code(["predict", encoder, "word " * 300]) == 2
    assert "300 tokens" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["train", "translate", "--pretrain-file", "x.txt"],
            "--pretrain-file x.txt",
        ),
        (["train", "classify", "--train-file", "nowhere.tsv"], "nowhere.tsv"),
        (["train", "closed_book_qa", "--init-from", "nowhere"], "'nowhere' is not a run"),
        (["train", "lm", "--set", "model.name=text_encoder"], "model.name=text_encoder"),
        (["train", "lm", "--train-file", "nowhere.txt"], "nowhere.txt"),
        (["plan", "masked_lm", "--length", "9"], "masked_lm"),
    ],
)
def test_usage_errors(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(arguments) == 2
    assert message in capsys.readouterr().err
