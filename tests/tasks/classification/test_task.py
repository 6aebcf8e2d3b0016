"""The task of labels: read from any file, scored by accuracy and macro-F1, learned by a small model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.factories.text_encoder import SmallEncoder
from torch import Tensor

from regard.core.batches import TextBatch
from regard.core.errors import RegardError
from regard.data.readers.text_file import BadRows
from regard.data.splits import HeldOut
from regard.models.classifiers.structured import StructuredClassifier
from regard.models.text_encoder import TextEncoder
from regard.tasks.classification.corpus import ClassifyOptions
from regard.tasks.classification.task import Classify
from regard.tasks.metrics.accuracy import macro_f1
from regard.tasks.metrics.confusion_matrix import Confusion
from regard.tasks.text_task import TextVocabularies

KINDS = {"place": "where is", "person": "who saw", "count": "how many of"}


def no_decoding(model: Any, source: Tensor, source_lengths: Tensor) -> Any:
    raise AssertionError("a label is not written")


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


def task_on(path: Path, *, seed: int = 0, **options: Any) -> Classify:
    chosen = {"vocabulary_size": 100, "max_length": 16, "batch_tokens": 120, **options}
    given = ClassifyOptions(
        labels=str(path), **{"validation_share": 0.2, "test_share": 0.1, **chosen}
    )
    return Classify.from_options(given, seed=seed, decode=no_decoding)


def small_model(task: Classify) -> SmallEncoder:
    torch.manual_seed(0)
    return SmallEncoder(**task.corpus.vocabularies.sizes())


def same(first: TextBatch, second: TextBatch) -> bool:
    return all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


def test_labels_are_sorted_and_sizes_are_those_of_the_model(questions: Path) -> None:
    vocabularies = task_on(questions).corpus.vocabularies
    assert vocabularies.labels == ("count", "person", "place")
    assert vocabularies.sizes() == {"vocabulary": vocabularies.text.size, "classes": 3}
    again = TextVocabularies.from_json(json.loads(json.dumps(vocabularies.as_json())))
    assert again.as_json() == vocabularies.as_json()


def test_an_epoch_is_a_function_of_seed_and_number(questions: Path) -> None:
    task, again = task_on(questions), task_on(questions)
    assert same(task.epoch(1)[0], again.epoch(1)[0])
    assert not same(task.epoch(1)[0], task.epoch(2)[0])
    rows = 0
    for batch in task.epoch(0):
        assert batch.tokens.numel() <= 120
        assert batch.num_predictions == len(batch.labels)
        assert not batch.predicted.any()
        rows += len(batch.labels)
    assert rows == len(task.corpus.train)


def test_it_can_be_learned(questions: Path) -> None:
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
    predicted = Classify.predict(
        model, texts, task.corpus.vocabularies, no_decoding, options=task.options
    )
    assert predicted == ["person", "count"]
    assert (
        Classify.predict(model, [], task.corpus.vocabularies, no_decoding, options=task.options)
        == []
    )


def test_scores_can_be_checked_by_hand() -> None:
    predicted, answers = ["a", "a", "b", "c"], [["a"], ["b"], ["b"], ["a"]]
    # a: 1 of 2 said, 1 of 2 wanted; b: 1 of 1 said, 1 of 2 wanted; c is said and wanted by none.
    assert Classify.scores(predicted, answers) == pytest.approx(
        {"accuracy": 50.0, "macro_f1": 100 * (1 / 2 + 2 / 3 + 0) / 3}
    )
    assert Classify.item_statistics("accuracy", predicted, answers).tolist() == [
        [1, 1],
        [0, 1],
        [1, 1],
        [0, 1],
    ]


def test_macro_f1_of_samples_of_the_items() -> None:
    answers = [["a"], ["b"], ["a"]]
    statistics = Classify.item_statistics("macro_f1", ["a", "b", "b"], answers)
    samples = np.stack([statistics.sum(axis=0), statistics[1], np.zeros(6)])
    whole, second, nothing = macro_f1(samples)
    assert whole == pytest.approx(100 * (2 / 3 + 2 / 3) / 2)
    assert second == 100.0
    assert np.isnan(nothing)


def test_macro_f1_is_that_of_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(0)
    wanted, said = (rng.choice(list("abcd"), size=60).tolist() for _ in range(2))
    expected = 100 * metrics.f1_score(wanted, said, average="macro")
    assert Classify.scores(said, [[label] for label in wanted])["macro_f1"] == pytest.approx(
        expected
    )


@pytest.mark.parametrize(
    ("said", "wanted"),
    [("aab", "aaa"), ("aaa", "aab"), ("bc", "aa"), ("abcd", "abab"), ("abcaa", "xycab")],
)
def test_macro_f1_is_that_of_scikit_learn_where_labels_are_only_said_or_only_wanted(
    said: str, wanted: str
) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    found = Classify.scores(list(said), [[label] for label in wanted])["macro_f1"]
    expected = metrics.f1_score(list(wanted), list(said), average="macro", zero_division=0)
    assert found == pytest.approx(100 * expected)
    column = [score.f1 for score in Confusion.of(said, wanted).label_scores()]
    assert found == pytest.approx(np.mean(column))  # of the table that is printed


def test_parts_are_apart_and_described(questions: Path, tmp_path: Path) -> None:
    corpus = task_on(questions).corpus
    facts = corpus.facts()
    assert facts["train_texts"] + facts["validation_items"] + facts["test_items"] == 240
    assert facts["held_out_sources_in_train"] == {"validation": 0, "test": 0}
    assert (
        "; vocabulary of 100. 3 labels over 166 texts, all about equally common"
        in corpus.describe()
    )
    assert task_on(questions).corpus.facts() == facts
    changed = tmp_path / "changed.tsv"
    changed.write_text(questions.read_text().replace("place\t", "person\t", 1))
    assert task_on(changed).corpus.facts() != facts


def test_a_label_that_is_never_learned(questions: Path, tmp_path: Path) -> None:
    validation = tmp_path / "dev.tsv"
    validation.write_text("place\tWhere is it?\nreason\tWhy is it?\n")
    with pytest.raises(
        RegardError, match=r"validation\.tsv:2: unknown label: 'reason' is not in the"
    ):
        task_on(questions, validation=str(validation))
    task = task_on(questions, validation=str(validation), skip_bad_rows=True)
    assert task.corpus.validation.sources == ("Where is it?",)
    assert task.corpus.bad.count == 1
    part = Classify.held_out(str(validation), task.options, bad=BadRows())
    assert part.answers == (("place",), ("reason",))
    scores, predicted, _ = task.assess_on(small_model(task), part)
    assert len(predicted) == 2
    assert scores["accuracy"] <= 50.0
    assert np.isfinite(scores["loss"])
    assert task.notes(part) == [
        "1 of 2 texts has a label that the model never learned: reason; they count as wrong, and have "
        "no loss"
    ]


def test_where_no_label_is_known_there_is_no_loss(questions: Path) -> None:
    task = task_on(questions)
    part = HeldOut(sources=("Why?", "What for?"), answers=(("meh",), ("hm",)))
    scores = task.assess_on(small_model(task), part).scores
    assert np.isnan(scores["loss"])
    assert scores["accuracy"] == 0
    (note,) = task.notes(part)
    assert note.startswith("2 of 2 texts have labels that the model never learned: meh, hm;")
    assert task.notes(task.corpus.validation) == []


def test_long_texts_are_cut_off(questions: Path) -> None:
    task = task_on(questions, max_length=8)
    assert max(int(batch.lengths.max()) for batch in task.epoch(0)) <= 8
    part = HeldOut(sources=("who saw " * 50,), answers=(("person",),))
    assert len(task.assess_on(small_model(task), part).predicted) == 1
    assert task.notes(part) == [
        "1 of 1 text is cut off after 8 tokens, which leaves out 94.0 % of what there is to read"
    ]


@pytest.mark.parametrize("kind", ["words", "running_words", "subwords", "wordpiece"])
def test_a_vocabulary_that_is_too_small_has_the_name_of_its_option(
    questions: Path, kind: str
) -> None:
    with pytest.raises(RegardError, match=r"^task\.vocabulary_size=1\b.* numbers are taken"):
        task_on(questions, tokens=kind, vocabulary_size=1)


def test_what_hops_share_is_no_metric_of_a_model_without_them(questions: Path) -> None:
    task = task_on(questions, metric="hop_overlap")
    with pytest.raises(
        RegardError, match=r"task\.metric=hop_overlap: .* accuracy, macro_f1, loss; or"
    ):
        task.require_metric(small_model(task))
    torch.manual_seed(0)
    model = StructuredClassifier(
        **task.corpus.vocabularies.sizes(), model_dim=8, hidden_dim=4, hops=2
    )
    task.require_metric(model)
    assert model.training
    task_on(questions).require_metric(small_model(task))


def test_the_commonest_label_is_a_baseline(questions: Path) -> None:
    task = task_on(questions)
    (accuracy,) = task.baselines(task.corpus.validation).values()
    assert 10 < accuracy < 60


def test_an_encoders_vocabulary_gets_labels(questions: Path) -> None:
    task = task_on(questions)
    pretrained = TextVocabularies(text=task.corpus.vocabularies.text)
    again = Classify.from_options(task.options, seed=0, decode=no_decoding, vocabularies=pretrained)
    assert again.corpus.vocabularies.labels == ("count", "person", "place")
    assert again.corpus.facts() == task.corpus.facts()


@pytest.mark.parametrize("kind", ["words", "characters", "subwords"])
def test_any_vocabulary_will_do(questions: Path, kind: str) -> None:
    task = task_on(questions, tokens=kind, max_length=40)
    assert task.corpus.vocabularies.text.kind == kind
    assert task.evaluate(small_model(task))["accuracy"] >= 0


def test_what_cannot_be_learned_is_refused(questions: Path, tmp_path: Path) -> None:
    one = tmp_path / "one.tsv"
    one.write_text("place\ta\nplace\tb\n")
    with pytest.raises(RegardError, match="has 1 label in the part that is learned from"):
        task_on(one, validation_share=0.0)
    with pytest.raises(RegardError, match="Unknown vocabulary 'wordpieces'"):
        task_on(questions, tokens="wordpieces")
    with pytest.raises(RegardError, match=r"task\.label_smoothing=1\.0"):
        task_on(questions, label_smoothing=1.0)
    with pytest.raises(RegardError, match="nothing held out"):
        task_on(questions, validation_share=0.0)


def test_the_real_encoder_takes_it(questions: Path) -> None:
    task = task_on(questions)
    torch.manual_seed(0)
    model = TextEncoder(
        **task.corpus.vocabularies.sizes(),
        model_dim=16,
        num_heads=2,
        num_layers=1,
        max_length=16,
    )
    task.loss(model, task.epoch(0)[0]).total.backward()
    model.eval()
    assert set(task.evaluate(model)) == set(Classify.metrics)
    labels = Classify.predict(
        model, ["who " * 99], task.corpus.vocabularies, no_decoding, options=task.options
    )
    assert set(labels) <= set(KINDS)


@pytest.mark.data
def test_the_question_set(data_folder: Path) -> None:
    folder = data_folder / "sentences"
    task = task_on(
        folder / "TREC.train.all.gz",
        test=str(folder / "TREC.test.all.gz"),
        skip_bad_rows=True,
        max_length=48,
        vocabulary_size=3000,
        batch_tokens=4000,
    )
    assert task.corpus.vocabularies.sizes()["classes"] == 6
    assert len(task.corpus.test) == 500
