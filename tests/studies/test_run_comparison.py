"""Existing runs side by side: variants, seeds, statistics, and what is not equal."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.factories.tiny_runs import (
    StopAt,
    bag_of_words,
    classifier,
    pretrained,
    seq2seq,
    train_tiny,
)
from tests.factories.toy_pronunciation import write_dictionary

from regard.core.errors import RegardError
from regard.core.formatting import flops_text
from regard.core.records.study import StudyRecord
from regard.runs.folder import Predictions, RunFolder, read_predictions
from regard.runs.train import resume_run
from regard.studies.comparison import _on_items
from regard.studies.run_comparison import compare_runs
from regard.studies.run_report import run_record
from regard.tasks.metrics import Accuracy, PhoneErrorRate
from regard.views.pages.study import study_page
from regard.views.text.study import study_table

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
    assert record.as_csv().count("\n") == 5


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
        r"steps=6: 6 steps, [\d,]+ tokens, [\d.]+ [kM]FLOPs; steps=8: 8 steps, .*\.",
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
    model = {"name": "transformer", "model_dim": 8, "num_heads": 1, "num_layers": 1, "tie": "none"}
    record = compare_runs(
        [
            train("default-cross", model=model),
            train("additive-cross", model={**model, "cross_mechanism": "additive"}),
        ]
    )
    assert [variant.name for variant in record.variants] == [
        "cross_mechanism=default",
        "cross_mechanism=additive",
    ]
    record = compare_runs([grid[0], train("without-attention", model={"mechanism": None})])
    assert [variant.name for variant in record.variants] == ["mechanism=dot", "mechanism=none"]


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
    assert record.differences["items"].startswith("Neither methods nor trained models are compared")
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
    assert set(record.differences) == {"budget", "settings"}
    assert record.differences["settings"] == "learning_rate: 0.03 / 0.001."


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


def test_pretraining_is_part_of_cost_and_budget(tmp_path: Path) -> None:
    stage = {"training": {"steps": 9}}
    short = train_tiny(pretrained, tmp_path / "short")
    long = train_tiny(pretrained, tmp_path / "long", pretraining=stage)
    record = compare_runs([short, long])
    assert [each.name for each in record.variants] == [
        "pretraining.steps=3",
        "pretraining.steps=9",
    ]
    for variant, run, folder in zip(record.variants, record.runs, (short, long), strict=True):
        stored = json.loads(folder.record.read_text())
        stages = stored["pretraining"], stored["outcome"]
        assert stored["pretraining"]["flops"] > 0
        flops, seconds, tokens = (
            sum(each[name] for each in stages) for name in ("flops", "seconds", "tokens")
        )
        assert variant.flops == flops
        assert variant.seconds == pytest.approx(seconds)
        assert run.seconds == pytest.approx(seconds)
        assert (run.curve[-1].flops, run.curve[-1].tokens) == (flops, tokens)
        assert run.steps == run.curve[-1].step == stored["outcome"]["steps"]
        page = run_record(folder)
        assert (page.flops, page.tokens) == (flops, tokens)
        assert page.seconds == pytest.approx(seconds)
        assert flops_text(stored["pretraining"]["flops"]) in page.stages["pre-training"]
    assert set(record.differences) == {"budget"}
    assert re.fullmatch(
        r"pretraining\.steps=3: 4 steps, [\d,]+ tokens, [\d.]+ [kM]FLOPs after pre-training of 3 steps, "
        r"[\d,]+ tokens, [\d.]+ [kM]FLOPs; pretraining\.steps=9: 4 steps, .* of 9 steps, .*\.",
        record.differences["budget"],
    )
    assert "4 steps after 3 steps of pre-training; 4 steps after 9" in record.budget


def test_with_and_without_pretraining(tmp_path: Path) -> None:
    runs = [
        train_tiny(pretrained, tmp_path / "with"),
        train_tiny(pretrained, tmp_path / "without", pretraining=None),
    ]
    record = compare_runs(runs)
    assert [each.name for each in record.variants] == ["pretraining=lm", "pretraining=none"]
    assert "budget" in record.differences
    assert "settings" not in record.differences


def test_pretraining_data(tmp_path: Path) -> None:
    before = train_tiny(pretrained, tmp_path / "before")
    (tmp_path / "other.txt").write_text("cab\ndeb\nfad\n" * 10)
    stage = {"task": {"train_file": str(tmp_path / "other.txt")}}
    after = train_tiny(pretrained, tmp_path / "after", pretraining=stage)
    record = compare_runs([before, after])
    assert [each.name for each in record.variants] == [
        "pretraining.train_file=letters.txt",
        "pretraining.train_file=other.txt",
    ]
    assert set(record.differences) == {"pre-training data"}
    facts = json.loads(after.data.read_text())["pretraining"]
    assert facts["train_rows_fingerprint"] in record.differences["pre-training data"]
    assert facts["train_rows_fingerprint"] in record.reproducibility["data"]


def test_other_inputs_with_the_same_references_are_other_items() -> None:
    one = Predictions(inputs=("a", "b"), predictions=("x", "y"), references=("x", "x"))
    other = Predictions(inputs=("c", "d"), predictions=("x", "y"), references=("x", "x"))
    assert _on_items(Accuracy(), {"one": [one], "same": [one]}) is not None
    with pytest.raises(RegardError, match="evaluated on different items"):
        _on_items(Accuracy(), {"one": [one], "other": [other]})


def test_methods_are_not_compared_on_different_data(tmp_path: Path) -> None:
    lines: dict[str, list[str]] = {}
    for name, word in (("easy", ""), ("hard", "not ")):
        lines[name] = [f"{'good' if n % 2 else 'bad'}\t{word}text {n % 2} {n}" for n in range(60)]
        (tmp_path / f"{name}.tsv").write_text("\n".join(lines[name]) + "\n")
    runs = [
        train_tiny(
            bag_of_words,
            tmp_path / f"{name}-{seed}",
            task={"test_file": str(tmp_path / f"{name}.tsv")},
            seed=seed,
        )
        for name in lines
        for seed in range(5)
    ]
    record = compare_runs(runs)
    assert len(record.seeds) == 5
    assert record.verdicts == ()
    assert record.pairing is None
    assert record.headline[0] == (
        "The runs were evaluated on different test data, so neither methods nor trained models are "
        "compared."
    )
    assert set(record.differences) == {"test data", "items"}
    assert not re.search("better|lowest|highest", " ".join(record.headline))
    assert all(variant.mean is not None for variant in record.variants)
    assert "neither methods nor trained" in study_page(record)


def test_training_data_is_compared_as_read(tmp_path: Path) -> None:
    """Not as it is encoded: other texts may have the same ids, and other tokenizers other ids."""
    task: dict[str, Any] = {"validation_file": str(tmp_path / "labelled.tsv")}
    first = train_tiny(bag_of_words, tmp_path / "first", task=task)
    letters = train_tiny(bag_of_words, tmp_path / "letters", task={**task, "tokens": "characters"})
    record = compare_runs([first, letters])
    assert record.differences == {}
    text = (tmp_path / "labelled.tsv").read_text()
    (tmp_path / "renamed.tsv").write_text(text.replace("film", "book"))
    other = train_tiny(
        bag_of_words, tmp_path / "other", task={**task, "train_file": str(tmp_path / "renamed.tsv")}
    )
    facts = [json.loads(run.data.read_text()) for run in (first, other)]
    assert facts[0]["train_fingerprint"] == facts[1]["train_fingerprint"]
    record = compare_runs([first, other])
    assert facts[1]["train_rows_fingerprint"] in record.differences["training data"]
    # Records without it are compared by the encoded data.
    for run in (first, other):
        stored = json.loads(run.record.read_text())
        del stored["data"]["train_rows_fingerprint"]
        run.write_json(run.record, stored)
    assert "training data" not in compare_runs([first, other]).differences
    letters_differ = compare_runs([first, letters]).differences["training data"]
    assert facts[0]["train_fingerprint"] in letters_differ


def test_settings_that_do_not_name_the_variants(grid: list[RunFolder], train: Train) -> None:
    other = train(
        "other-settings",
        model={"mechanism": "additive"},
        training={"learning_rate": 0.01, "weight_decay": 0.5, "log_every": 2},
        task={"batch_tokens": 99},
    )
    record = compare_runs([grid[0], other], names=["dot", "additive"])
    assert record.headline[1] == "Not on equal terms: settings."
    found = record.differences["settings"]
    rate = json.loads(grid[0].spec.read_text())["training"]["learning_rate"]
    assert f"learning_rate: {rate} / 0.01" in found
    assert "weight_decay: " in found
    assert "batch_tokens: " in found
    assert "mechanism" not in found
    assert "log_every" not in found
    assert len(found) < 100
    many = train(
        "many-settings",
        training={"learning_rate": 0.01, "weight_decay": 0.5, "warmup_steps": 2, "clip_norm": 9.0},
        task={"batch_tokens": 99, "label_smoothing": 0.3, "beam_size": 3, "max_length": 9},
    )
    found = compare_runs([grid[0], many], names=["one", "many"]).differences["settings"]
    assert found.endswith("; 2 more in the settings of each variant.")


def test_folders_and_learning_rates_of_runs(grid: list[RunFolder]) -> None:
    record = compare_runs(grid)
    assert [run.folder for run in record.runs] == [str(folder.path) for folder in grid]
    rates = {run.learning_rate for run in record.runs}
    assert rates == {json.loads(grid[0].spec.read_text())["training"]["learning_rate"]}
    rows = record.as_csv().splitlines()
    assert "folder" in rows[0].split(",")
    assert str(grid[1].path) in rows[2]
    assert str(grid[1].path) in study_page(record)


def test_texts_of_a_comparison(grid: list[RunFolder]) -> None:
    """No study chose the metric, and memory is that of the process."""
    record = compare_runs(grid)
    page = study_page(record)
    assert not record.is_study
    assert record.memory_is == "peak of the training process"
    assert record.memory_is in page
    assert "peak of the largest step" not in page
    assert "beforehand" not in page
    assert "regard report · comparison" in page
    assert "of the study" not in " ".join(record.headline)


def test_data_facts_are_readable(tmp_path: Path) -> None:
    runs = [train_tiny(bag_of_words, tmp_path / str(seed), seed=seed) for seed in (0, 1)]
    record, page = compare_runs(runs), run_record(runs[0])
    assert record.reproducibility["data"] == page.reproducibility["data"]
    assert "test fingerprint" in record.reproducibility["data"]
    assert "{" not in record.reproducibility["data"]


def test_run_that_is_training_now(grid: list[RunFolder], tmp_path: Path) -> None:
    stopped = train_tiny(seq2seq, tmp_path / "stopped", callbacks=(StopAt(2),))
    with stopped.lock(), pytest.raises(RegardError, match="is training now: wait for it") as found:
        compare_runs([grid[0], stopped])
    assert "--resume" not in str(found.value)
