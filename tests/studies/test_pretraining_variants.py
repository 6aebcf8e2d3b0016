"""A study of variants with and without pre-training."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.factories.command_line import exit_code

STUDY = """
question = "Does reading help?"
recipe = "closed_book_qa"
seeds = 2

[[variants]]
name = "pre-trained"

[[variants]]
name = "no pre-training"
set = ["pretraining=none"]

[model]
model_dim = 8
num_heads = 2
num_layers = 1

[pretraining.training]
steps = 3
evaluate_every = 3

[training]
steps = 2
evaluate_every = 2
"""


@pytest.mark.stress
def test_variants_with_and_without_pretraining(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names = [
        f"{first} {last}" for first in ("Ann", "Bo", "Cy", "Di") for last in ("Ax", "By", "Co")
    ]
    places = ("Rome", "Oslo", "Lima")
    facts = [(name, places[number % 3]) for number, name in enumerate(names)]
    Path("facts.txt").write_text(
        "".join(f"{name} was born in {place} .\n" for name, place in facts)
    )
    rows = [f"Where was {name} born ?\t{place}\n" for name, place in facts]
    Path("train.tsv").write_text("".join(rows[:8]))
    Path("dev.tsv").write_text("".join(rows[8:]))
    Path("mine.toml").write_text(STUDY)
    files = [
        "--train-file",
        "train.tsv",
        "--validation-file",
        "dev.tsv",
        "--pretrain-file",
        "facts.txt",
    ]
    arguments = ["study", "mine.toml", *files, "--workers", "1", "--out", "mine"]
    assert exit_code(arguments) == 0
    record = json.loads(Path("mine/record.json").read_text())
    assert [variant["name"] for variant in record["variants"]] == ["pre-trained", "no pre-training"]
    assert record["metrics"][0]["name"] == "exact_match"
    assert record["budget"].startswith("The variants have different budgets: 2 steps after 3 steps")
    flops = [variant["flops"] for variant in record["variants"]]
    assert flops[0] > 1.5 * flops[1]
    reading = [path for path in Path("mine/runs").iterdir() if (path / "pretraining").is_dir()]
    assert len(reading) == 2
    for run in reading:
        spec = json.loads((run / "spec.json").read_text())
        assert spec["pretraining"]["task"]["train_file"] == str(tmp_path / "facts.txt")
    # Run again, nothing is trained.
    before = {
        path: path.stat().st_mtime_ns for path in Path("mine/runs").rglob("model.safetensors")
    }
    assert exit_code(arguments) == 0
    assert before == {path: path.stat().st_mtime_ns for path in before}
