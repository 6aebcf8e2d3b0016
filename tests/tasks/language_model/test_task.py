"""Language modelling: the examples of an epoch, metrics, and invalid options."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.core.batches import UNKNOWN, Input
from regard.core.errors import RegardError
from regard.models.decoder_only import DecoderOnly
from regard.tasks.language_model import LanguageModelling, LMOptions

LINES = [
    f"{word} sat on the mat number {number} ." for number in range(20) for word in ("cat", "dog")
]


@pytest.fixture
def text(tmp_path: Path) -> str:
    path = tmp_path / "text.txt"
    path.write_text("\n".join(LINES) + "\n")
    return str(path)


def task(text: str | None, seed: int = 0, **options: Any) -> LanguageModelling:
    kwargs: dict[str, Any] = {"train_file": text, "tokens": "words", "batch_tokens": 64, **options}
    return LanguageModelling.from_options(LMOptions(**kwargs), seed=seed, decode=_no_decoding)


def _no_decoding(model: Any, source: Input) -> list[Any]:
    return []


def rows_of(epoch: Any) -> list[tuple[list[int], list[int]]]:
    """Source and target of every row, without START, END and padding."""
    found = []
    for batch in epoch:
        for row in range(len(batch.input.tokens)):
            source = batch.input.tokens[row, : batch.input.lengths[row] - 1].tolist()
            target = batch.target.tokens[row, 1 : batch.target.lengths[row] - 1].tolist()
            found.append((source, target))
    return sorted(found)


def test_every_text_once_per_epoch(text: str) -> None:
    own = task(text, validation_fraction=0.2)
    rows = rows_of(own.epoch(0))
    assert len(rows) + len(own.dataset.validation) == len(LINES)
    assert all(not source for source, _ in rows)
    decode = own.dataset.preprocessor.target.decode
    trained = {decode(target) for _, target in rows}
    held_out = set(own.dataset.validation.references)
    assert trained | held_out == set(LINES)
    assert trained.isdisjoint(held_out)


def test_an_epoch_is_a_function_of_seed_and_number(text: str) -> None:
    options: dict[str, Any] = {"span_fraction": 0.5, "validation_fraction": 0.0}
    first = rows_of(task(text, **options).epoch(3))
    assert first == rows_of(task(text, **options).epoch(3))
    assert first != rows_of(task(text, **options).epoch(4))
    assert first != rows_of(task(text, seed=1, **options).epoch(3))


def test_span_fraction(text: str) -> None:
    own = task(text, span_fraction=0.5, validation_fraction=0.0, full_length_probability=1.0)
    corrupted = whole = 0
    decode = own.dataset.preprocessor.target.decode
    for number in range(10):
        for source, target in rows_of(own.epoch(number)):
            if not source:
                whole += 1
                assert decode(target) in LINES
                continue
            corrupted += 1
            span = source.index(UNKNOWN)
            assert decode([*source[:span], *target, *source[span + 1 :]]) in LINES
    assert corrupted + whole == 10 * len(LINES)
    assert 0.4 < corrupted / (corrupted + whole) < 0.6


def test_question_answer_pairs_are_mixed_in_evenly(text: str, tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"cat {number} ?\tmat {number}\n" for number in range(7)))
    own = task(text, qa_file=str(pairs), qa_fraction=0.2, validation_fraction=0.0)
    questions = [
        source for number in range(7) for source, _ in rows_of(own.epoch(number)) if source
    ]
    assert len(questions) == 7 * 10  # a fifth of all: 10 beside 40 texts
    counts = {tuple(source): questions.count(source) for source in questions}
    assert set(counts.values()) == {10}


def test_scores_by_hand(text: str) -> None:
    """A uniform model has a loss of log(vocabulary) nats for every token and every END."""

    class Uniform(torch.nn.Module):
        def __init__(self, size: int) -> None:
            super().__init__()
            self.size = torch.nn.Parameter(torch.zeros(1, size))

        def hidden(self, source: Any, decoder_input: torch.Tensor) -> torch.Tensor:
            return torch.zeros(*decoder_input.shape, 1)

        def logits(self, hidden: torch.Tensor) -> torch.Tensor:
            return hidden @ self.size

    own = task(text, validation_fraction=0.2, max_length=5, tokens="characters")
    size = own.dataset.preprocessor.target.size
    with torch.no_grad():
        scores, nats, _ = own.evaluate_on(Uniform(size).eval(), own.dataset.validation)
    assert scores["loss"] == pytest.approx(math.log(size), rel=1e-5)
    assert scores["perplexity"] == pytest.approx(size, rel=1e-4)
    # The characters of a text in chunks of five, an END after each.
    texts = list(own.dataset.validation.references)
    predictions = [len(text) + math.ceil(len(text) / 5) for text in texts]
    assert float(nats[0]) == pytest.approx(predictions[0] * math.log(size), rel=1e-5)
    characters = sum(len(text) + 1 for text in texts)
    bits = sum(predictions) * math.log2(size)
    assert scores["bits_per_character"] == pytest.approx(bits / characters, rel=1e-5)


def test_training_lowers_bits_per_character(text: str) -> None:
    own = task(text, validation_fraction=0.2, tokens="characters", max_length=64, batch_tokens=256)
    torch.manual_seed(0)
    size = own.dataset.preprocessor.target.size
    model = DecoderOnly(
        source=size, target_vocabulary=size, model_dim=32, num_heads=2, num_layers=1
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    with torch.no_grad():
        before = own.evaluate(model.eval())["bits_per_character"]
    model.train()
    for number in range(8):
        for batch in own.epoch(number):
            loss = own.loss(model, batch)
            optimizer.zero_grad()
            (loss.total / loss.num_predictions).backward()
            optimizer.step()
    with torch.no_grad():
        after = own.evaluate(model.eval())["bits_per_character"]
    assert after < before / 2  # ten seeds: 0.05 to 0.08 of it; untrained: 1


def test_span_corruption_metrics(text: str) -> None:
    own = task(text, span_fraction=1.0, validation_fraction=0.2)
    assert own.metric == "loss"
    size = own.dataset.preprocessor.target.size
    model = DecoderOnly(
        source=size, target_vocabulary=size, model_dim=16, num_heads=2, num_layers=1
    ).eval()
    with torch.no_grad():
        assert set(own.evaluate(model)) == {"loss", "perplexity"}
        assert own.evaluate(model) == own.evaluate(model)


def test_several_spans(text: str) -> None:
    own = task(
        text,
        span_fraction=1.0,
        spans="several",
        noise_density=0.25,
        mean_span_length=1.0,
        validation_fraction=0.0,
    )
    for source, target in rows_of(own.epoch(0)):
        assert source.count(UNKNOWN) == target.count(UNKNOWN) == 2
        assert len(target) == 4  # two of eight words, a sentinel before each


def test_bits_per_character_is_undefined_for_words(text: str) -> None:
    assert task(text, validation_fraction=0.2).metric == "loss"
    with pytest.raises(RegardError, match="bits_per_character"):
        task(text, validation_fraction=0.2, metric="bits_per_character")


def test_empty_validation_split_raises(tmp_path: Path) -> None:
    path = tmp_path / "one.txt"
    path.write_text("one line alone .\n")
    with pytest.raises(RegardError, match="--validation-file"):
        task(str(path), validation_fraction=0.05)


def test_no_validation_split_evaluates_on_training_texts(text: str) -> None:
    own = task(text, validation_fraction=0.0)
    assert "evaluated on training texts" in own.dataset.describe()
    assert own.dataset.facts()["validation_is_train"]


def test_stream(text: str) -> None:
    own = task(text, stream=True, max_length=16, validation_fraction=0.5)
    rows = rows_of(own.epoch(0))
    lengths = sorted(len(target) for _, target in rows)
    assert set(lengths[1:]) == {16}  # all but the last chunk are full
    decode = own.dataset.preprocessor.target.decode
    joined = " ".join(LINES)
    assert all(decode(target) in joined for _, target in rows)


def test_embedded_films() -> None:
    own = task(None, films=40, tokens="words", qa_fraction=0.2, validation_fraction=0.0)
    assert len(own.dataset.train) == 40
    assert own.dataset.extra is not None
    assert len(own.dataset.extra) > 40


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"span_fraction": 1.5}, "task.span_fraction=1.5: it must"),
        ({"max_span_fraction": 0.0}, "task.max_span_fraction=0.0: it must"),
        ({"qa_fraction": 1.0}, "task.qa_fraction=1.0: it must"),
        ({"tokens": "word"}, "task.tokens="),
        ({"stream": True, "span_fraction": 0.5}, "task.span_fraction=0.5"),
        ({"max_length": 0}, "task.max_length=0: it must"),
        ({"train_file": "x.txt", "qa_fraction": 0.5}, "task.qa_fraction=0.5"),
    ],
)
def test_invalid_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RegardError) as refusal:
        LMOptions(**options)
    assert message in str(refusal.value)


def test_missing_file() -> None:
    with pytest.raises(RegardError, match=r"There is no file 'nowhere\.txt'"):
        task("nowhere.txt")
