"""Existing runs side by side: variants, seeds, statistics, and what is not equal."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.factories.tiny_runs import StopAt, bag_of_words, classifier, seq2seq, train_tiny
from tests.factories.toy_pronunciation import write_dictionary

from regard.core.errors import RegardError
from regard.core.records.study import StudyRecord
from regard.runs.folder import RunFolder, read_predictions
from regard.runs.train import resume_run
from regard.studies.run_comparison import compare_runs
from regard.tasks.metrics import PhoneErrorRate
from regard.views.text.study import study_csv, study_table

Train = Callable[..., RunFolder]


@pytest.fixture(scope="module")
def train(tmp_path_factory: pytest.TempPathFactory) -> Train:
    """Train a tiny sequence-to-sequence run of this name, once."""
    place, trained = tmp_path_factory.mktemp("runs"), dict[str, RunFolder]()

    def run(name: str, **changes: Any) -> RunFolder:
        if name not in trained:
            trained[name] = train_tiny(seq2seq, place / name, data=place, **changes)
        return trained[name]

    return run


@pytest.fixture(scope="module")
def grid(train: Train) -> list[RunFolder]:
    """Two mechanisms with two seeds each."""
    return [
        train(f"{mechanism}-{seed}", model={"mechanism": mechanism}, seed=seed)
        for mechanism in ("dot", "additive")
        for seed in (0, 1)
    ]


def test_runs_that_differ_in_the_seed_are_one_variant(grid: list[RunFolder]) -> None:
    record = compare_runs(grid, command="regard report a b c d")
    assert StudyRecord.from_json(record.as_json()) == record
    assert [variant.name for variant in record.variants] == ["mechanism=dot", "mechanism=additive"]
    assert (record.seeds, record.is_finished, record.differences) == ((0, 1), True, {})
    assert record.question == "Which of 2 variants is best on pronounce?"
    for variant, folders in zip(record.variants, (grid[:2], grid[2:]), strict=True):
        stored = [json.loads(folder.record.read_text()) for folder in folders]
        scores = [each["scores"]["test"]["exact_match_error"] for each in stored]
        assert variant.mean == pytest.approx(np.mean(scores))
        assert variant.parameters == stored[0]["outcome"]["parameters"]
        assert variant.peak_bytes > 1 << 26
        assert variant.flops == np.mean([each["outcome"]["flops"] for each in stored])
    assert record.variants[1].settings == {"model": {"mechanism": "additive"}}
    assert record.variants[0].is_baseline
    (pair,) = record.verdicts_of("models", "per")
    sums = []
    for folders in (grid[:2], grid[2:]):
        tables = [read_predictions(folder, "test") for folder in folders]
        rows = [PhoneErrorRate().table(each.predictions, each.references) for each in tables]
        sums.append(np.sum(rows, axis=(0, 1)))
    rates = [100 * edits / phones for edits, phones in sums]
    assert pair.difference == pytest.approx(rates[0] - rates[1])
    assert [pair.verdict for pair in record.verdicts_of("method")] == ["too few seeds"]
    assert "Not on equal terms" not in " ".join(record.headline)
    assert record.reproducibility["command"] == "regard report a b c d"
    assert record.attention_examples
    assert "mechanism=dot" in study_table(record)
    assert study_csv(record).count("\n") == 5


def test_only_common_seeds_are_paired(grid: list[RunFolder]) -> None:
    record = compare_runs(grid[:3])
    assert record.seeds == (0,)
    assert [run.seed for run in record.runs if run.selected] == [0, 0]
    assert (
        record.differences["seeds"] == "mechanism=dot: 0, 1; mechanism=additive: 0; only 0 paired."
    )
    assert record.headline[1] == "Not on equal terms: seeds."
    assert record.variants[0].mean == record.runs_of("mechanism=dot")[0].scores["exact_match_error"]


def test_no_common_seed(grid: list[RunFolder]) -> None:
    """Methods are not compared, but these trained models are."""
    record = compare_runs([grid[0], grid[3]])
    assert record.verdicts_of("method") == []
    assert len(record.verdicts_of("models")) == 1
    assert record.differences["seeds"].endswith("; none paired.")
    assert "No seed is common to all variants" in " ".join(record.headline)
    assert [len(record.runs_of(variant.name)) for variant in record.variants] == [1, 1]
    assert all(variant.mean is not None for variant in record.variants)
    assert StudyRecord.from_json(record.as_json()) == record
    assert "mechanism=dot" in study_table(record)


def test_budget(grid: list[RunFolder], train: Train) -> None:
    longer = train("longer", training={"steps": 8}, seed=0)
    record = compare_runs([grid[0], longer])
    assert [variant.name for variant in record.variants] == ["steps=6", "steps=8"]
    assert re.fullmatch(
        r"steps=6: 6 steps, [\d,]+ tokens, [\d.e+]+ FLOPs; steps=8: 8 steps, .*\.",
        record.differences["budget"],
    )
    assert record.headline[1].startswith("Not on equal terms: budget")
    # Another mechanism too: that is what distinguishes them.
    record = compare_runs([grid[2], longer])
    assert [variant.name for variant in record.variants] == ["mechanism=additive", "mechanism=dot"]
    assert "mechanism=dot: 8 steps" in record.differences["budget"]


def test_settings_without_a_value(grid: list[RunFolder], train: Train) -> None:
    patient = train("patient", training={"patience": 3})
    record = compare_runs([grid[0], patient])
    assert [variant.name for variant in record.variants] == ["patience=none", "patience=3"]
    assert record.differences == {}


def test_data(grid: list[RunFolder], train: Train, tmp_path: Path) -> None:
    words = write_dictionary(tmp_path / "more.dict", count=150)
    other = train("other-data", task={"train_file": str(words)}, seed=0)
    record = compare_runs([grid[0], other])
    assert [variant.name for variant in record.variants] == [
        "train_file=words.dict",
        "train_file=more.dict",
    ]
    assert {"training data", "validation data", "test data", "items"} <= set(record.differences)
    fingerprint = json.loads(other.data.read_text())["test_fingerprint"]
    assert fingerprint in record.differences["test data"]
    assert record.verdicts_of("models") == []
    assert record.disagreements == ()
    assert "not compared on items" in record.differences["items"]
    assert "items" in record.headline[1]


def test_changed_file_of_the_same_name(tmp_path: Path) -> None:
    """The settings are the same, so the variants are named after their folders."""
    before = train_tiny(seq2seq, tmp_path / "before")
    write_dictionary(tmp_path / "words.dict", count=100)
    after = train_tiny(seq2seq, tmp_path / "after")
    record = compare_runs([before, after])
    assert [variant.name for variant in record.variants] == ["before", "after"]
    assert "training data" in record.differences


def test_threads_versions_and_extension(train: Train, tmp_path: Path) -> None:
    first = train_tiny(seq2seq, tmp_path / "first")
    second = train_tiny(seq2seq, tmp_path / "second", model={"mechanism": "none"})
    stored = json.loads(second.record.read_text())
    stored["threads"] = 7
    stored["versions"]["torch"] = "0.4.1"
    second.write_json(second.record, stored)
    found = compare_runs([first, second]).differences
    assert found["threads"] == "mechanism=dot: 1; mechanism=none: 7."
    assert "mechanism=none: 0.4.1" in found["torch version"]
    assert set(found) == {"threads", "torch version"}
    resume_run(first, extend=2)
    found = compare_runs([first, second]).differences
    assert "mechanism=dot: from 6 steps" in found["extended runs"]


def test_repeated_runs_are_variants_of_their_own(grid: list[RunFolder], tmp_path: Path) -> None:
    again = RunFolder(tmp_path / "again")
    again.make()
    for path in grid[0].path.iterdir():
        (again.path / path.name).write_bytes(path.read_bytes())
    record = compare_runs([grid[0], again])
    assert [variant.name for variant in record.variants] == ["dot-0", "again"]
    assert [pair.verdict for pair in record.verdicts_of("models")] == ["same scores"]


def test_one_variant(grid: list[RunFolder]) -> None:
    record = compare_runs(grid[:2])
    assert [variant.name for variant in record.variants] == ["dot-0"]
    assert (record.seeds, record.verdicts) == ((0, 1), ())


def test_names(grid: list[RunFolder]) -> None:
    record = compare_runs(grid, names=["a", "a", "b", "b"])
    assert [variant.name for variant in record.variants] == ["a", "b"]
    with pytest.raises(
        RegardError, match=r"dot-0' and '.*additive-0' are both named 'a'.*mechanism"
    ):
        compare_runs([grid[0], grid[2]], names=["a", "a"])
    with pytest.raises(RegardError, match="1 names for 2 runs"):
        compare_runs(grid[:2], names=["a"])


def test_other_models_are_named_after_them(tmp_path: Path) -> None:
    runs = [train_tiny(kind, tmp_path / kind.__name__) for kind in (classifier, bag_of_words)]
    record = compare_runs(runs)
    assert [variant.name for variant in record.variants] == ["structured", "bag_of_words"]
    assert {"budget", "evaluations"} >= set(record.differences)


def test_errors_name_the_runs(grid: list[RunFolder], train: Train, tmp_path: Path) -> None:
    stopped = train_tiny(seq2seq, tmp_path / "stopped", callbacks=(StopAt(2),))
    with pytest.raises(RegardError, match=r"stopped' is not finished.*--resume .*stopped"):
        compare_runs([grid[0], stopped])
    other_task = train_tiny(bag_of_words, tmp_path / "labels")
    with pytest.raises(
        RegardError, match=r"dot-0' has the task 'pronounce', '.*labels' .*'classify'"
    ):
        compare_runs([grid[0], other_task])
    other_metric = train("by-loss", task={"metric": "loss"})
    with pytest.raises(
        RegardError, match=r"dot-0' was selected by exact_match_error, .*by-loss' by loss"
    ):
        compare_runs([grid[0], other_metric])
    with pytest.raises(RegardError, match=r"dot-0' is given twice"):
        compare_runs([grid[0], RunFolder(grid[0].path / ".." / "dot-0")])
    with pytest.raises(RegardError, match="1 run: a comparison needs at least 2"):
        compare_runs(grid[:1])
