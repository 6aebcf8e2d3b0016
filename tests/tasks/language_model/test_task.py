"""Language modelling: what an epoch is made of, what is scored, what is refused."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.core.batches import UNKNOWN
from regard.core.errors import RegardError
from regard.models.decoder_only import DecoderOnly
from regard.tasks.language_model.corpus import LmOptions
from regard.tasks.language_model.task import LanguageModelling

LINES = [
    f"{word} sat on the mat number {number} ." for number in range(20) for word in ("cat", "dog")
]


@pytest.fixture
def text(tmp_path: Path) -> str:
    path = tmp_path / "text.txt"
    path.write_text("\n".join(LINES) + "\n")
    return str(path)


def task(text: str | None, seed: int = 0, **options: Any) -> LanguageModelling:
    words: dict[str, Any] = {"text": text, "tokens": "words", "batch_tokens": 64, **options}
    return LanguageModelling.from_options(LmOptions(**words), seed=seed, decode=_nothing)


def _nothing(model: Any, source: Any, source_lengths: Any) -> list[Any]:
    return []


def rows_of(epoch: Any) -> list[tuple[list[int], list[int]]]:
    """Source and target of every row, without START, END and padding."""
    found = []
    for batch in epoch:
        for row in range(len(batch.source)):
            source = batch.source[row, : batch.source_lengths[row] - 1].tolist()
            target = batch.target[row, 1 : batch.target_lengths[row] - 1].tolist()
            found.append((source, target))
    return sorted(found)


def test_every_text_is_learned_once_an_epoch(text: str) -> None:
    own = task(text, validation_share=0.2)
    rows = rows_of(own.epoch(0))
    assert len(rows) + len(own.corpus.validation) == len(LINES)
    assert all(not source for source, _ in rows)
    decode = own.corpus.vocabularies.target.decode
    learned = {decode(target) for _, target in rows}
    held_out = {answers[0] for answers in own.corpus.validation.answers}
    assert learned | held_out == set(LINES)
    assert learned.isdisjoint(held_out)


def test_an_epoch_is_a_function_of_seed_and_number(text: str) -> None:
    options: dict[str, Any] = {"span_share": 0.5, "validation_share": 0.0}
    first = rows_of(task(text, **options).epoch(3))
    assert first == rows_of(task(text, **options).epoch(3))
    assert first != rows_of(task(text, **options).epoch(4))
    assert first != rows_of(task(text, seed=1, **options).epoch(3))


def test_a_share_of_the_texts_has_a_gap(text: str) -> None:
    own = task(text, span_share=0.5, validation_share=0.0, keep_whole=1.0)
    gapped = whole = 0
    decode = own.corpus.vocabularies.target.decode
    for number in range(10):
        for source, target in rows_of(own.epoch(number)):
            if not source:
                whole += 1
                assert decode(target) in LINES
                continue
            gapped += 1
            gap = source.index(UNKNOWN)
            assert decode([*source[:gap], *target, *source[gap + 1 :]]) in LINES
    assert gapped + whole == 10 * len(LINES)
    assert 0.4 < gapped / (gapped + whole) < 0.6


def test_pairs_are_mixed_in_evenly(text: str, tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"cat {number} ?\tmat {number}\n" for number in range(7)))
    own = task(text, pairs=str(pairs), pair_share=0.2, validation_share=0.0)
    asked = [source for number in range(7) for source, _ in rows_of(own.epoch(number)) if source]
    assert len(asked) == 7 * 10  # a fifth of all: 10 beside 40 texts
    counts = {tuple(source): asked.count(source) for source in asked}
    assert set(counts.values()) == {10}


def test_scores_by_hand(text: str) -> None:
    """A model that knows nothing takes log(vocabulary) nats for every token and every END."""

    class Uniform(torch.nn.Module):
        def __init__(self, size: int) -> None:
            super().__init__()
            self.size = torch.nn.Parameter(torch.zeros(1, size))

        def hidden(self, source: Any, lengths: Any, given: torch.Tensor) -> torch.Tensor:
            return torch.zeros(*given.shape, 1)

        def logits(self, hidden: torch.Tensor) -> torch.Tensor:
            return hidden @ self.size

    own = task(text, validation_share=0.2, max_length=5, tokens="characters")
    size = own.corpus.vocabularies.target.size
    with torch.no_grad():
        scores, nats, _ = own.assess_on(Uniform(size).eval(), own.corpus.validation)
    assert scores["loss"] == pytest.approx(math.log(size), rel=1e-5)
    assert scores["perplexity"] == pytest.approx(size, rel=1e-4)
    # The characters of a text in pieces of five, an END after each.
    texts = [answers[0] for answers in own.corpus.validation.answers]
    predicted = [len(text) + math.ceil(len(text) / 5) for text in texts]
    assert float(nats[0]) == pytest.approx(predicted[0] * math.log(size), rel=1e-5)
    characters = sum(len(text) + 1 for text in texts)
    bits = sum(predicted) * math.log2(size)
    assert scores["bits_per_character"] == pytest.approx(bits / characters, rel=1e-5)
    sums = own.item_statistics("bits_per_character", nats, own.corpus.validation.answers).sum(
        axis=0
    )
    score = own.summed_metric("bits_per_character").score(sums)
    assert score == pytest.approx(scores["bits_per_character"])


def test_it_learns(text: str) -> None:
    own = task(text, validation_share=0.2, tokens="characters", max_length=64, batch_tokens=256)
    torch.manual_seed(0)
    size = own.corpus.vocabularies.target.size
    model = DecoderOnly(
        source_vocabulary=size, target_vocabulary=size, model_dim=32, num_heads=2, num_layers=1
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


def test_spans_alone_are_scored_as_spans(text: str) -> None:
    own = task(text, span_share=1.0, validation_share=0.2)
    assert own.metric == "loss"
    size = own.corpus.vocabularies.target.size
    model = DecoderOnly(
        source_vocabulary=size, target_vocabulary=size, model_dim=16, num_heads=2, num_layers=1
    ).eval()
    with torch.no_grad():
        assert set(own.evaluate(model)) == {"loss", "perplexity"}
        assert own.evaluate(model) == own.evaluate(model)


def test_several_gaps_take_the_share_asked_for(text: str) -> None:
    own = task(
        text, span_share=1.0, gaps="several", masked_share=0.25, mean_gap=1.0, validation_share=0.0
    )
    for source, target in rows_of(own.epoch(0)):
        assert source.count(UNKNOWN) == target.count(UNKNOWN) == 2
        assert len(target) == 4  # two of eight words, a sign before each


def test_unknown_words_are_no_free_letters(text: str) -> None:
    assert task(text, validation_share=0.2).metric == "loss"
    with pytest.raises(RegardError, match="would count as free letters"):
        task(text, validation_share=0.2, metric="bits_per_character")


def test_nothing_held_out_by_chance_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "one.txt"
    path.write_text("one line alone .\n")
    with pytest.raises(RegardError, match="nothing held out to evaluate on"):
        task(str(path), validation_share=0.05)


def test_without_held_out_texts_it_says_what_it_evaluates_on(text: str) -> None:
    own = task(text, validation_share=0.0)
    assert "evaluated on texts that are learned" in own.corpus.describe()
    assert own.corpus.facts()["validation_is_learned"]


def test_a_text_that_runs_on(text: str) -> None:
    own = task(text, stream=True, max_length=16, validation_share=0.5)
    rows = rows_of(own.epoch(0))
    lengths = sorted(len(target) for _, target in rows)
    assert set(lengths[1:]) == {16}  # all but the last piece are full
    decode = own.corpus.vocabularies.target.decode
    joined = " ".join(LINES)
    assert all(decode(target) in joined for _, target in rows)


def test_films_are_embedded() -> None:
    own = task(None, films=40, tokens="words", pair_share=0.2, validation_share=0.0)
    assert len(own.corpus.train) == 40
    assert own.corpus.pairs is not None
    assert len(own.corpus.pairs) > 40


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"span_share": 1.5}, "task.span_share=1.5: it must be from 0 to 1"),
        ({"longest_gap": 0.0}, "task.longest_gap=0.0: it must be above 0"),
        ({"pair_share": 1.0}, "task.pair_share=1.0: it must be from 0 to below 1"),
        ({"tokens": "word"}, "Did you mean 'words'?"),
        ({"stream": True, "span_share": 0.5}, "a gap is in a text that has an end"),
        ({"max_length": 0}, "task.max_length=0: it must be 1 or more"),
        ({"text": "x.txt", "pair_share": 0.5}, "mixes in pairs, but there is no file of them"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RegardError) as refusal:
        LmOptions(**options)
    assert message in str(refusal.value)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(RegardError, match=r"There is no file 'nowhere\.txt'"):
        task("nowhere.txt")
