"""Closed-book QA: exact match, majority baseline, the embedded questions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard.data.datasets.films import FilmQuestions, sample_films
from regard.data.readers.text_file import RowErrors
from regard.tasks.seq2seq.closed_book_qa import ClosedBookQA, ClosedBookQAOptions


def _no_decoding(model: Any, source: Any, source_lengths: Any) -> list[Any]:
    return []


def test_exact_match() -> None:
    predictions = ["Rome", "rome", "", "Bern"]
    references = [["Rome"], ["Rome"], ["Oslo"], ["Oslo", "Bern"]]
    assert ClosedBookQA.scores(predictions, references) == {"exact_match": 50.0}
    assert ClosedBookQA.item_statistics("exact_match", predictions, references).tolist() == [
        [1, 1],
        [0, 1],
        [0, 1],
        [1, 1],
    ]


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
    assert task.baselines(task.corpus.validation) == {"majority baseline 'New York'": 50.0}
    assert task.corpus.vocabularies.source is task.corpus.vocabularies.target


def test_embedded_questions() -> None:
    films = sample_films(50)
    assert len(films) == len(set(films)) == 50
    rows = list(FilmQuestions(count=50).rows(errors=RowErrors()))
    assert {row.source for row in rows} >= {f"Who directed {film.title}?" for film in films}
    task = ClosedBookQA.from_options(ClosedBookQAOptions(films=50), seed=0, decode=_no_decoding)
    assert len(task.corpus.train) + len(task.corpus.validation) + len(task.corpus.test) == len(rows)
