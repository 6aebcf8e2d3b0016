"""The task of masked tokens and pairs: the same question every time, and a model that learns it."""

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
from regard.data.readers.text_file import BadRows
from regard.data.splits import HeldOut
from regard.data.tokenizers.subword import MASK_NUMBER
from regard.models.text_encoder import TextEncoder
from regard.tasks.masked_lm import Encoder, EncoderOptions
from regard.tasks.text_task import TextVocabularies

PLACES = ["rome", "paris", "oslo", "lima"]
NAMES = ["ann", "bob", "eve", "max", "ida", "tom"]


def no_decoding(model: Any, source: Tensor, source_lengths: Tensor) -> Any:
    raise AssertionError("an encoder does not write")


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    """Everyone has a place, a number and an animal of their own."""
    path = tmp_path / "pages.txt"
    lines = [
        f"{name.title()} {number} lives in {PLACES[number % 4]}. {name.title()} {number} is well, "
        f"and comes from {PLACES[number % 4]}."
        for number in range(40)
        for name in NAMES
    ]
    path.write_text("\n\n".join(lines) + "\n")
    return path


def task_on(path: Path, *, seed: int = 0, **options: Any) -> Encoder:
    chosen = {"vocabulary_size": 200, "max_length": 24, "batch_tokens": 400, **options}
    given = EncoderOptions(text=str(path), **{"validation_share": 0.2, "test_share": 0.1, **chosen})
    return Encoder.from_options(given, seed=seed, decode=no_decoding)


def small_model(task: Encoder) -> SmallEncoder:
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


def test_batches_are_filled_and_masked(documents: Path) -> None:
    task = task_on(documents)
    asked = rows = 0
    for batch in task.epoch(0):
        assert batch.tokens.numel() <= 400
        assert (batch.tokens[:, 0] == START).all()
        assert (batch.tokens.gather(1, batch.lengths[:, None] - 1) == END).all()
        assert ((batch.tokens == END).sum(dim=1) == 2).all()
        assert (batch.predicted.sum(dim=1) >= 1).all()
        assert set(batch.labels.tolist()) <= {0, 1}
        assert batch.num_predictions == int(batch.predicted.sum()) + len(batch.labels)
        assert batch.num_tokens == int(batch.lengths.sum())
        assert Encoder.cost_words(batch) == {
            "batch_size": batch.tokens.shape[0],
            "length": batch.tokens.shape[1],
            "places": int(batch.predicted.sum()),
        }
        asked += int(batch.predicted.sum())
        rows += len(batch.labels)
    assert rows == len(task.corpus.train)
    assert 1.5 < asked / rows < 3.5


def test_without_pairs_rows_are_one_text(documents: Path) -> None:
    task = task_on(documents, pairs=False)
    for batch in task.epoch(0):
        assert not batch.labelled.any()
        assert not batch.segments.any()
        assert ((batch.tokens == END).sum(dim=1) == 1).all()
    scores = task.evaluate(small_model(task))
    assert set(scores) == {"masked_accuracy", "perplexity", "loss"}
    assert scores["perplexity"] == pytest.approx(torch.tensor(scores["loss"]).exp().item())
    with pytest.raises(RegardError, match=r"pair_accuracy' needs pairs, but task\.pairs is false"):
        task_on(documents, pairs=False, metric="pair_accuracy")


def test_the_loss_is_the_sum_of_both_means(documents: Path) -> None:
    task = task_on(documents)
    model, batch = small_model(task), task.epoch(0)[0]
    hidden = model.hidden(batch.tokens, batch.lengths, batch.segments)
    predicted = batch.predicted
    tokens = torch.nn.functional.cross_entropy(
        model.token_logits(hidden)[predicted], batch.wanted[predicted]
    )
    pairs = torch.nn.functional.cross_entropy(model.pair_logits(model.pooled(hidden)), batch.labels)
    loss = task.loss(model, batch)
    assert loss.num_predictions == batch.num_predictions
    assert (loss.total / loss.num_predictions).item() == pytest.approx((tokens + pairs).item())


def test_every_model_is_asked_the_same(documents: Path) -> None:
    task, other = task_on(documents, seed=0), task_on(documents, seed=9)
    assert task.corpus.validation == other.corpus.validation
    model = small_model(task)
    assessed = task.assess_on(model, task.corpus.validation)
    assert task.assess_on(model, task.corpus.validation) == assessed
    assert other.assess_on(model, task.corpus.validation) == assessed
    assert set(assessed.scores) == set(Encoder.metrics)


def test_predictions_and_answers_are_scored_item_by_item(documents: Path) -> None:
    task = task_on(documents)
    scores, predicted, _ = task.assess_on(small_model(task), task.corpus.validation)
    answers = task.corpus.validation.answers
    assert len(predicted) == len(answers) == len(task.corpus.validation)
    for said, (answer,) in zip(predicted, answers, strict=True):
        assert len(said.split()) == len(answer.split()) >= 1
    expected = Encoder.scores(predicted, answers)
    assert scores["masked_accuracy"] == pytest.approx(expected["masked_accuracy"])
    sums = Encoder.item_statistics("masked_accuracy", predicted, answers).sum(axis=0)
    score = Encoder.summed_metric("masked_accuracy").score(sums)
    assert score.item() == pytest.approx(expected["masked_accuracy"])
    with pytest.raises(RegardError, match="'loss' is not a function of what was predicted"):
        Encoder.item_statistics("loss", predicted, answers)


def test_it_can_be_learned(documents: Path) -> None:
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


def test_a_mask_is_filled(documents: Path) -> None:
    task = task_on(documents)
    vocabularies, model = task.corpus.vocabularies, small_model(task)
    texts = ["ann 3 lives in [MASK] .", "bob is well", "[MASK] [MASK]"]
    filled = Encoder.predict(model, texts, vocabularies, no_decoding, options=task.options)
    assert filled[0].startswith("ann 3 lives in")
    assert filled[1] == "bob is well"
    assert not any("[MASK]" in text or "<" in text for text in filled)


def test_known_vocabularies_are_used_again(documents: Path) -> None:
    task = task_on(documents)
    record = json.loads(json.dumps(task.corpus.vocabularies.as_json()))
    vocabularies = TextVocabularies.from_json(record)
    assert vocabularies.sizes() == {"vocabulary": task.corpus.vocabularies.text.size}
    again = Encoder.from_options(
        task.options, seed=0, decode=no_decoding, vocabularies=vocabularies
    )
    assert again.corpus.facts() == task.corpus.facts()
    with pytest.raises(RegardError, match="has no 'text' and 'labels'"):
        TextVocabularies.from_json({"text": record["text"]})


def test_parts_are_apart_and_described(documents: Path, tmp_path: Path) -> None:
    task = task_on(documents)
    facts = task.corpus.facts()
    assert facts["train_documents"] + facts["validation_items"] + facts["test_items"] == 240
    assert facts["held_out_sources_in_train"] == {"validation": 0, "test": 0}
    assert "documents to learn from" in task.corpus.describe()
    own = tmp_path / "validation.txt"
    own.write_text("\n".join(documents.read_text().split("\n\n")[:7]))
    corpus = task_on(documents, validation=str(own)).corpus
    assert (len(corpus.validation), len(corpus.test)) == (7, 0)
    assert corpus.learned_too == {"validation": 7, "test": 0}


def test_another_file_gets_its_answers_from_a_vocabulary(documents: Path) -> None:
    task = task_on(documents)
    part = Encoder.held_out(str(documents), task.options, bad=BadRows())
    with pytest.raises(RegardError, match="no item has an answer"):
        Encoder.scores(list(part.sources), part.answers)
    asked = Encoder.held_out(
        str(documents), task.options, bad=BadRows(), vocabularies=task.corpus.vocabularies
    )
    assert asked.sources == part.sources
    scores, predicted, _ = task.assess_on(small_model(task), part)
    expected = Encoder.scores(predicted, asked.answers)["masked_accuracy"]
    assert scores["masked_accuracy"] == pytest.approx(expected)


def test_one_document_to_score_has_no_pairs(documents: Path) -> None:
    task = task_on(documents)
    part = HeldOut(sources=("ann 3 lives in rome .",), answers=(("",),))
    assert "pair_accuracy" not in task.assess_on(small_model(task), part).scores


def test_a_long_document_is_read_to_its_end(documents: Path) -> None:
    task = task_on(documents)
    text = "ann 3 lives in rome . " * 40
    batches = task_on(documents, pairs=False).epoch(0)
    assert max(int(batch.lengths.max()) for batch in batches) <= 24
    assessed = task.assess_on(small_model(task), HeldOut(sources=(text,), answers=(("",),)))
    assert len(assessed.predicted[0].split()) > 20


def test_the_embedded_pages_are_about_films() -> None:
    rows = Encoder.training_texts(EncoderOptions()).rows(bad=BadRows())
    assert "film" in next(rows).text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"masked_share": 0.0}, r"task\.masked_share=0\.0"),
        ({"max_length": 4}, r"task\.max_length=4: it must be 8 or more"),
        ({"batch_tokens": 100}, r"task\.batch_tokens=100 does not hold a row"),
        ({"metric": "masked_acuracy"}, "Did you mean 'masked_accuracy'"),
        ({"validation_share": 0.0}, "nothing held out"),
    ],
)
def test_options_that_mean_nothing_are_refused(
    documents: Path, options: dict, message: str
) -> None:
    with pytest.raises(RegardError, match=message):
        task_on(documents, **{"max_length": 128, "batch_tokens": 400, **options})


def test_a_vocabulary_without_a_mask_is_refused(documents: Path) -> None:
    words = EncoderOptions(text=str(documents))
    kinds = TextVocabularies.build(words, kind="words", texts=["a b"])
    with pytest.raises(RegardError, match="has no token for a masked place"):
        Encoder.from_options(words, seed=0, decode=no_decoding, vocabularies=kinds)


def test_the_real_encoder_takes_it(documents: Path) -> None:
    task = task_on(documents)
    torch.manual_seed(0)
    model = TextEncoder(
        **task.corpus.vocabularies.sizes(), model_dim=16, num_heads=2, num_layers=1, max_length=24
    )
    batch = task.epoch(0)[0]
    loss = task.loss(model, batch)
    loss.total.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    assert model.cost(**Encoder.cost_words(batch)).operations > 0
    model.eval()
    assert set(task.evaluate(model)) == set(Encoder.metrics)
    (filled,) = Encoder.predict(
        model, ["ann [MASK]"], task.corpus.vocabularies, no_decoding, options=task.options
    )
    assert filled.startswith("ann ")
    assert MASK_NUMBER not in task.corpus.vocabularies.text.encode(filled)
