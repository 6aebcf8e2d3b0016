"""In which language is a film? Labelled texts that are already on the machine, to try a classifier on.

    Late Spring. Late Spring came out in 1949. Yasujirō Ozu directed it. Kōgo Noda wrote it.
    Chishū Ryū, Haruko Sugimura and Setsuko Hara play in it.        → Japanese

The texts are made, as those of `films` are, from the facts of Wikidata (CC0) in the package
`bokeh-sampledata`: the title, the year, the genre and the names of those who made it. The country
is left out, since it would say the language outright. A film counts that is in one language, not English,
which at least 50 films are in: about 2,100 films in 12 languages, of which French, the commonest, has 36 %.

The names give the language away, so that little data is enough to learn from: a score here says that a
model works, not that it understands texts.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from regard.core.errors import RegardError
from regard.data.bad_rows import BadRows
from regard.data.films import PACKAGE, SEPARATOR, films_file
from regard.data.labelled_rows import LabelledRow
from regard.data.normal_text import normal_text

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
