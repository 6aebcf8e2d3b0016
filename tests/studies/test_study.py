"""A complete study of tiny runs: record, resuming, failures, validation."""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.factories.toy_pronunciation import write_dictionary

from regard.core.errors import RegardError
from regard.core.records.study import StudyRecord
from regard.runs.folder import Predictions, RunFolder, read_predictions
from regard.studies.comparison import _on_items
from regard.studies.execution.jobs import Event, Failed, Finished, Job, run_job
from regard.studies.execution.local import LocalExecutor
from regard.studies.folder import StudyFolder
from regard.studies.prepare import PreparedStudy, prepare_study
from regard.studies.spec import StudySpec
from regard.studies.study import run_study, write_record
from regard.tasks.metrics import (
    ExactMatchError,
    MacroF1,
    Metric,
    PhoneErrorRate,
    RatioMetric,
    metric_class,
)
from regard.views.pages.study import study_page
from regard.views.text.study import study_table

TINY = {"embedding_dim": 4, "hidden_dim": 8}
TRAINING = {"steps": 6, "evaluate_every": 3, "warmup_steps": 1}


def tiny(folder: Path, **sections: Any) -> StudySpec:
    pairs = folder / "words.dict"
    if not pairs.exists():
        write_dictionary(pairs, count=160)
    task = {
        "train_file": str(pairs),
        "validation_fraction": 0.2,
        "test_fraction": 0.2,
        "beam_size": 1,
    }
    defaults = {
        "recipe": "pronounce-quick",
        "sweep": {"mechanism": ["dot", "none"]},
        "model": TINY,
        "task": task,
        "training": TRAINING,
        "seeds": 2,
    }
    return StudySpec.from_sections({**defaults, **sections})


def run(study: StudySpec, folder: Path) -> tuple[StudyRecord, list[Event]]:
    events: list[Event] = []
    record = run_study(study, folder, executor=LocalExecutor(workers=1), on_event=events.append)
    return record, events


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("studies")


@pytest.fixture(scope="module")
def record(place: Path) -> StudyRecord:
    return run(tiny(place), place / "study")[0]


def test_scores_are_those_of_the_runs(record: StudyRecord, place: Path) -> None:
    assert [variant.name for variant in record.variants] == ["dot", "none"]
    assert record.seeds == (0, 1)
    for variant in record.variants:
        runs = record.runs_of(variant.name)
        held = [RunFolder(place / "study/runs" / one.key) for one in runs]
        scores = [
            json.loads(one.record.read_text())["scores"]["test"]["exact_match_error"]
            for one in held
        ]
        assert variant.mean == pytest.approx(sum(scores) / 2)
        assert [one.scores["exact_match_error"] for one in runs] == scores
        assert [point.step for point in runs[0].curve] == [3, 6]
        assert runs[0].evaluations == 2
        assert runs[0].curve[-1].flops > runs[0].curve[0].flops > 0
        assert variant.flops is not None
        assert variant.flops > 0
        assert variant.peak_bytes > 4 * variant.parameters
    assert record.variants[0].is_baseline


def test_two_seeds_are_too_few(record: StudyRecord) -> None:
    methods = record.verdicts_of("method")
    assert [pair.verdict for pair in methods] == ["too few seeds"]
    assert len(record.verdicts_of("models")) == 1
    dot, none = (record.variant(name).flops or 0.0 for name in ("dot", "none"))
    assert [pair.flops_ratio for pair in record.verdicts] == [dot / none] * len(record.verdicts)
    assert "Too few seeds" in " ".join(record.headline)


def test_item_comparison_uses_the_predictions(record: StudyRecord, place: Path) -> None:
    for metric in (ExactMatchError(), PhoneErrorRate()):
        (pair,) = record.verdicts_of("models", metric.name)
        rates = {}
        for variant in ("dot", "none"):
            sums = np.zeros(2)
            for one in record.runs_of(variant):
                written = read_predictions(RunFolder(place / "study/runs" / one.key))
                assert len(written) == record.items
                sums = sums + metric.table(written.predictions, written.references).sum(axis=0)
            rates[variant] = 100 * sums[0] / sums[1]
            score = record.variant(variant).scores[metric.name]
            assert score.item_low is None or score.item_low <= rates[variant]
        assert pair.difference == pytest.approx(rates["dot"] - rates["none"])


def test_every_metric_is_compared(record: StudyRecord) -> None:
    assert [metric.name for metric in record.metrics] == [
        "exact_match_error",
        "per",
        "loss",
    ]
    assert record.metrics[0].note == ExactMatchError.note
    for variant in record.variants:
        assert list(variant.scores) == ["exact_match_error", "per", "loss"]
        loss = variant.scores["loss"]
        assert loss.low is not None
        assert loss.item_low is None
    assert len(record.verdicts) == 2 + 2 + 1


def test_attention_examples_of_variants_with_attention(record: StudyRecord) -> None:
    assert record.attention_examples
    assert all(set(picture.alignments) == {"dot"} for picture in record.attention_examples)


def test_record_round_trip(record: StudyRecord, place: Path) -> None:
    text = (place / "study/record.json").read_text()
    assert StudyRecord.from_json(text) == record


def test_resuming_adds_missing_runs_only(record: StudyRecord, place: Path) -> None:
    more, events = run(tiny(place, seeds=3), place / "study")
    trained = [event.job.seed for event in events if isinstance(event, Finished) and event.seconds]
    assert trained == [2, 2]
    assert more.seeds == (0, 1, 2)
    assert record.pairing is None
    assert more.pairing is not None
    assert (more.pairing.variants, more.pairing.seeds) == (2, 3)
    before = {one.key: one for one in record.runs}
    assert all(before.get(one.key, one) == one for one in more.runs)


def test_failed_variant_does_not_stop_the_others(place: Path) -> None:
    # With this learning rate the loss becomes NaN.
    variants = [
        {"name": "stable", "set": []},
        {"name": "diverging", "set": ["training.learning_rate=1e30", "training.clip_norm=none"]},
    ]
    study = tiny(place, sweep={}, variants=variants, seeds=2)
    found, events = run(study, place / "diverging")
    failed = [event for event in events if isinstance(event, Failed)]
    assert {event.job.variant for event in failed} == {"diverging"}
    assert found.variant("stable").mean is not None
    assert found.variant("diverging").mean is None
    assert "seed 0 failed: " in found.variant("diverging").problems
    assert found.verdicts == ()
    # All runs have ended.
    assert found.is_finished
    assert "Excluded from all comparisons: diverging" in " ".join(found.headline)


def test_learning_rates_are_tuned_on_validation(place: Path) -> None:
    rates, metric = [1e-6, 1e-2], "exact_match_error"
    found, _ = run(tiny(place, learning_rates=rates, seeds=1, tuning_seeds=2), place / "rates")
    assert len(found.runs) == 2 * (2 * 2 + 1)
    for variant in found.variants:
        tuning = [one for one in found.runs if one.variant == variant.name and not one.selected]
        assert {one.seed for one in tuning} == {1_000_000, 1_000_001}
        totals: dict[float | None, float] = {
            rate: sum(one.validation_scores[metric] for one in tuning if one.learning_rate == rate)
            for rate in rates
        }
        (selected,) = found.runs_of(variant.name)
        assert selected.seed == 0
        assert totals[selected.learning_rate] == min(totals.values())
        assert variant.learning_rate == selected.learning_rate
    assert "0.01) with other seeds than those compared (2)" in found.tuning
    assert "Selected: dot " in study_table(found)


def test_study_that_is_stopped_while_tuning_has_selected_nothing(place: Path) -> None:
    spec = tiny(place, learning_rates=[1e-6, 1e-2], seeds=2, tuning_seeds=1)
    folder = StudyFolder(place / "tuning")
    prepared = prepare_study(spec, name="tuning")
    folder.make()
    prepared.write(folder)
    found = write_record(prepared, folder)
    assert not found.is_finished
    assert found.missing == {"dot": (0, 1), "none": (0, 1)}
    assert "are not tuned yet" in found.tuning
    assert all(one.learning_rate is None for one in found.runs if one.selected)
    assert (found.split, found.reproducibility["seeds"]) == ("test", "0, 1")
    assert found.items > 0


def test_unfinished_study_is_described_only(place: Path) -> None:
    run(tiny(place), place / "unfinished")
    folder = StudyFolder(place / "unfinished")
    prepared = replace(PreparedStudy.read(folder), command="regard study tiny.toml")
    whole = write_record(prepared, folder)
    assert whole.is_finished
    assert all(one.folder == one.key for one in whole.runs)
    (lost,) = (one.key for one in whole.runs_of("none") if one.seed == 1)
    unfinished = RunFolder(folder.runs / lost)
    unfinished.manifest.remove([unfinished.record])
    folder.set_finished(())
    found = StudyRecord.from_json(write_record(prepared, folder).as_json())
    assert not found.is_finished
    assert found.missing == {"none": (1,)}
    assert found.headline == (
        "The study is not finished: 3 of 4 runs have ended, so there is no verdict.",
        "Missing: none (seed 1).",
        "Scores are descriptive, of seed 0 only.",
        "Resume with: regard study tiny.toml",
    )
    assert (found.seeds, found.verdicts, found.pairing) == ((0,), (), None)
    for variant in found.variants:
        (one,) = found.runs_of(variant.name)
        assert variant.mean == one.scores["exact_match_error"]
        assert (variant.low, variant.primary.item_low) == (None, None)
        assert variant.problems == ""


def test_changed_data_is_refused(tmp_path: Path) -> None:
    study = tiny(tmp_path, seeds=1, sweep={})
    run(study, tmp_path / "study")
    with (tmp_path / "words.dict").open("a") as file:
        file.write("deface  D EH F AH K EH\n")
    with pytest.raises(RegardError, match="The data changed since the run"):
        run(study, tmp_path / "study")


def test_folder_of_another_study_is_refused(record: StudyRecord, place: Path) -> None:
    before = (place / "study/study.json").read_text()
    with pytest.raises(RegardError, match="contains another study"):
        run(tiny(place, training={**TRAINING, "steps": 5}), place / "study")
    assert (place / "study/study.json").read_text() == before


def test_different_test_items_are_refused(place: Path) -> None:
    study = tiny(place, sweep={"task.test_fraction": [0.1, 0.3]})
    with pytest.raises(RegardError, match="have different test items"):
        run(study, place / "items")
    assert not (place / "items").exists()


def test_other_folder_is_refused(place: Path) -> None:
    other = place / "other"
    other.mkdir()
    (other / "precious.txt").write_text("mine")
    with pytest.raises(RegardError, match="not a study folder"):
        run(tiny(place), other)
    assert [path.name for path in other.iterdir()] == ["precious.txt"]


def test_invalid_variant_is_named_before_training(place: Path) -> None:
    study = tiny(place, sweep={"mechanism": ["dot", "nonsense"]})
    with pytest.raises(RegardError, match="In the variant 'nonsense'"):
        run(study, place / "nonsense")
    assert not (place / "nonsense").exists()


REFERENCES = ["a", "a", "b", "b"]


def predict(labels: str) -> Predictions:
    return Predictions(
        inputs=tuple("1234"),
        predictions=tuple(labels),
        references=tuple((label,) for label in REFERENCES),
    )


def test_item_statistics_with_labels_of_some_runs_only() -> None:
    """Label c is predicted by one run of the first variant, d by one of the second."""
    predictions = {
        "first": [predict("aabb"), predict("aacb")],
        "second": [predict("abdb"), predict("aabb")],
    }
    found = _on_items(MacroF1(), predictions)
    assert found is not None
    scores = {variant.variant: variant.score for variant in found.variants}
    # Both seeds together. a: 4 of 4 correct; b: precision 3/3, recall 3/4; c: no reference.
    assert scores["first"] == pytest.approx(100 * (1 + 6 / 7 + 0) / 3)
    # a: precision 3/3, recall 3/4; b: precision 3/4, recall 3/4; d: no reference.
    assert scores["second"] == pytest.approx(100 * (6 / 7 + 6 / 8 + 0) / 3)


class Length(RatioMetric):
    """Phones of the output, and those of the reference that are AH, so that items differ."""

    name, unit, digits, note = "length", "phones", 3, "how long the outputs are"

    def statistics(self, predictions: Sequence[str], references: Sequence[Any]) -> np.ndarray:
        pairs = zip(predictions, references, strict=True)
        return np.array([(len(text.split()) + of[0].count("AH"), 1) for text, of in pairs])


class InProcess:
    """Runs jobs one after another in this process."""

    def run(self, jobs: Sequence[Job]) -> Generator[Event, None, None]:
        for job in jobs:
            run_job(job.sections, job.folder)
            yield Finished(job, 1.0)


@pytest.mark.parametrize("chosen", ["", "length"])
def test_metric_of_a_user_is_as_good_as_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chosen: str
) -> None:
    def found(name: str) -> type[Metric]:
        return Length if name == "length" else metric_class(name)

    monkeypatch.setattr("regard.tasks.task.metric_class", found)
    study = tiny(tmp_path)
    options = {"metrics": ["length", "wer"], "metric": chosen}
    study = tiny(tmp_path, task={**study.sections["task"], **options})
    record = run_study(study, tmp_path / "study", executor=InProcess())
    own = next(metric for metric in record.metrics if metric.name == "length")
    assert (own.unit, own.digits, own.is_itemwise) == ("phones", 3, True)
    assert record.metric == (chosen or "exact_match_error")
    assert {metric.name for metric in record.metrics} == {
        *("exact_match_error", "per", "loss", "length", "wer")
    }
    for variant in record.variants:
        score = variant.scores["length"]
        runs = record.runs_of(variant.name)
        assert score.mean == pytest.approx(np.mean([one.scores["length"] for one in runs]))
        assert score.item_low is not None
        assert score.item_high is not None
        assert score.item_low < (score.mean or 0.0) < score.item_high
    assert len(record.verdicts_of("models", "length")) == 1
    best = f"{record.variants[0].scores['length'].mean:.3f}".replace("-", "−")
    assert own.heading == "length, phones ↑"
    for text in (study_page(record), study_table(record, 120)):
        assert own.heading in text
        assert own.note in text
        assert best in text
    heading = record.as_csv().splitlines()[0].split(",")
    assert {"test length", "validation length", "variant length items low"} <= set(heading)
