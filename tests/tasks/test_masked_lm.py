"""Masked language modelling and next-sentence prediction: fixed evaluation masks, loss, training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.factories.text_encoder import SmallEncoder
from torch import Tensor

from regard.core.batches import END, START, TextBatch
from regard.core.errors import RegardError
from regard.data.datasets.films import FilmDocuments
from regard.data.readers.text_file import RowErrors
from regard.data.splits import EvalSplit
from regard.data.tokenizers.subword import MASK_ID
from regard.models.text_encoder import TextEncoder
from regard.tasks.masked_lm import MaskedLM, MaskedLMOptions
from regard.tasks.text_task import TextVocabularies

CITIES = ["rome", "paris", "oslo", "lima"]
NAMES = ["ann", "bob", "eve", "max", "ida", "tom"]


def no_decoding(model: Any, source: Tensor, source_lengths: Tensor) -> Any:
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


def task_on(path: Path, *, seed: int = 0, **options: Any) -> MaskedLM:
    chosen = {"vocabulary_size": 200, "max_length": 24, "batch_tokens": 400, **options}
    given = MaskedLMOptions(
        train_file=str(path), **{"validation_fraction": 0.2, "test_fraction": 0.1, **chosen}
    )
    return MaskedLM.from_options(given, seed=seed, decode=no_decoding)


def small_model(task: MaskedLM) -> SmallEncoder:
    torch.manual_seed(0)
    return SmallEncoder(**task.corpus.vocabularies.sizes())


def same(first: TextBatch, second: TextBatch) -> bool:
    return all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


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
        assert batch.tokens.numel() <= 400
        assert (batch.tokens[:, 0] == START).all()
        assert (batch.tokens.gather(1, batch.lengths[:, None] - 1) == END).all()
        assert ((batch.tokens == END).sum(dim=1) == 2).all()
        assert (batch.target_mask.sum(dim=1) >= 1).all()
        assert set(batch.labels.tolist()) <= {0, 1}
        assert batch.num_predictions == int(batch.target_mask.sum()) + len(batch.labels)
        assert batch.num_tokens == int(batch.lengths.sum())
        assert MaskedLM.cost_kwargs(batch) == {
            "batch_size": batch.tokens.shape[0],
            "length": batch.tokens.shape[1],
            "masked_tokens": int(batch.target_mask.sum()),
        }
        masked += int(batch.target_mask.sum())
        rows += len(batch.labels)
    assert rows == len(task.corpus.train)
    assert 1.5 < masked / rows < 3.5


def test_without_next_sentence_rows_are_one_text(documents: Path) -> None:
    task = task_on(documents, next_sentence=False)
    for batch in task.epoch(0):
        assert not batch.labelled.any()
        assert not batch.segments.any()
        assert ((batch.tokens == END).sum(dim=1) == 1).all()
    scores = task.evaluate(small_model(task))
    assert set(scores) == {"masked_accuracy", "perplexity", "loss"}
    assert scores["perplexity"] == pytest.approx(torch.tensor(scores["loss"]).exp().item())
    with pytest.raises(RegardError, match=r"next_sentence_accuracy.*task\.next_sentence"):
        task_on(documents, next_sentence=False, metric="next_sentence_accuracy")


def test_loss_is_the_sum_of_both_means(documents: Path) -> None:
    task = task_on(documents)
    model, batch = small_model(task), task.epoch(0)[0]
    hidden = model.hidden(batch.tokens, batch.lengths, batch.segments)
    masked = batch.target_mask
    tokens = torch.nn.functional.cross_entropy(
        model.token_logits(hidden)[masked], batch.token_targets[masked]
    )
    pairs = torch.nn.functional.cross_entropy(model.pair_logits(model.pooled(hidden)), batch.labels)
    loss = task.loss(model, batch)
    assert loss.num_predictions == batch.num_predictions
    assert (loss.total / loss.num_predictions).item() == pytest.approx((tokens + pairs).item())


def test_evaluation_masks_are_fixed(documents: Path) -> None:
    task, other = task_on(documents, seed=0), task_on(documents, seed=9)
    assert task.corpus.validation == other.corpus.validation
    model = small_model(task)
    result = task.evaluate_on(model, task.corpus.validation)
    assert task.evaluate_on(model, task.corpus.validation) == result
    assert other.evaluate_on(model, task.corpus.validation) == result
    assert set(result.scores) == set(MaskedLM.metrics)


def test_item_statistics(documents: Path) -> None:
    task = task_on(documents)
    scores, predictions, _ = task.evaluate_on(small_model(task), task.corpus.validation)
    references = task.corpus.validation.references
    assert len(predictions) == len(references) == len(task.corpus.validation)
    for prediction, (reference,) in zip(predictions, references, strict=True):
        assert len(prediction.split()) == len(reference.split()) >= 1
    expected = MaskedLM.scores(predictions, references)
    assert scores["masked_accuracy"] == pytest.approx(expected["masked_accuracy"])
    sums = MaskedLM.item_statistics("masked_accuracy", predictions, references).sum(axis=0)
    score = MaskedLM.corpus_metric("masked_accuracy").score(sums)
    assert score.item() == pytest.approx(expected["masked_accuracy"])
    with pytest.raises(RegardError, match="'loss'"):
        MaskedLM.item_statistics("loss", predictions, references)


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
    vocabularies, model = task.corpus.vocabularies, small_model(task)
    texts = ["ann 3 lives in [MASK] .", "bob is well", "[MASK] [MASK]"]
    filled = MaskedLM.predict(model, texts, vocabularies, no_decoding, options=task.options)
    assert filled[0].startswith("ann 3 lives in")
    assert filled[1] == "bob is well"
    assert not any("[MASK]" in text or "<" in text for text in filled)


def test_given_vocabularies_are_reused(documents: Path) -> None:
    task = task_on(documents)
    record = json.loads(json.dumps(task.corpus.vocabularies.as_json()))
    vocabularies = TextVocabularies.from_json(record)
    assert vocabularies.sizes() == {"vocabulary": task.corpus.vocabularies.text.size}
    again = MaskedLM.from_options(
        task.options, seed=0, decode=no_decoding, vocabularies=vocabularies
    )
    assert again.corpus.facts() == task.corpus.facts()
    with pytest.raises(RegardError, match=r"'text'.*'labels'"):
        TextVocabularies.from_json({"text": record["text"]})


def test_splits_are_disjoint_and_described(documents: Path, tmp_path: Path) -> None:
    task = task_on(documents)
    facts = task.corpus.facts()
    assert facts["train_documents"] + facts["validation_items"] + facts["test_items"] == 240
    assert facts["leakage"] == {"validation": 0, "test": 0}
    assert "training documents" in task.corpus.describe()
    own = tmp_path / "validation.txt"
    own.write_text("\n".join(documents.read_text().split("\n\n")[:7]))
    corpus = task_on(documents, validation_file=str(own)).corpus
    assert (len(corpus.validation), len(corpus.test)) == (7, 0)
    assert corpus.leakage == {"validation": 7, "test": 0}


def test_read_split(documents: Path) -> None:
    task = task_on(documents)
    split = MaskedLM.read_split(str(documents), task.options, errors=RowErrors())
    with pytest.raises(RegardError, match="nothing to score"):
        MaskedLM.scores(list(split.inputs), split.references)
    with_references = MaskedLM.read_split(
        str(documents), task.options, errors=RowErrors(), vocabularies=task.corpus.vocabularies
    )
    assert with_references.inputs == split.inputs
    scores, predictions, _ = task.evaluate_on(small_model(task), split)
    expected = MaskedLM.scores(predictions, with_references.references)["masked_accuracy"]
    assert scores["masked_accuracy"] == pytest.approx(expected)


def test_one_document_has_no_next_sentence(documents: Path) -> None:
    task = task_on(documents)
    split = EvalSplit(inputs=("ann 3 lives in rome .",), references=(("",),))
    assert "next_sentence_accuracy" not in task.evaluate_on(small_model(task), split).scores


def test_long_documents_are_chunked(documents: Path) -> None:
    task = task_on(documents)
    text = "ann 3 lives in rome . " * 40
    batches = task_on(documents, next_sentence=False).epoch(0)
    assert max(int(batch.lengths.max()) for batch in batches) <= 24
    result = task.evaluate_on(small_model(task), EvalSplit(inputs=(text,), references=(("",),)))
    assert len(result.predictions[0].split()) > 20


def test_embedded_documents() -> None:
    assert "film" in next(FilmDocuments().rows(errors=RowErrors())).text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mask_fraction": 0.0}, r"task\.mask_fraction=0\.0"),
        ({"max_length": 4}, r"task\.max_length=4: it must be 8 or more"),
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
    words = TextVocabularies.build(options, kind="words", texts=["a b"])
    with pytest.raises(RegardError, match=r"words.*\[MASK\]"):
        MaskedLM.from_options(options, seed=0, decode=no_decoding, vocabularies=words)


def test_with_text_encoder(documents: Path) -> None:
    task = task_on(documents)
    torch.manual_seed(0)
    model = TextEncoder(
        **task.corpus.vocabularies.sizes(), model_dim=16, num_heads=2, num_layers=1, max_length=24
    )
    batch = task.epoch(0)[0]
    loss = task.loss(model, batch)
    loss.total.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    assert model.cost(**MaskedLM.cost_kwargs(batch)).flops > 0
    model.eval()
    assert set(task.evaluate(model)) == set(MaskedLM.metrics)
    (filled,) = MaskedLM.predict(
        model, ["ann [MASK]"], task.corpus.vocabularies, no_decoding, options=task.options
    )
    assert filled.startswith("ann ")
    assert MASK_ID not in task.corpus.vocabularies.text.encode(filled)
