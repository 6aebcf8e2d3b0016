"""Text classification on the command line: every recipe, attention images, evaluation, usage errors."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.factories.command_line import regard

GOOD, BAD = ("fine", "lovely", "great"), ("poor", "dull", "awful")


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Short reviews of two or three sentences, whose label depends on one word."""
    random = Random(7)
    rows = []
    for number in range(160):
        label, words = (("good", GOOD), ("bad", BAD))[number % 2]
        sentences = ["We saw it on a rainy day.", f"It was a {random.choice(words)} film."]
        if random.random() < 0.5:
            sentences.append(f"Number {number} in my list!")
        random.shuffle(sentences)
        rows.append(f"{label}\t{' '.join(sentences)}")
    path = tmp_path_factory.mktemp("labelled") / "reviews.tsv"
    path.write_text("\n".join(rows) + "\n")
    return path


def trained(recipe: str, labelled: Path, out: Path, *settings: str, steps: int = 40) -> Any:
    small = [
        "training.evaluate_every=20",
        "training.averaging=none",
        "training.learning_rate=0.01",
        "training.warmup_steps=5",
        "task.validation_fraction=0.2",
        "task.min_count=1",
        "task.batch_tokens=600",
        *settings,
    ]
    options = [word for setting in small for word in ("--set", setting)]
    return regard(
        "train", "classify", "--recipe", recipe, "--train-file", labelled, "--steps", steps,
        "--threads", 1, "--out", out, *options, "--json",
    )  # fmt: skip


@pytest.fixture(scope="module")
def hierarchical(labelled: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "documents"
    sizes = (
        *("model.model_dim=16", "model.hidden_dim=8", "model.dropout=0.1"),
        "model.affix_buckets=200",  # affixes are not in the checkpoint: prediction recomputes them
    )
    training = (
        *("model.word_dropout=0", "training.learning_rate=0.03", "training.keep=last"),
        "task.test_fraction=0.2",
    )
    ran = trained("classify-documents", labelled, folder, *sizes, *training, steps=50)
    assert ran.returncode == 0, ran.stderr
    record = json.loads(ran.stdout)
    # ten seeds: 82.5 to 100; untrained: 35 or 65
    assert record["scores"]["test"]["accuracy"] >= 70
    assert set(record["details"]["test"]) == {"confusion", "calibration", "deletion"}
    assert record["data"]["class_balance"]["counts"].keys() == {"good", "bad"}
    return folder


def test_attention_as_page_and_images(hierarchical: Path, tmp_path: Path) -> None:
    text = "We saw it on a rainy day. It was a lovely film."
    for option, name, sign in (
        ("--out", "a.html", "lovely"),
        ("--svg", "a.svg", "lovely"),
        ("--png", "a.png", "PNG"),
    ):
        ran = regard("look", hierarchical, text, option, tmp_path / name)
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout.strip() in ("good", "bad")
        content = (tmp_path / name).read_bytes()
        assert sign.encode() in content
        assert len(content) > 1000


def test_evaluation_details(hierarchical: Path, labelled: Path) -> None:
    ran = regard("predict", hierarchical, "--score", labelled)
    assert ran.returncode == 0, ran.stderr
    for text in ("accuracy", "true \\ predicted", "calibration:", "deletion: "):
        assert text in ran.stdout
    plain = json.loads(regard("predict", hierarchical, "--score", labelled, "--json").stdout)
    counts = plain["details"]["confusion"]["counts"]
    assert sum(map(sum, counts)) == 160


def test_structured_reports_hop_overlap(labelled: Path, tmp_path: Path) -> None:
    sizes = ("model.model_dim=16", "model.hidden_dim=8", "model.hops=3", "model.penalty=frobenius")
    ran = trained("classify-structured", labelled, tmp_path / "run", *sizes, steps=20)
    assert ran.returncode == 0, ran.stderr
    assert 0 <= json.loads(ran.stdout)["scores"]["test"]["hop_overlap"] <= 1


@pytest.mark.stress
def test_study_of_classifiers(labelled: Path, tmp_path: Path) -> None:
    ran = regard(
        "study", "hops", "--train-file", labelled, "--source-column", 1, "--target-column", 0,
        "--seeds", 2, "--steps", 4, "--workers", 1,
        "--out", tmp_path / "study", "--json",
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    variants = {
        variant["name"]: variant["scores"] for variant in json.loads(ran.stdout)["variants"]
    }
    assert variants["1 hop"]["hop_overlap"]["mean"] is None
    assert 0 <= variants["8 hops"]["hop_overlap"]["mean"] <= 1
    assert (tmp_path / "study" / "page.html").is_file()


def test_trees(labelled: Path, tmp_path: Path) -> None:
    ran = trained("classify-trees", labelled, tmp_path / "run", "model.model_dim=8", steps=20)
    assert ran.returncode == 0, ran.stderr
    drawn = regard("look", tmp_path / "run", "It was a dull film.", "--svg", tmp_path / "t.svg")
    assert drawn.returncode == 0, drawn.stderr
    assert b"dull" in (tmp_path / "t.svg").read_bytes()
    assert b"reconstruction error" in (tmp_path / "t.svg").read_bytes()


@pytest.mark.parametrize(
    ("recipe", "settings", "message"),
    [
        ("classify-documents", ["task.sentences=false"], "task.sentences=true"),
        ("classify", ["task.sentences=true"], "'text_encoder'"),
        ("classify-documents", ["model.gated=true"], "gated=True"),
        ("classify-documents", ["model.context=after"], "model.context=after"),
        ("classify-structured", ["model.penalty=frobenus"], "'frobenius'"),
        ("classify-structured", ["model.hidden_dim=-1"], "model.hidden_dim=-1"),
        ("classify-structured", ["task.min_count=0"], "task.min_count=0"),
    ],
)
def test_usage_errors(
    labelled: Path, tmp_path: Path, recipe: str, settings: list[str], message: str
) -> None:
    ran = trained(recipe, labelled, tmp_path / "run", *settings)
    assert ran.returncode == 2
    assert message in ran.stderr
    assert not (tmp_path / "run").exists()


def test_model_without_attention(labelled: Path, tmp_path: Path) -> None:
    ran = trained(
        "classify-structured", labelled, tmp_path / "run", "model.name=bag_of_words", steps=10
    )
    assert ran.returncode == 0, ran.stderr
    assert "deletion" not in json.loads(ran.stdout)["details"]["test"]
    look = ("look", tmp_path / "run", "A film.", "--svg", tmp_path / "a.svg")
    drawn = regard(*look, "--view", "map")
    assert drawn.returncode == 2
    assert "has no attention maps for this input" in drawn.stderr
    assert not (tmp_path / "a.svg").exists()
    assert regard(*look).returncode == 0
    assert "Attribution" in (tmp_path / "a.svg").read_text()
