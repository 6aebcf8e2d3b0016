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
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from regard.core.errors import LackingError, RegardError
from regard.data.readers.formats import PairRow
from regard.data.readers.labelled import LabelledRow
from regard.data.readers.text_file import BadRows
from regard.data.tokenizers.vocabulary import normal_text

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


# In which language is a film? Labelled texts that are already on the machine, to try a classifier
# on.
#
# Late Spring. Late Spring came out in 1949. Yasujirō Ozu directed it. Kōgo Noda wrote it. Chishū
# Ryū, Haruko Sugimura and Setsuko Hara play in it.        → Japanese
#
# The texts are made, as those of `films` are, from the facts of Wikidata (CC0) in the package
# `bokeh-sampledata`: the title, the year, the genre and the names of those who made it. The country
# is left out, since it would say the language outright. A film counts that is in one language, not
# English, which at least 50 films are in: about 2,100 films in 12 languages, of which French, the
# commonest, has 36 %.
#
# The names give the language away, so that little data is enough to learn from: a score here says
# that a model works, not that it understands texts.


FEWEST_FILMS = 50
LEFT_OUT = "English"
COLUMNS = 'Title, Year, Genre, Director, Writer, "Cast", Language'


class FilmPage(NamedTuple):
    """What the text about a film is made of; names are as the file has them, with commas between."""

    title: str
    year: int
    genres: str
    directors: str
    writers: str
    cast: str


@dataclass(frozen=True, kw_only=True)
class FilmLanguages:
    """What `LabelledSource` is to a file; `path` is another file than the installed one."""

    path: Path = field(default_factory=films_file)

    def rows(self, *, bad: BadRows) -> Iterator[LabelledRow]:
        """Every film's text and language, in the order of the file; none of them is bad."""
        del bad
        pages = [
            (number, page, language)
            for number, (page, language) in enumerate(_pages(self.path), start=1)
            if language and SEPARATOR not in language and language != LEFT_OUT
        ]
        films = Counter(language for _, _, language in pages)
        for number, page, language in pages:
            if films[language] >= FEWEST_FILMS:
                yield LabelledRow(page_text(page), language, number)


def page_text(page: FilmPage) -> str:
    """The text about a film, a sentence a fact; what is not known is passed over.

    >>> page_text(FilmPage("Ran", 1985, "War, Drama", "", "", "Mieko Harada"))
    'Ran. Ran came out in 1985. Its genre is War and Drama. Mieko Harada plays in it.'
    """
    title = page.title
    said = [f"{title}.", f"{title} came out in {page.year}."]
    if page.genres:
        said.append(f"Its genre is {listed(page.genres)}.")
    if page.directors:
        said.append(f"{listed(page.directors)} directed it.")
    if page.writers:
        said.append(f"{listed(page.writers)} wrote it.")
    if page.cast:
        verb = "play" if SEPARATOR in page.cast else "plays"
        said.append(f"{listed(page.cast)} {verb} in it.")
    return normal_text(" ".join(said))


def listed(names: str) -> str:
    """Names as a sentence gives them.

    >>> listed("Ann, Bob, Cy")
    'Ann, Bob and Cy'
    """
    *others, last = names.split(SEPARATOR)
    return f"{SEPARATOR.join(others)} and {last}" if others else last


def _pages(path: Path) -> list[tuple[FilmPage, str | None]]:
    try:
        # Read-only: a file that is not there is not made, and one that is stays as it is.
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            rows = database.execute(f"SELECT {COLUMNS} FROM omdb ORDER BY ID").fetchall()
    except sqlite3.Error as error:
        raise RegardError(
            f"'{path}' holds no films that can be read ({error}). "
            f"Install it anew: pip install --force-reinstall {PACKAGE}"
        ) from error
    return [
        (FilmPage(title, year, *(names or "" for names in others)), language)
        for title, year, *others, language in rows
        if title and year
    ]


# Questions about the embedded films as rows of pairs, read as those of a file are.


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
