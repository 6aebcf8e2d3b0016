"""Films and their languages: made from a small file of the same layout, and from the package."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from regard.core.errors import RegardError
from regard.data.datasets import films, films as module
from regard.data.datasets.films import FilmLanguages, FilmPage, page_text
from regard.data.readers.text_file import BadRows
from regard.data.sentences import sentences

COLUMNS = "ID, Title, Year, Genre, Director, Writer, Cast, Language, Country"
ROWS = [
    (3, "Ran", 1985, "War, Drama", "Akira Kurosawa", None, "Mieko Harada", "Japanese", "Japan"),
    (1, "Ikiru", 1952, "", "Akira Kurosawa", None, "", "Japanese", "Japan"),
    (2, "Z", 1969, "", "Costa-Gavras", "Jorge Semprún", "", "French", "France"),
    (4, "Heat", 1995, "", "Michael Mann", None, "", "English", "United States"),
    (5, "Babel", 2006, "", "A", None, "", "English, Japanese", "Mexico"),
    (6, "Silent", 1921, "", "B", None, "", None, "Japan"),
    (7, "Dateless", None, "", "C", None, "", "Japanese", "Japan"),
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "movies.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"CREATE TABLE omdb ({COLUMNS})".replace("Cast", '"Cast"'))
        database.executemany(f"INSERT INTO omdb VALUES ({', '.join('?' * 9)})", ROWS)
        database.commit()
    return path


def test_only_languages_of_many_films_and_films_of_one_language_count(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FEWEST_FILMS", 2)
    source = FilmLanguages(path=file)
    rows = list(source.rows(bad=BadRows()))
    assert [row.label for row in rows] == ["Japanese", "Japanese"]
    assert rows[0].text == "Ikiru. Ikiru came out in 1952. Akira Kurosawa directed it."
    assert rows[1].text.startswith("Ran. Ran came out in 1985. Its genre is War and Drama.")
    assert source.path == file


def test_a_fact_is_a_sentence() -> None:
    page = FilmPage("M", 1931, "Crime", "Fritz Lang", "Thea, Fritz", "Peter, Otto, Ellen")
    assert sentences(page_text(page)[3:]) == [
        "M came out in 1931.",
        "Its genre is Crime.",
        "Fritz Lang directed it.",
        "Thea and Fritz wrote it.",
        "Peter, Otto and Ellen play in it.",
    ]


def test_a_file_without_films_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match="--force-reinstall bokeh-sampledata"):
        next(FilmLanguages(path=tmp_path / "none.db").rows(bad=BadRows()))


def test_its_absence_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(films, "MODULE", "no_such_package")
    with pytest.raises(RegardError, match="pip install bokeh-sampledata"):
        FilmLanguages()


def test_the_embedded_films_and_what_words_alone_tell() -> None:
    """A vote of the names met before is right far more often than the commonest language."""
    rows = list(FilmLanguages().rows(bad=BadRows()))
    counts = Counter(row.label for row in rows)
    assert len(rows) > 2000
    assert len(counts) > 8
    assert min(counts.values()) >= module.FEWEST_FILMS
    assert module.LEFT_OUT not in counts
    assert len({row.text for row in rows}) == len(rows)
    learned, held_out = rows[::2], rows[1::2]
    votes: dict[str, Counter[str]] = {}
    for row in learned:
        for word in set(re.findall(r"\w+", row.text)):
            votes.setdefault(word, Counter())[row.label] += 1
    commonest = Counter(row.label for row in learned).most_common(1)[0][0]

    def guess(text: str) -> str:
        said: Counter[str] = Counter()
        for word in set(re.findall(r"\w+", text)) & votes.keys():
            for label, times in votes[word].items():
                said[label] += times / counts[label] / votes[word].total()  # type: ignore[assignment]
        return said.most_common(1)[0][0]

    right = sum(guess(row.text) == row.label for row in held_out) / len(held_out)
    always = sum(row.label == commonest for row in held_out) / len(held_out)
    assert always < 0.45
    assert right > 0.75


def test_the_package_is_not_imported() -> None:
    script = (
        "import sys\n"
        "from regard.data.readers.text_file import BadRows\n"
        "from regard.data.datasets.films import FilmLanguages\n"
        "next(FilmLanguages().rows(bad=BadRows()))\n"
        "sys.exit('bokeh_sampledata' in sys.modules or 'pandas' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
