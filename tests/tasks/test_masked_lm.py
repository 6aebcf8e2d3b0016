"""Masked language modelling and next-sentence prediction: fixed evaluation masks, loss, training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.factories.text_encoder import SmallEncoder

from regard.core.batches import END, START, Input, TokenSpec
from regard.core.errors import RegardError
from regard.data.datasets.films import FilmDocuments
from regard.data.readers.text_file import RowErrors
from regard.data.splits import EvalSplit
from regard.data.tokenizers.subword import MASK_ID
from regard.data.tokenizers.vocabulary import build_vocabulary
from regard.models.text_encoder import TextEncoder
from regard.tasks.masked_lm import MaskedLM, MaskedLMOptions, MaskedPreprocessor

CITIES = ["rome", "paris", "oslo", "lima"]
NAMES = ["ann", "bob", "eve", "max", "ida", "tom"]


def no_decoding(model: Any, source: Input) -> Any:
    raise AssertionError("an encoder does not decode")


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    """Every name and number has a city of its own."""
    path = tmp_path / "pages.txt"
    lines = [
        f"{name.title()} {number} lives in {CITIES[number % 4]}. {name.title()} {number} is well, "
        f"and comes from {CITIES[number % 4]}."
        for number in range(40)
        for name in NAMES
    ]
    path.write_text("\n\n".join(lines) + "\n")
    return path


def task_on(path: Path, *, seed: int = 0, **options: Any) -> Any:
    chosen = {"vocabulary_size": 200, "max_length": 24, "batch_tokens": 400, **options}
    given = MaskedLMOptions(
        train_file=str(path), **{"validation_fraction": 0.2, "test_fraction": 0.1, **chosen}
    )
    return MaskedLM.from_options(given, seed=seed, decode=no_decoding)


def small_model(task: MaskedLM) -> SmallEncoder:
    torch.manual_seed(0)
    return SmallEncoder(**task.dataset.preprocessor.sizes())


def same(first: Any, second: Any) -> bool:
    return all(
        torch.equal(one, other)
        for one, other in (
            (first.input.tokens, second.input.tokens),
            (first.input.segments, second.input.segments),
            (first.target.tokens.classes, second.target.tokens.classes),
            (first.target.pairs.labels, second.target.pairs.labels),
        )
    )


def test_an_epoch_is_a_function_of_seed_and_number(documents: Path) -> None:
    task, again = task_on(documents), task_on(documents)
    one, two = task.epoch(3), again.epoch(3)
    assert len(one) == len(two) > 5
    assert same(one[2], two[2])
    assert same(one[2], one[2])
    assert same(one[1:4][1], one[2])
    assert not same(task.epoch(4)[0], one[0])
    assert not same(task_on(documents, seed=1).epoch(3)[0], one[0])


def test_batches(documents: Path) -> None:
    task = task_on(documents)
    masked = rows = 0
    for batch in task.epoch(0):
        tokens, lengths, labels = batch.input.tokens, batch.input.lengths, batch.target.pairs.labels
        is_target = batch.target.tokens.classes >= 0
        assert tokens.numel() <= 400
        assert (tokens[:, 0] == START).all()
        assert (tokens.gather(1, lengths[:, None] - 1) == END).all()
        assert ((tokens == END).sum(dim=1) == 2).all()
        assert (is_target.sum(dim=1) >= 1).all()
        assert set(labels.tolist()) <= {0, 1}
        assert batch.num_predictions == int(is_target.sum()) + len(labels)
        assert batch.target.shape == (int(is_target.sum()),)
        masked += int(is_target.sum())
        rows += len(labels)
    assert rows == len(task.dataset.train)
    assert 1.5 < masked / rows < 3.5


def test_without_next_sentence_rows_are_one_text(documents: Path) -> None:
    task = task_on(documents, next_sentence=False)
    for batch in task.epoch(0):
        assert batch.target.pairs is None
        assert not batch.input.segments.any()
        assert ((batch.input.tokens == END).sum(dim=1) == 1).all()
    scores = task.evaluate(small_model(task))
    assert set(scores) == {"masked_accuracy", "perplexity", "loss"}
    assert scores["perplexity"] == pytest.approx(torch.tensor(scores["loss"]).exp().item())
    with pytest.raises(RegardError, match=r"next_sentence_accuracy.*task\.next_sentence"):
        task_on(documents, next_sentence=False, metric="next_sentence_accuracy")


def test_loss_is_the_sum_of_both_means(documents: Path) -> None:
    task = task_on(documents)
    model, batch = small_model(task), task.epoch(0)[0]
    hidden = model.hidden(batch.input)
    classes = batch.target.tokens.classes
    tokens = torch.nn.functional.cross_entropy(
        model.token_logits(hidden)[classes >= 0], classes[classes >= 0]
    )
    pairs = torch.nn.functional.cross_entropy(
        model.pair_logits(model.pooled(hidden)), batch.target.pairs.labels
    )
    loss = task.loss(model, batch)
    assert loss.num_predictions == batch.num_predictions
    assert (loss.total / loss.num_predictions).item() == pytest.approx((tokens + pairs).item())


def test_evaluation_masks_are_fixed(documents: Path) -> None:
    task, other = task_on(documents, seed=0), task_on(documents, seed=9)
    assert task.dataset.validation == other.dataset.validation
    model = small_model(task)
    result = task.evaluate_on(model, task.dataset.validation)
    assert task.evaluate_on(model, task.dataset.validation) == result
    assert other.evaluate_on(model, task.dataset.validation) == result
    assert set(result.scores) == {metric.name for metric in MaskedLM.metrics}


def test_item_statistics(documents: Path) -> None:
    task = task_on(documents)
    scores, predictions, _ = task.evaluate_on(small_model(task), task.dataset.validation)
    references = task.dataset.validation.references
    assert len(predictions) == len(references) == len(task.dataset.validation)
    for prediction, reference in zip(predictions, references, strict=True):
        assert len(prediction) == len(reference) >= 1
    expected = MaskedLM.scores(predictions, references)
    assert scores["masked_accuracy"] == pytest.approx(expected["masked_accuracy"])


def test_training_improves_accuracy(documents: Path) -> None:
    task = task_on(documents)
    model = small_model(task)
    before = task.evaluate(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(12):
        for batch in task.epoch(epoch):
            optimizer.zero_grad()
            loss = task.loss(model, batch)
            (loss.total / loss.num_predictions).backward()
            optimizer.step()
    after = task.evaluate(model)
    # ten seeds: 54 to 68 more; untrained: 0 more
    assert after["masked_accuracy"] > before["masked_accuracy"] + 20
    assert after["loss"] < before["loss"]  # ten seeds: 1.9 to 2.1; untrained: 5.5 to 5.6


def test_predict_fills_masks(documents: Path) -> None:
    task = task_on(documents)
    preprocessor, model = task.dataset.preprocessor, small_model(task)
    texts = ["ann 3 lives in [MASK] .", "bob is well", "[MASK] [MASK]"]
    filled = MaskedLM.predict(model, texts, preprocessor, no_decoding)
    assert filled[0].startswith("ann 3 lives in")
    assert filled[1] == "bob is well"
    assert not any("[MASK]" in text or "<" in text for text in filled)


def test_given_preprocessor_is_reused(documents: Path) -> None:
    task = task_on(documents)
    record = json.loads(json.dumps(task.dataset.preprocessor.as_json()))
    given = MaskedPreprocessor.from_json(record, task.options)
    assert given.sizes() == {"source": TokenSpec(task.dataset.preprocessor.input.size)}
    again = MaskedLM.from_options(task.options, seed=0, decode=no_decoding, preprocessor=given)
    assert again.dataset.facts() == task.dataset.facts()
    with pytest.raises(RegardError, match=r"'input'.*'target'"):
        MaskedPreprocessor.from_json({"input": record["input"]}, task.options)


def test_splits_are_disjoint_and_described(documents: Path, tmp_path: Path) -> None:
    task = task_on(documents)
    facts = task.dataset.facts()
    assert facts["train_documents"] + facts["validation_items"] + facts["test_items"] == 240
    assert facts["leakage"] == {"validation": 0, "test": 0}
    assert "training documents" in task.dataset.describe()
    own = tmp_path / "validation.txt"
    own.write_text("\n".join(documents.read_text().split("\n\n")[:7]))
    dataset = task_on(documents, validation_file=str(own)).dataset
    assert (len(dataset.validation), len(dataset.test)) == (7, 0)
    assert dataset.leakage == {"validation": 7, "test": 0}


def test_read_split(documents: Path) -> None:
    task = task_on(documents)
    split = MaskedLM.read_split(
        str(documents), task.options, errors=RowErrors(), preprocessor=task.dataset.preprocessor
    )
    assert len(split) == 240
    scores, predictions, _ = task.evaluate_on(small_model(task), split)
    expected = MaskedLM.scores(predictions, split.references)["masked_accuracy"]
    assert scores["masked_accuracy"] == pytest.approx(expected)


def test_one_document_has_no_next_sentence(documents: Path) -> None:
    task = task_on(documents)
    split = EvalSplit(inputs=("ann 3 lives in rome .",), references=([],))
    assert "next_sentence_accuracy" not in task.evaluate_on(small_model(task), split).scores


def test_long_documents_are_chunked(documents: Path) -> None:
    task = task_on(documents)
    text = "ann 3 lives in rome . " * 40
    batches = task_on(documents, next_sentence=False).epoch(0)
    assert max(int(batch.input.lengths.max()) for batch in batches) <= 24
    result = task.evaluate_on(small_model(task), EvalSplit(inputs=(text,), references=([],)))
    assert len(result.predictions[0]) > 20


def test_embedded_documents() -> None:
    assert "film" in next(FilmDocuments().rows(errors=RowErrors())).input


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mask_fraction": 0.0}, r"task\.mask_fraction=0\.0"),
        ({"max_length": 4}, r"task\.max_length=4\b.*8"),
        ({"batch_tokens": 100}, r"task\.batch_tokens=100 does not hold a row"),
        ({"metric": "masked_acuracy"}, "Did you mean 'masked_accuracy'"),
        ({"validation_fraction": 0.0}, r"task\.validation_fraction=0\.0"),
    ],
)
def test_invalid_options(documents: Path, options: dict, message: str) -> None:
    with pytest.raises(RegardError, match=message):
        task_on(documents, **{"max_length": 128, "batch_tokens": 400, **options})


def test_vocabulary_without_mask_token_raises(documents: Path) -> None:
    options = MaskedLMOptions(train_file=str(documents))
    with pytest.raises(RegardError, match=r"words.*\[MASK\]"):
        MaskedPreprocessor(options, input=build_vocabulary("words", ["a b"], lowercase=True))


def test_with_text_encoder(documents: Path) -> None:
    task = task_on(documents)
    torch.manual_seed(0)
    model = TextEncoder(
        **task.dataset.preprocessor.sizes(), model_dim=16, num_heads=2, num_layers=1, max_length=24
    )
    batch = task.epoch(0)[0]
    loss = task.loss(model, batch)
    loss.total.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    model.eval()
    assert set(task.evaluate(model)) == {metric.name for metric in MaskedLM.metrics}
    (filled,) = MaskedLM.predict(model, ["ann [MASK]"], task.dataset.preprocessor, no_decoding)
    assert filled.startswith("ann ")
    assert MASK_ID not in task.dataset.preprocessor.input.encode(filled)
