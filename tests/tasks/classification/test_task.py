"""Text classification: data, accuracy and macro-F1, training of a small model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.factories.text_encoder import SmallEncoder

from regard.core.batches import Input, TokenSpec
from regard.core.errors import RegardError
from regard.data.item_preprocessor import ItemPreprocessor
from regard.data.readers.text_file import RowErrors
from regard.data.splits import EvalSplit
from regard.models.classifiers.structured import StructuredClassifier
from regard.models.text_encoder import TextEncoder
from regard.tasks.classification.task import Classify, ClassifyOptions
from regard.tasks.metrics import Accuracy, ConfusionMatrix, MacroF1

KINDS = {"place": "where is", "person": "who saw", "count": "how many of"}


def no_decoding(model: Any, source: Input) -> Any:
    raise AssertionError("a label is not decoded")


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    path = tmp_path / "questions.tsv"
    rows = [
        f"{label}\t{words.title()} number {number}?"
        for number in range(80)
        for label, words in KINDS.items()
    ]
    path.write_text("\n".join(rows) + "\n")
    return path


def task_on(path: Path, *, seed: int = 0, **options: Any) -> Any:
    chosen = {"vocabulary_size": 100, "max_length": 16, "batch_tokens": 120, **options}
    selected = ClassifyOptions(
        train_file=str(path), **{"validation_fraction": 0.2, "test_fraction": 0.1, **chosen}
    )
    return Classify.from_options(selected, seed=seed, decode=no_decoding)


def small_model(task: Classify) -> SmallEncoder:
    torch.manual_seed(0)
    return SmallEncoder(**task.dataset.preprocessor.sizes())


def same(first: Any, second: Any) -> bool:
    return torch.equal(first.input.tokens, second.input.tokens) and torch.equal(
        first.target.labels, second.target.labels
    )


def test_labels_are_sorted_and_sizes_are_those_of_the_model(questions: Path) -> None:
    task = task_on(questions)
    preprocessor = task.dataset.preprocessor
    assert preprocessor.target.labels == ("count", "person", "place")
    assert preprocessor.sizes() == {"source": TokenSpec(preprocessor.input.size), "outputs": 3}
    record = json.loads(json.dumps(preprocessor.as_json()))
    again = ItemPreprocessor.from_json(record, task.options)
    assert again.as_json() == preprocessor.as_json()


def test_an_epoch_is_a_function_of_seed_and_number(questions: Path) -> None:
    task, again = task_on(questions), task_on(questions)
    assert same(task.epoch(1)[0], again.epoch(1)[0])
    assert not same(task.epoch(1)[0], task.epoch(2)[0])
    rows = 0
    for batch in task.epoch(0):
        labels = batch.target.labels
        assert batch.input.tokens.numel() + len(labels) <= 120
        assert batch.num_predictions == len(labels)
        rows += len(labels)
    assert rows == len(task.dataset.train)


def test_training_reaches_full_accuracy(questions: Path) -> None:
    task = task_on(questions)
    model = small_model(task)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(8):
        for batch in task.epoch(epoch):
            optimizer.zero_grad()
            loss = task.loss(model, batch)
            (loss.total / loss.num_predictions).backward()
            optimizer.step()
    scores = task.evaluate(model)
    assert scores["accuracy"] == scores["macro_f1"] == 100.0  # ten seeds: 100; untrained: 0 to 63
    assert scores["loss"] < 0.5  # ten seeds: 0.004 to 0.007; untrained: 1.0 to 1.3
    texts = ["Who saw number 7?", "how many of number 9?"]
    predictions = Classify.predict(model, texts, task.dataset.preprocessor, no_decoding)
    assert predictions == ["person", "count"]
    assert Classify.predict(model, [], task.dataset.preprocessor, no_decoding) == []


def test_scores_by_hand() -> None:
    predictions, references = ["a", "a", "b", "c"], ["a", "b", "b", "a"]
    # a: precision 1/2, recall 1/2; b: precision 1, recall 1/2; c is never true.
    assert Classify.scores(predictions, references) == pytest.approx(
        {"accuracy": 50.0, "macro_f1": 100 * (1 / 2 + 2 / 3 + 0) / 3}
    )
    assert Accuracy().table(predictions, references).tolist() == [
        [1, 1],
        [0, 1],
        [1, 1],
        [0, 1],
    ]


def test_macro_f1_of_samples_of_the_items() -> None:
    references = ["a", "b", "a"]
    statistics = MacroF1().table(["a", "b", "b"], references)
    samples = np.stack([statistics.sum(axis=0), statistics[1], np.zeros(6)])
    whole, second, nothing = MacroF1().score(samples)
    assert whole == pytest.approx(100 * (2 / 3 + 2 / 3) / 2)
    assert second == 100.0
    assert np.isnan(nothing)


def test_macro_f1_agrees_with_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(0)
    targets, predictions = (rng.choice(list("abcd"), size=60).tolist() for _ in range(2))
    expected = 100 * metrics.f1_score(targets, predictions, average="macro")
    assert Classify.scores(predictions, targets)["macro_f1"] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("predictions", "targets"),
    [("aab", "aaa"), ("aaa", "aab"), ("bc", "aa"), ("abcd", "abab"), ("abcaa", "xycab")],
)
def test_macro_f1_of_labels_never_predicted_or_never_true(predictions: str, targets: str) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    found = Classify.scores(list(predictions), list(targets))["macro_f1"]
    expected = metrics.f1_score(list(targets), list(predictions), average="macro", zero_division=0)
    assert found == pytest.approx(100 * expected)
    column = [score.f1 for score in ConfusionMatrix.of(predictions, targets).label_scores()]
    assert found == pytest.approx(np.mean(column))  # of the printed table


def test_splits_are_disjoint_and_described(questions: Path, tmp_path: Path) -> None:
    dataset = task_on(questions).dataset
    facts = dataset.facts()
    assert facts["train_texts"] + facts["validation_items"] + facts["test_items"] == 240
    assert facts["leakage"] == {"validation": 0, "test": 0}
    assert "vocabulary size 100. 3 labels in 166 texts (" in dataset.describe()
    assert task_on(questions).dataset.facts() == facts
    changed = tmp_path / "changed.tsv"
    changed.write_text(questions.read_text().replace("place\t", "person\t", 1))
    assert task_on(changed).dataset.facts() != facts


def test_label_unseen_in_training(questions: Path, tmp_path: Path) -> None:
    validation = tmp_path / "validation.tsv"
    validation.write_text("place\tWhere is it?\nreason\tWhy is it?\n")
    with pytest.raises(RegardError, match=r"validation\.tsv:2: unknown label: 'reason'"):
        task_on(questions, validation_file=str(validation))
    task = task_on(questions, validation_file=str(validation), skip_bad_rows=True)
    assert task.dataset.validation.inputs == ("Where is it?",)
    assert task.dataset.errors.count == 1
    split = Classify.read_split(
        str(validation), task.options, preprocessor=task.dataset.preprocessor, errors=RowErrors()
    )
    assert split.references == ("place", "reason")
    scores, predictions, _ = task.evaluate_on(small_model(task), split)
    assert len(predictions) == 2
    assert scores["accuracy"] <= 50.0
    assert np.isfinite(scores["loss"])
    assert task.notes(split) == [
        "1 of 2 texts with a label unseen in training: reason; counted as errors, without loss"
    ]


def test_loss_is_nan_without_known_labels(questions: Path) -> None:
    task = task_on(questions)
    split = EvalSplit(inputs=("Why?", "What for?"), references=("meh", "hm"))
    scores = task.evaluate_on(small_model(task), split).scores
    assert np.isnan(scores["loss"])
    assert scores["accuracy"] == 0
    (note,) = task.notes(split)
    assert note.startswith("2 of 2 texts with labels unseen in training: meh, hm;")
    assert task.notes(task.dataset.validation) == []


def test_truncation(questions: Path) -> None:
    task = task_on(questions, max_length=8)
    assert max(int(batch.input.lengths.max()) for batch in task.epoch(0)) <= 8
    split = EvalSplit(inputs=("who saw " * 50,), references=("person",))
    assert len(task.evaluate_on(small_model(task), split).predictions) == 1
    assert task.notes(split) == ["1 of 1 text truncated to 8 tokens, 94.0 % of all tokens removed"]


@pytest.mark.parametrize("kind", ["words", "word_punct", "subwords", "wordpiece"])
def test_too_small_vocabulary_names_the_option(questions: Path, kind: str) -> None:
    with pytest.raises(RegardError, match=r"^task\.vocabulary_size=1\b"):
        task_on(questions, tokens=kind, vocabulary_size=1)


def test_hop_overlap_needs_several_hops(questions: Path) -> None:
    task = task_on(questions, metric="hop_overlap")
    with pytest.raises(RegardError, match=r"task\.metric=hop_overlap: .* accuracy, macro_f1, loss"):
        task.validate_metric(small_model(task))
    torch.manual_seed(0)
    model = StructuredClassifier(
        **task.dataset.preprocessor.sizes(), model_dim=8, hidden_dim=4, hops=2
    )
    task.validate_metric(model)
    assert model.training
    task_on(questions).validate_metric(small_model(task))


def test_majority_baseline(questions: Path) -> None:
    task = task_on(questions)
    found = task.baselines(task.dataset.validation)
    assert list(found) == ["majority baseline", "TF-IDF + logistic regression"]
    assert 10 < found["majority baseline"]["scores"]["accuracy"] < 60
    assert found["TF-IDF + logistic regression"]["scores"]["accuracy"] == 100.0


def test_vocabulary_of_a_pretrained_encoder(questions: Path) -> None:
    task = task_on(questions)
    pretrained = task.dataset.preprocessor.for_warm_start()
    again = Classify.from_options(task.options, seed=0, decode=no_decoding, preprocessor=pretrained)
    assert again.dataset.preprocessor.target.labels == ("count", "person", "place")
    assert again.dataset.facts() == task.dataset.facts()


@pytest.mark.parametrize("kind", ["words", "characters", "subwords"])
def test_tokenizers(questions: Path, kind: str) -> None:
    task = task_on(questions, tokens=kind, max_length=40)
    assert task.dataset.preprocessor.input.kind == kind
    assert task.evaluate(small_model(task))["accuracy"] >= 0


def test_invalid_options(questions: Path, tmp_path: Path) -> None:
    one = tmp_path / "one.tsv"
    one.write_text("place\ta\nplace\tb\n")
    with pytest.raises(RegardError, match="1 label"):
        task_on(one, validation_fraction=0.0)
    with pytest.raises(RegardError, match=r"task\.tokens=wordpieces.*wordpiece"):
        task_on(questions, tokens="wordpieces")
    with pytest.raises(RegardError, match=r"task\.label_smoothing=1\.0"):
        task_on(questions, label_smoothing=1.0)
    with pytest.raises(RegardError, match=r"task\.validation_fraction=0\.0"):
        task_on(questions, validation_fraction=0.0)


def test_with_text_encoder(questions: Path) -> None:
    task = task_on(questions)
    torch.manual_seed(0)
    model = TextEncoder(
        **task.dataset.preprocessor.sizes(),
        model_dim=16,
        num_heads=2,
        num_layers=1,
        max_length=16,
    )
    task.loss(model, task.epoch(0)[0]).total.backward()
    model.eval()
    assert set(task.evaluate(model)) == {metric.name for metric in Classify.metrics}
    labels = Classify.predict(model, ["who " * 99], task.dataset.preprocessor, no_decoding)
    assert set(labels) <= set(KINDS)


@pytest.mark.data
def test_trec(data_folder: Path) -> None:
    folder = data_folder / "sentences"
    task = task_on(
        folder / "TREC.train.all.gz",
        test_file=str(folder / "TREC.test.all.gz"),
        skip_bad_rows=True,
        max_length=48,
        vocabulary_size=3000,
        batch_tokens=4000,
    )
    assert task.dataset.preprocessor.sizes()["outputs"] == 6
    assert len(task.dataset.test) == 500


def test_names_of_numbered_labels(tmp_path: Path) -> None:
    """Names stand for the labels 0, 1, 2 everywhere: balance, predictions, confusion matrix, scores."""
    path = tmp_path / "reviews.tsv"
    path.write_text("".join(f"{n % 2}\tthis film is {n % 2} of {n}\n" for n in range(80)))
    names = ("positive", "negative")  # the order of the labels, not of the alphabet
    task = task_on(path, label_names=list(names))
    assert task.dataset.preprocessor.target.labels == names
    assert "negative 27, positive 27" in task.dataset.describe()
    model, split = small_model(task).eval(), task.dataset.validation
    assert set(split.references) == set(names)
    with torch.inference_mode():
        result = task.evaluate_on(model, split)
        details = task.details(model, split, result)
    assert set(result.predictions) <= set(names)
    assert details["confusion"]["labels"] == list(names)
    other = tmp_path / "other.tsv"
    other.write_text("1\tone\npositive\ttwo\n")
    options: Any = {"preprocessor": task.dataset.preprocessor, "errors": RowErrors()}
    assert Classify.read_split(str(other), task.options, **options).references == (
        "negative",
        "positive",
    )
    other.write_text("2\tone\n")
    with pytest.raises(RegardError, match=r"other.tsv:1: label without a name: '2', .* 0 to 1"):
        Classify.read_split(str(other), task.options, **options)


@pytest.mark.parametrize("names", [["one"], ["a", "a"], ["a", ""]])
def test_invalid_label_names(names: Any) -> None:
    with pytest.raises(RegardError, match=r"task.label_names=.*two or more different names"):
        ClassifyOptions(label_names=names)
