"""Documents on the command line: train by each recipe, look at a text, score a file; what is refused."""

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
    """Short reviews of two sentences or three, whose label hangs on one word."""
    random = Random(7)
    rows = []
    for number in range(160):
        label, words = (("good", GOOD), ("bad", BAD))[number % 2]
        parts = ["We saw it on a rainy day.", f"It was a {random.choice(words)} film."]
        if random.random() < 0.5:
            parts.append(f"Number {number} in my list!")
        random.shuffle(parts)
        rows.append(f"{label}\t{' '.join(parts)}")
    path = tmp_path_factory.mktemp("labelled") / "reviews.tsv"
    path.write_text("\n".join(rows) + "\n")
    return path


def trained(recipe: str, labelled: Path, out: Path, *settings: str, steps: int = 40) -> Any:
    small = [
        "training.evaluate_every=20",
        "training.averaging=none",
        "training.learning_rate=0.01",
        "training.warmup_steps=5",
        "task.validation_share=0.2",
        "task.min_count=1",
        "task.batch_tokens=600",
        *settings,
    ]
    given = [part for setting in small for part in ("--set", setting)]
    return regard(
        "train", "classify", "--recipe", recipe, "--labels", labelled, "--steps", steps,
        "--threads", 1, "--out", out, *given, "--json",
    )  # fmt: skip


@pytest.fixture(scope="module")
def hierarchical(labelled: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "documents"
    sizes = (
        *("model.model_dim=16", "model.hidden_dim=8", "model.dropout=0.1"),
        "model.spelling_table=200",  # spellings are in no weights file: prediction reads them anew
    )
    learns = (
        *("model.word_dropout=0", "training.learning_rate=0.03", "training.keep=last"),
        "task.test_share=0.2",
    )
    ran = trained("classify-documents", labelled, folder, *sizes, *learns, steps=50)
    assert ran.returncode == 0, ran.stderr
    record = json.loads(ran.stdout)
    # ten seeds: 82.5 to 100; untrained: 35 or 65
    assert record["scores"]["test"]["accuracy"] >= 70
    assert set(record["details"]["test"]) == {"confusion", "calibration", "deletion"}
    assert record["data"]["label_balance"]["counts"].keys() == {"good", "bad"}
    return folder


def test_a_document_as_a_page_and_as_pictures(hierarchical: Path, tmp_path: Path) -> None:
    text = "We saw it on a rainy day. It was a lovely film."
    for name, sign in (("a.html", "lovely"), ("a.svg", "<svg"), ("a.png", "")):
        ran = regard("predict", hierarchical, text, "--attention", tmp_path / name)
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout.strip() in ("good", "bad")
        written = (tmp_path / name).read_bytes()
        assert sign.encode() in written
        assert len(written) > 1000


def test_scoring_a_file_says_which_labels_are_mixed_up(hierarchical: Path, labelled: Path) -> None:
    ran = regard("predict", hierarchical, "--score", labelled)
    assert ran.returncode == 0, ran.stderr
    for words in ("accuracy", "right \\ said", "calibration:", "deletion: Over 100 texts"):
        assert words in ran.stdout
    plain = json.loads(regard("predict", hierarchical, "--score", labelled, "--json").stdout)
    counts = plain["details"]["confusion"]["counts"]
    assert sum(map(sum, counts)) == 160


def test_structured_says_how_much_its_hops_share(labelled: Path, tmp_path: Path) -> None:
    sizes = ("model.model_dim=16", "model.hidden_dim=8", "model.hops=3", "model.penalty=frobenius")
    ran = trained("classify-structured", labelled, tmp_path / "run", *sizes, steps=20)
    assert ran.returncode == 0, ran.stderr
    assert 0 <= json.loads(ran.stdout)["scores"]["test"]["hop_overlap"] <= 1


def test_a_study_of_classifiers(labelled: Path, tmp_path: Path) -> None:
    ran = regard(
        "study", "hops", "--labels", labelled, "--source-column", 1, "--target-column", 0,
        "--seeds", 2, "--steps", 4, "--workers", 1,
        "--out", tmp_path / "study", "--json",
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    variants = {
        variant["name"]: variant["scores"] for variant in json.loads(ran.stdout)["variants"]
    }
    assert "hop_overlap" not in variants["1 hop"]
    assert 0 <= variants["8 hops"]["hop_overlap"] <= 1
    assert (tmp_path / "study" / "page.html").is_file()


def test_trees(labelled: Path, tmp_path: Path) -> None:
    ran = trained("classify-trees", labelled, tmp_path / "run", "model.model_dim=8", steps=20)
    assert ran.returncode == 0, ran.stderr
    drawn = regard(
        "predict", tmp_path / "run", "It was a dull film.", "--attention", tmp_path / "t.svg"
    )
    assert drawn.returncode == 0, drawn.stderr
    assert b"dull" in (tmp_path / "t.svg").read_bytes()
    page = regard("predict", tmp_path / "run", "It was.", "--attention", tmp_path / "t.html")
    assert page.returncode == 2
    assert "End the name in .svg or .png" in page.stderr


@pytest.mark.parametrize(
    ("recipe", "settings", "message"),
    [
        (
            "classify-documents",
            ["task.sentences=false"],
            "reads sentences, but texts are not cut into them",
        ),
        (
            "classify",
            ["task.sentences=true"],
            "to the model 'text_encoder' a segment is one of two",
        ),
        ("classify-documents", ["model.gated=true"], "model.gated=true without a context"),
        (
            "classify-documents",
            ["model.context=after"],
            "model.context='after': it must be one of none",
        ),
        ("classify-structured", ["model.penalty=frobenus"], "Did you mean 'frobenius'"),
        (
            "classify-structured",
            ["model.hidden_dim=-1"],
            "model.hidden_dim=-1: it must be 0, for none",
        ),
        ("classify-structured", ["task.min_count=0"], "task.min_count=0: it must be 1 or more"),
    ],
)
def test_what_is_refused(
    labelled: Path, tmp_path: Path, recipe: str, settings: list[str], message: str
) -> None:
    ran = trained(recipe, labelled, tmp_path / "run", *settings)
    assert ran.returncode == 2
    assert message in ran.stderr
    assert not (tmp_path / "run").exists()


def test_a_model_without_attention_has_nothing_to_show(labelled: Path, tmp_path: Path) -> None:
    ran = trained(
        "classify-structured", labelled, tmp_path / "run", "model.name=mean_words", steps=10
    )
    assert ran.returncode == 0, ran.stderr
    assert "deletion" not in json.loads(ran.stdout)["details"]["test"]
    drawn = regard("predict", tmp_path / "run", "A film.", "--attention", tmp_path / "a.html")
    assert drawn.returncode == 2
    assert "has no attention over its words" in drawn.stderr
    assert not (tmp_path / "a.html").exists()
