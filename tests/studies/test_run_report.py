"""The record of one run, of every kind of task, finished or not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import bootstrap
from tests.factories.tiny_runs import (
    StopAt,
    bag_of_words,
    classifier,
    language_model,
    regression,
    seq2seq,
    train_tiny,
    trees,
)

from regard.core.errors import RegardError
from regard.core.records.run import RunRecord
from regard.runs.folder import Predictions, RunFolder, read_predictions
from regard.runs.plugins import load_plugins
from regard.runs.train import resume_run
from regard.studies.run_report import run_record
from regard.studies.run_results import show_items
from regard.studies.statistics.bootstrap import compare_on_items
from regard.tasks.metrics import RMSE, ExactMatch, Loss, PhoneErrorRate
from regard.training.callbacks import Callback, StepMetrics

KINDS = (seq2seq, classifier, trees, bag_of_words, regression, language_model)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Any], RunFolder]:
    """Finished runs by kind, each trained once."""
    place, trained = tmp_path_factory.mktemp("runs"), dict[str, RunFolder]()

    def run(kind: Callable[[Path], dict[str, Any]]) -> RunFolder:
        name = kind.__name__
        if name not in trained:
            trained[name] = train_tiny(kind, place / name, data=place)
        return trained[name]

    return run


@pytest.mark.parametrize("kind", KINDS)
def test_finished_run(kind: Any, runs: Callable[[Any], RunFolder]) -> None:
    folder = runs(kind)
    record, stored = run_record(folder), json.loads(folder.record.read_text())
    assert RunRecord.from_json(record.as_json()) == record
    assert run_record(folder) == record
    assert (record.state, record.progress, record.is_finished) == ("finished", 1.0, True)
    assert (record.name, record.seed) == (kind.__name__, 0)
    outcome = stored["outcome"]
    for name in ("steps", "tokens", "flops", "seconds", "parameters"):
        assert getattr(record, name) == outcome[name]
    assert record.training[-1].step == record.evaluations[-1].step == outcome["steps"]
    assert record.training[-1].tokens == outcome["tokens"]
    best = next(each for each in record.evaluations if each.step == record.best_step)
    assert best.scores == outcome["best"]
    assert record.peak_bytes is not None
    assert record.peak_bytes > 1 << 26
    assert [split.name for split in record.splits] == ["test", "validation"]
    for split in record.splits:
        assert split.items == stored["data"][f"{split.name}_items"]
        for name, score in split.scores.items():
            assert score.value == stored["scores"][split.name][name]
            if score.low is not None and score.high is not None:
                assert score.low <= score.value <= score.high
        for name, found in stored["baselines"].get(split.name, {}).items():
            finite = {key: score for key, score in found["scores"].items() if np.isfinite(score)}
            assert split.baselines[name] == finite
    assert record.item_split == "test"
    assert len(record.examples) == min(12, record.splits[0].items)
    assert record.settings == json.loads(folder.spec.read_text())
    listed = json.loads(folder.manifest.path.read_text())["files"]
    files = {each.name: each for each in record.files}
    assert {name: each.sha256 for name, each in files.items() if name in listed} == {
        name: states[0]["sha256"] for name, states in listed.items()
    }
    assert all(each.size == (folder.path / name).stat().st_size for name, each in files.items())


def test_sequence_to_sequence(runs: Callable[[Any], RunFolder]) -> None:
    record = run_record(runs(seq2seq))
    assert [metric.name for metric in record.metrics] == ["exact_match_error", "per", "loss"]
    scores = record.splits[0].scores
    assert scores["per"].low is not None
    assert scores["loss"].low is None
    assert 1 <= len(record.alignments) <= 4
    inputs = {example.input for example in record.examples}
    assert {each.title.partition(" → ")[0] for each in record.alignments} <= inputs
    assert (record.documents, record.trees) == ((), ())
    assert record.splits[0].confusion is None
    assert record.reproducibility["seed"] == "0"
    assert "regard train pronounce --train-file" in record.reproducibility["command"]
    assert "test fingerprint" in record.reproducibility["data"]
    assert "torch" in record.reproducibility["versions"]


def test_classifier(runs: Callable[[Any], RunFolder]) -> None:
    folder = runs(classifier)
    record = run_record(folder)
    test = record.splits[0]
    assert test.confusion is not None
    assert test.confusion.labels == ("bad", "good")
    assert sum(map(sum, test.confusion.counts)) == test.items
    right = sum(test.confusion.counts[index][index] for index in range(2))
    assert 100 * right / test.items == pytest.approx(test.scores["accuracy"].value)
    assert test.calibration is not None
    assert sum(each.items for each in test.calibration.bins) == test.items
    assert all(each.items for each in test.calibration.bins)
    assert test.deletion is not None
    assert test.deletion.texts == test.items
    assert "majority baseline" in test.baselines
    assert 1 <= len(record.documents) <= 4
    known = {example.input: example.references[0] for example in record.examples}
    assert all(known[each.title] == each.reference for each in record.documents)
    assert len(record.documents[0].hops) == 2


def test_trees_and_models_without_attention(runs: Callable[[Any], RunFolder]) -> None:
    record = run_record(runs(trees))
    assert 1 <= len(record.trees) <= 4
    assert (record.documents, record.alignments) == ((), ())
    record = run_record(runs(bag_of_words))
    assert (record.trees, record.documents, record.alignments) == ((), (), ())
    assert record.splits[0].deletion is None


def test_regression(runs: Callable[[Any], RunFolder]) -> None:
    record = run_record(runs(regression))
    metric = record.item_metric
    assert metric in ("rmse", "mae")
    errors = [item.score for item in record.best_items]
    assert errors == sorted(errors, key=lambda error: error or 0.0)
    worst = record.worst_items[0]
    assert worst.score == pytest.approx(
        abs(float(worst.prediction) - float(worst.references[0])), rel=1e-2
    )
    assert record.alignments == ()


def test_language_model(runs: Callable[[Any], RunFolder]) -> None:
    record = run_record(runs(language_model))
    assert record.primary.name == "bits_per_character"
    assert record.splits[0].scores["bits_per_character"].low is not None
    example = record.examples[0]
    assert example.prediction.endswith(" nats")
    assert (example.references, example.correct) == ((), None)
    assert example.score is not None


def test_interval_is_that_of_scipy(runs: Callable[[Any], RunFolder]) -> None:
    folder = runs(classifier)
    score = run_record(folder).splits[0].scores["accuracy"]
    written = read_predictions(folder, "test")
    pairs = zip(written.predictions, written.references, strict=True)
    hits = np.array([prediction == reference for prediction, reference in pairs], dtype=float)
    expected = bootstrap(
        (100 * hits,), np.mean, n_resamples=10_000, random_state=np.random.default_rng(1)
    ).confidence_interval
    step = 100 / len(hits)  # the scores of resamples are multiples of it
    assert score.low == pytest.approx(expected.low, abs=1.01 * step)
    assert score.high == pytest.approx(expected.high, abs=1.01 * step)


def test_interval_is_that_of_a_comparison(runs: Callable[[Any], RunFolder]) -> None:
    folder = runs(seq2seq)
    score = run_record(folder).splits[0].scores["per"]
    written, metric = read_predictions(folder, "test"), PhoneErrorRate()
    compared = compare_on_items(
        {"run": metric.table(written.predictions, written.references)},
        score=metric.score,
        lower_is_better=True,
    )
    assert (score.low, score.high) == compared.variants[0].interval


EXACT_MATCH = ExactMatch()


def items_of(predicted: str, *, metrics: Any = (EXACT_MATCH,)) -> Any:
    """Items named a, b, c, …, all with the reference x."""
    return show_items(
        Predictions(
            inputs=tuple("abcdefghijklmnopqrstuvwxyz"[: len(predicted)]),
            predictions=tuple(predicted),
            references=(("x",),) * len(predicted),
        ),
        metrics,
        is_generative=False,
    )


def test_best_and_worst_items() -> None:
    found = items_of("xyxyx")
    assert [item.input for item in found.best] == ["a", "c"]
    assert [item.input for item in found.worst] == ["b", "d"]
    assert [item.score for item in (*found.best, *found.worst)] == [100, 100, 0, 0]
    assert [item.correct for item in (found.best[0], found.worst[0])] == [True, False]
    one_wrong = items_of("x" * 20 + "y")
    assert [item.input for item in one_wrong.worst] == ["u"]  # no correct ones beside it
    assert [item.input for item in one_wrong.best] == list("abcdefgh")


def test_ties_are_broken_by_the_other_metrics_and_counted() -> None:
    metrics = (EXACT_MATCH, PhoneErrorRate())
    predictions = Predictions(
        inputs=tuple("abcd"),
        predictions=("x y", "z", "x y z z z", "x y z"),
        references=(("x y",),) * 4,
    )
    found = show_items(predictions, metrics, is_generative=False)
    assert [item.input for item in found.worst] == ["c", "b"]  # three edits, then two
    assert (found.num_best, found.num_worst) == (1, 3)


def test_numbers_are_neither_correct_nor_wrong() -> None:
    predictions = Predictions(inputs=("a", "b"), predictions=(1.0, 2.5), references=(1.0, 2.0))
    found = show_items(predictions, (RMSE(),), is_generative=False)
    assert [item.correct for item in found.examples] == [None, None]
    assert [item.prediction for item in found.examples] == ["1", "2.5"]


@pytest.mark.parametrize("predicted", ["xxxx", "yyyy", "x"])
def test_equal_items_are_not_ranked(predicted: str) -> None:
    found = items_of(predicted)
    assert (found.best, found.worst, found.metric) == ((), (), "exact_match")


def test_items_without_score() -> None:
    found = items_of("xy", metrics=(Loss(),))
    assert (found.metric, found.best, found.worst) == ("", (), ())
    assert [item.score for item in found.examples] == [None, None]
    lower = items_of("xy", metrics=(Loss(), PhoneErrorRate()))
    assert [item.input for item in (*lower.best, *lower.worst)] == ["a", "b"]


def test_malformed_details_name_the_file(runs: Callable[[Any], RunFolder], tmp_path: Path) -> None:
    folder = train_tiny(bag_of_words, tmp_path / "run")
    stored = json.loads(folder.record.read_text())
    for path, value in (
        (("confusion", "counts"), [[1, 2]]),
        (("confusion", "labels"), 3),
        (("calibration", "bins"), [{"items": "many"}]),
    ):
        changed = json.loads(json.dumps(stored))
        changed["details"]["test"][path[0]][path[1]] = value
        folder.write_json(folder.record, changed)
        with pytest.raises(
            RegardError, match=rf"record\.json' has malformed .*test split: .*{path[0]}"
        ):
            run_record(folder)


class Look(Callback):
    """Makes a record while the run is training."""

    def __init__(self, folder: RunFolder, *, step: int) -> None:
        self.folder, self.step = folder, step
        self.found: list[RunRecord] = []

    def on_step_end(self, info: StepMetrics) -> None:
        if info.step != self.step:
            return
        if not self.folder.metrics.exists():  # during a pre-training
            self.found.append(run_record(self.folder))
            return
        half = b'{"step": 3, "lo'
        with self.folder.metrics.open("ab") as log:
            log.write(half)  # as if it were seen while it is written
            log.flush()
            self.found.append(run_record(self.folder))
            log.truncate(log.tell() - len(half))


@pytest.mark.parametrize("step", [1, 3])
def test_run_that_is_training(tmp_path: Path, step: int) -> None:
    """Before the first checkpoint, when the logs are not in the manifest, and after it."""
    look = Look(RunFolder(tmp_path / "run"), step=step)
    folder = train_tiny(language_model, tmp_path / "run", callbacks=(look,))
    (record,) = look.found
    assert RunRecord.from_json(record.as_json()) == record
    # The row of a step is logged after the callbacks of the step.
    assert (record.state, record.steps, record.progress) == ("training", step - 1, (step - 1) / 4)
    assert [each.step for each in record.training] == list(range(1, step))
    assert [each.step for each in record.evaluations] == ([2] if step == 3 else [])
    assert record.best_step == (2 if step == 3 else None)
    assert (record.splits, record.examples, record.alignments) == ((), (), ())
    finished = run_record(folder)
    assert finished.is_finished
    assert record.parameters == finished.parameters
    assert record.settings == finished.settings
    assert "versions" not in record.reproducibility


def test_stopped_and_resumed(tmp_path: Path) -> None:
    folder = train_tiny(seq2seq, tmp_path / "run", callbacks=(StopAt(4),))
    before = {path.name: path.read_bytes() for path in folder.path.iterdir()}
    record = run_record(folder)
    assert (record.state, record.steps, record.budget) == ("stopped", 4, "6 steps")
    assert record.progress == pytest.approx(4 / 6)
    assert {path.name: path.read_bytes() for path in folder.path.iterdir()} == before
    assert {each.name for each in record.files} == set(before)
    with folder.lock():
        assert run_record(folder).state == "training"
    assert resume_run(folder) is not None
    assert run_record(folder).is_finished
    folder.page.write_text("a page")  # no part of the run
    folder.verify(checkpoint=True)
    resume_run(folder, extend=2)
    record = run_record(folder)
    assert any("Extended from 6 to 8 steps" in note for note in record.notes)
    assert "--extend 2" in record.reproducibility["command"]
    assert "page.html" not in {each.name for each in record.files}


def test_killed_before_its_first_rows(tmp_path: Path) -> None:
    """Only the manifest and the spec exist."""
    folder = train_tiny(seq2seq, tmp_path / "run", callbacks=(StopAt(1),))
    for path in (
        folder.metrics,
        folder.timing,
        folder.checkpoint,
        folder.preprocessor,
        folder.data,
    ):
        path.unlink()
    record = run_record(folder)
    assert (record.state, record.steps, record.parameters, record.training) == ("stopped", 0, 0, ())


def test_notes(tmp_path: Path) -> None:
    texts = tmp_path / "texts.txt"
    language_model(tmp_path)
    task = {"validation_fraction": 0.0, "test_file": str(texts)}
    folder = train_tiny(
        language_model, tmp_path / "run", task=task, training={"keep": "last", "patience": 1}
    )
    notes = " ".join(run_record(folder).notes)
    assert "There is no validation split" in notes
    assert "60 test inputs also occur in training" in notes
    assert "training.keep=last" in notes


@pytest.mark.usefixtures("no_plugins")
def test_changed_plugin_is_noted(tmp_path: Path) -> None:
    example = Path(__file__).parents[2] / "examples/my_attention.py"
    source = tmp_path / "mine.py"
    source.write_text(example.read_text())
    load_plugins([f"{source}:CosineAttention"])
    folder = train_tiny(seq2seq, tmp_path / "run", model={"mechanism": "CosineAttention"})
    record = run_record(folder)
    assert str(source) in record.reproducibility["plug-ins"]
    assert not any("plug-in" in note for note in record.notes)
    source.write_text(example.read_text() + "# changed\n")
    load_plugins([f"{source}:CosineAttention"])
    with pytest.warns(UserWarning, match="CosineAttention' changed"):
        record = run_record(folder)
    assert "The plug-in 'CosineAttention' has changed since the run was trained." in record.notes


def test_pretraining_is_a_stage(tmp_path: Path) -> None:
    sections = seq2seq(tmp_path)
    (tmp_path / "texts.txt").write_text("abc\nbcd\nfed\n" * 10)
    before = {
        "task": {
            "name": "lm",
            "train_file": str(tmp_path / "texts.txt"),
            "tokens": "characters",
            "validation_fraction": 0.0,
        },
        "training": {"steps": 3, "warmup_steps": 1},
    }
    model = {"name": "decoder_only", "model_dim": 8, "num_heads": 1, "num_layers": 1}
    task = {
        "name": "translate",
        "train_file": sections["task"]["train_file"],
        "format": "dictionary",
        "source_tokens": "characters",
        "target_tokens": "characters",
        "shared_vocabulary": True,
        "validation_fraction": 0.2,
    }
    look = Look(RunFolder(tmp_path / "run"), step=2)
    folder = train_tiny(
        seq2seq, tmp_path / "run", callbacks=(look,), task=task, model=model, pretraining=before
    )
    # Of both stages; during the first one, the run itself has no logs.
    assert [each.state for each in look.found] == ["training", "training"]
    assert look.found[0].stages["pre-training"] == "lm: step 1, of a budget of 3 steps"
    assert (look.found[0].steps, look.found[0].tokens > 0) == (0, True)
    assert look.found[1].flops > look.found[0].flops > 0
    finished = run_record(folder)
    assert finished.stages["pre-training"].startswith("lm: 3 steps, ")
    assert finished.budget == "6 steps after 3 steps of pre-training"
    assert "pre-training: train" in finished.reproducibility["data"]
