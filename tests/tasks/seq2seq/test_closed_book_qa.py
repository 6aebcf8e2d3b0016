"""Closed-book QA: exact match, majority baseline, the embedded questions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard.core.batches import Input
from regard.data.datasets.films import FilmQuestions, sample_films
from regard.data.readers.text_file import RowErrors
from regard.tasks.closed_book_qa import ClosedBookQA, ClosedBookQAOptions


def _no_decoding(model: Any, source: Input) -> list[Any]:
    return []


def test_exact_match() -> None:
    predictions = ["Rome", "rome", "", "Bern"]
    references = [("Rome",), ("Rome",), ("Oslo",), ("Oslo", "Bern")]
    assert ClosedBookQA.scores(predictions, references) == {"exact_match": 50.0}


def test_majority_baseline(tmp_path: Path) -> None:
    pairs, validation = tmp_path / "train.tsv", tmp_path / "validation.tsv"
    pairs.write_text("a ?\tNew York\nb ?\tRome\nc ?\tNew York\n")
    validation.write_text("d ?\tNew York\ne ?\tOslo\n")
    options = ClosedBookQAOptions(
        train_file=str(pairs),
        validation_file=str(validation),
        source_tokens="words",
        target_tokens="words",
    )
    task = ClosedBookQA.from_options(options, seed=0, decode=_no_decoding)
    assert task.baselines(task.dataset.validation)["majority baseline 'New York'"]["scores"] == {
        "exact_match": 50.0
    }
    assert task.dataset.preprocessor.input is task.dataset.preprocessor.target


def test_embedded_questions() -> None:
    films = sample_films(50)
    assert len(films) == len(set(films)) == 50
    rows = list(FilmQuestions(count=50).rows(errors=RowErrors()))
    assert {row.input for row in rows} >= {f"Who directed {film.title}?" for film in films}
    task = ClosedBookQA.from_options(ClosedBookQAOptions(films=50), seed=0, decode=_no_decoding)
    assert len(task.dataset.train) + len(task.dataset.validation) + len(task.dataset.test) == len(
        rows
    )
