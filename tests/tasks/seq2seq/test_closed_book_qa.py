"""Recall: exact match, the commonest answer, the embedded questions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard.data.datasets.films import FilmQuestions, some_films
from regard.data.readers.text_file import BadRows
from regard.tasks.seq2seq.closed_book_qa import Recall, RecallOptions


def _nothing(model: Any, source: Any, source_lengths: Any) -> list[Any]:
    return []


def test_an_answer_counts_if_it_is_right_to_the_letter() -> None:
    predicted = ["Rome", "rome", "", "Bern"]
    answers = [["Rome"], ["Rome"], ["Oslo"], ["Oslo", "Bern"]]
    assert Recall.scores(predicted, answers) == {"exact_match": 50.0}
    assert Recall.item_statistics("exact_match", predicted, answers).tolist() == [
        [1, 1],
        [0, 1],
        [0, 1],
        [1, 1],
    ]


def test_the_commonest_answer(tmp_path: Path) -> None:
    pairs, validation = tmp_path / "train.tsv", tmp_path / "dev.tsv"
    pairs.write_text("a ?\tNew York\nb ?\tRome\nc ?\tNew York\n")
    validation.write_text("d ?\tNew York\ne ?\tOslo\n")
    options = RecallOptions(
        pairs=str(pairs), validation=str(validation), source_tokens="words", target_tokens="words"
    )
    task = Recall.from_options(options, seed=0, decode=_nothing)
    assert task.baselines(task.corpus.validation) == {"always 'New York'": 50.0}
    assert task.corpus.vocabularies.source is task.corpus.vocabularies.target


def test_questions_about_films_are_embedded() -> None:
    films = some_films(50)
    assert len(films) == len(set(films)) == 50
    rows = list(FilmQuestions(count=50).rows(bad=BadRows()))
    assert {row.source for row in rows} >= {f"Who directed {film.title}?" for film in films}
    task = Recall.from_options(RecallOptions(films=50), seed=0, decode=_nothing)
    assert len(task.corpus.train) + len(task.corpus.validation) + len(task.corpus.test) == len(rows)
