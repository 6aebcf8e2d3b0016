"""A whole study of tiny runs: the record says what the runs did, and going on adds only what is missing."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.factories.toy_language import write_words

from regard.core.errors import RegardError
from regard.core.records.study import StudyRecord
from regard.runs.folder import RunFolder, read_predictions
from regard.studies.execution.jobs import Event, Failed, Finished
from regard.studies.execution.local import Processes
from regard.studies.folder import StudyFolder
from regard.studies.prepare import PreparedStudy
from regard.studies.spec import StudySpec
from regard.studies.study import compared, run_study
from regard.tasks.seq2seq.pronounce import Pronounce

TINY = {"embedding_dim": 4, "hidden_dim": 8}
TRAINING = {"steps": 6, "evaluate_every": 3, "warmup_steps": 1}


def tiny(folder: Path, **sections: Any) -> StudySpec:
    pairs = folder / "words.dict"
    if not pairs.exists():
        write_words(pairs, count=160)
    task = {"pairs": str(pairs), "validation_share": 0.2, "test_share": 0.2, "beam_size": 1}
    asked = {
        "recipe": "pronounce-quick",
        "over": {"mechanism": ["dot", "none"]},
        "model": TINY,
        "task": task,
        "training": TRAINING,
        "seeds": 2,
    }
    return StudySpec.from_sections({**asked, **sections})


def run(study: StudySpec, folder: Path) -> tuple[StudyRecord, list[Event]]:
    events: list[Event] = []
    record = run_study(study, folder, executor=Processes(workers=1), watch=events.append)
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
        scores = [json.loads(one.record.read_text())["scores"]["test"]["wer"] for one in held]
        assert variant.mean == pytest.approx(sum(scores) / 2)
        assert [one.scores["wer"] for one in runs] == scores
        assert [point.step for point in runs[0].curve] == [3, 6]
        assert runs[0].curve[-1].operations > runs[0].curve[0].operations > 0
        assert variant.operations is not None
        assert variant.operations > 0
        assert variant.peak_bytes > 4 * variant.parameters
    assert record.variants[0].is_baseline


def test_two_seeds_make_no_claim_about_methods(record: StudyRecord) -> None:
    methods = [pair for pair in record.verdicts if pair.holds_for == "method"]
    assert [pair.verdict for pair in methods] == ["these runs only"]
    models = [pair for pair in record.verdicts if pair.holds_for == "models"]
    assert len(models) == 1
    assert "a claim about the methods takes 5 seeds" in " ".join(record.headline)


def test_items_are_compared_by_what_was_written(record: StudyRecord, place: Path) -> None:
    (pair,) = [pair for pair in record.verdicts if pair.holds_for == "models"]
    rates = {}
    for variant in ("dot", "none"):
        sums = np.zeros(2)
        for one in record.runs_of(variant):
            written = read_predictions(RunFolder(place / "study/runs" / one.key))
            assert len(written) == record.items
            sums = sums + Pronounce.item_statistics("wer", written.predicted, written.answers).sum(
                axis=0
            )
        rates[variant] = 100 * sums[0] / sums[1]
    assert pair.difference == pytest.approx(rates["dot"] - rates["none"])


def test_pictures_are_of_variants_with_attention(record: StudyRecord) -> None:
    assert record.pictures
    assert all(set(picture.alignments) == {"dot"} for picture in record.pictures)


def test_the_record_is_kept_and_can_be_read(record: StudyRecord, place: Path) -> None:
    text = (place / "study/record.json").read_text()
    assert StudyRecord.from_json(text) == record


def test_going_on_adds_only_what_is_missing(record: StudyRecord, place: Path) -> None:
    more, events = run(tiny(place, seeds=3), place / "study")
    trained = [event.job.seed for event in events if isinstance(event, Finished) and event.seconds]
    assert trained == [2, 2]
    assert more.seeds == (0, 1, 2)
    before = {one.key: one for one in record.runs}
    assert all(before.get(one.key, one) == one for one in more.runs)


def test_a_failed_variant_is_told_and_the_rest_goes_on(place: Path) -> None:
    # A learning rate with which the loss is soon no number.
    variants = [
        {"name": "sound", "set": []},
        {"name": "wild", "set": ["training.learning_rate=1e30", "training.clip_norm=none"]},
    ]
    study = tiny(place, over={}, variants=variants, seeds=2)
    found, events = run(study, place / "wild")
    failed = [event for event in events if isinstance(event, Failed)]
    assert {event.job.variant for event in failed} == {"wild"}
    assert found.variant("sound").mean is not None
    assert found.variant("wild").mean is None
    assert "seed 0 failed: " in found.variant("wild").trouble
    assert found.verdicts == ()


def test_every_variant_has_the_same_tries_and_validation_decides(place: Path) -> None:
    found, _ = run(tiny(place, learning_rates=[1e-6, 1e-2], seeds=1), place / "rates")
    assert len(found.runs) == 4
    for variant in found.variants:
        tries = [one for one in found.runs if one.variant == variant.name]
        best = min(tries, key=lambda one: one.validation_scores["wer"])
        (counting,) = found.runs_of(variant.name)
        assert counting.validation_scores["wer"] == best.validation_scores["wer"]
        assert variant.learning_rate == counting.learning_rate
    assert "2 tries" in found.tries


def test_a_study_can_be_compared_before_it_is_finished(record: StudyRecord, place: Path) -> None:
    folder = StudyFolder(place / "study")
    prepared = PreparedStudy.read(folder)
    asked = tiny(place, seeds=5)
    more = PreparedStudy(
        name="more",
        study=asked,
        sizes=prepared.sizes,
        matched="",
        command="",
        machine="",
        plugins=(),
    )
    found = compared(more, folder)
    assert set(found.seeds) <= {0, 1, 2}
    assert {one.state for one in found.runs} == {"finished", "missing"}
    assert all(math.isfinite(variant.mean or 0) for variant in found.variants)


def test_data_that_changed_in_place_is_noticed(tmp_path: Path) -> None:
    study = tiny(tmp_path, seeds=1, over={})
    run(study, tmp_path / "study")
    with (tmp_path / "words.dict").open("a") as file:
        file.write("deface  D EH F AH K EH\n")
    with pytest.raises(RegardError, match="The data changed since the run"):
        run(study, tmp_path / "study")


def test_another_study_does_not_take_a_folder(record: StudyRecord, place: Path) -> None:
    before = (place / "study/study.json").read_text()
    with pytest.raises(RegardError, match="holds another study, with no run in common"):
        run(tiny(place, training={**TRAINING, "steps": 5}), place / "study")
    assert (place / "study/study.json").read_text() == before


def test_variants_with_other_items_are_refused_before_training(place: Path) -> None:
    study = tiny(place, over={"task.test_share": [0.1, 0.3]})
    with pytest.raises(RegardError, match="have different test items"):
        run(study, place / "items")
    assert not (place / "items").exists()


def test_other_folders_are_left_alone(place: Path) -> None:
    other = place / "other"
    other.mkdir()
    (other / "precious.txt").write_text("mine")
    with pytest.raises(RegardError, match="holds other things than a study"):
        run(tiny(place), other)
    assert [path.name for path in other.iterdir()] == ["precious.txt"]


def test_a_variant_that_cannot_be_built_is_named_before_anything_is_trained(place: Path) -> None:
    study = tiny(place, over={"mechanism": ["dot", "nonsense"]})
    with pytest.raises(RegardError, match="In the variant 'nonsense'"):
        run(study, place / "nonsense")
    assert not (place / "nonsense").exists()
