"""Questions about the embedded films as rows of pairs, read as those of a file are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from regard.data.bad_rows import BadRows
from regard.data.films import Film, film_facts, films_file, questions
from regard.data.row_formats import PairRow


def some_films(count: int) -> list[Film]:
    """So many films, or all there are, spread evenly over the titles."""
    films = film_facts()
    if count >= len(films):
        return films
    return [films[place * len(films) // count] for place in range(count)]


@dataclass(frozen=True, kw_only=True)
class FilmQuestions:
    """What `PairSource` is to a file: `Who directed Heat?` → `Michael Mann`."""

    count: int
    path: Path = field(default_factory=films_file)

    def rows(self, *, bad: BadRows) -> Iterator[PairRow]:
        """Every question with its answer; none of them is bad."""
        del bad
        for number, film in enumerate(some_films(self.count), start=1):
            for question in questions(film):
                yield PairRow(question.text, question.answer, number)
