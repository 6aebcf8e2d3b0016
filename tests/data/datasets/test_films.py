"""Film facts, questions and languages: small files of the same layout, and the installed package."""

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
from regard.data.datasets import films as module
from regard.data.datasets.films import (
    TEMPLATES,
    Film,
    FilmLanguages,
    FilmPage,
    film_facts,
    film_text,
    join_countries,
    page_text,
    questions,
)
from regard.data.readers.text_file import RowErrors
from regard.data.sentences import split_sentences

ROWS = [
    ("Zulu", 1964, "Cy Endfield", "United Kingdom"),
    ("Heat", 1995, "Michael Mann", "United States"),
    ("HEAT", 1972, "Paul Morrissey", "United States"),  # the same title
    ("Fargo", 1996, "Joel Coen, Ethan Coen", "United States"),  # two directors
    ("Nowhere", 1997, "Gregg Araki", ""),
    ("Nobody's", 1998, "", "France"),
    ("Dateless", None, "Jane Doe", "France"),
    ("Nothing", 1999, None, None),
    ("Amelie", 2001, "Jean-Pierre Jeunet", "France, Germany"),
    ("Cafe\u0301", 2000, "A", "Peru"),
]


@pytest.fixture
def films(tmp_path: Path) -> Path:
    path = tmp_path / "some films?.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute(
            "CREATE TABLE omdb (Title TEXT, Year INTEGER, Director TEXT, Country TEXT)"
        )
        database.executemany("INSERT INTO omdb VALUES (?, ?, ?, ?)", ROWS)
        database.commit()
    return path


def test_film_facts(films: Path) -> None:
    assert film_facts(path=films) == [
        Film("Amelie", 2001, "Jean-Pierre Jeunet", "France, Germany"),
        Film("Café", 2000, "A", "Peru"),
        Film("Zulu", 1964, "Cy Endfield", "United Kingdom"),
    ]


def test_questions_have_one_answer() -> None:
    assert questions(Film("Zulu", 1964, "Cy Endfield", "United Kingdom")) == [
        ("Who directed Zulu?", "Cy Endfield"),
        ("Where was Zulu made?", "United Kingdom"),
    ]
    asked = questions(Film("Amelie", 2001, "Jean-Pierre Jeunet", "France, Germany"))
    assert asked == [("Who directed Amelie?", "Jean-Pierre Jeunet")]


@pytest.mark.parametrize(
    ("country", "expected"),
    [
        ("Japan", "Japan"),
        ("United Kingdom", "the United Kingdom"),
        ("France, Germany", "France and Germany"),
        ("France, Soviet Union, Peru", "France, the Soviet Union and Peru"),
    ],
)
def test_join_countries(country: str, expected: str) -> None:
    assert join_countries(country) == expected


def test_file_is_opened_read_only(films: Path) -> None:
    before = films.read_bytes()
    films.chmod(0o444)
    film_facts(path=films)
    assert films.read_bytes() == before
    assert list(films.parent.iterdir()) == [films]


def test_invalid_file(tmp_path: Path) -> None:
    path = tmp_path / "movies.db"
    with pytest.raises(RegardError, match="no readable films"):
        film_facts(path=path)
    assert not path.exists()
    path.write_bytes(b"not a database, but long enough to be looked at" * 100)
    with pytest.raises(RegardError, match="--force-reinstall bokeh-sampledata"):
        film_facts(path=path)


def test_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MODULE", "no_such_package")
    with pytest.raises(RegardError, match="pip install bokeh-sampledata"):
        film_facts()


def test_installed_films() -> None:
    found = film_facts()
    assert len(found) > 15_000
    assert found == sorted(found)
    assert len({film.title.lower() for film in found}) == len(found)
    samurai = Film("Seven Samurai", 1954, "Akira Kurosawa", "Japan")
    assert samurai in found
    used = set()
    for film in found:
        text = film_text(film)
        assert all(str(fact) in text for fact in film[:3])
        assert all(country in text for country in film.country.split(", "))
        used.add(text.replace(film.title, "")[:5])
        assert len(questions(film)) in {1, 2}
    assert len(used) >= len(TEMPLATES)


COLUMNS = "ID, Title, Year, Genre, Director, Writer, Cast, Language, Country"
LANGUAGE_ROWS = [
    (3, "Ran", 1985, "War, Drama", "Akira Kurosawa", None, "Mieko Harada", "Japanese", "Japan"),
    (1, "Ikiru", 1952, "", "Akira Kurosawa", None, "", "Japanese", "Japan"),
    (2, "Z", 1969, "", "Costa-Gavras", "Jorge Semprún", "", "French", "France"),
    (4, "Heat", 1995, "", "Michael Mann", None, "", "English", "United States"),
    (5, "Babel", 2006, "", "A", None, "", "English, Japanese", "Mexico"),
    (6, "Silent", 1921, "", "B", None, "", None, "Japan"),
    (7, "Dateless", None, "", "C", None, "", "Japanese", "Japan"),
]


@pytest.fixture
def language_file(tmp_path: Path) -> Path:
    path = tmp_path / "movies.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"CREATE TABLE omdb ({COLUMNS})".replace("Cast", '"Cast"'))
        database.executemany(f"INSERT INTO omdb VALUES ({', '.join('?' * 9)})", LANGUAGE_ROWS)
        database.commit()
    return path


def test_film_languages(language_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MIN_FILMS", 2)
    source = FilmLanguages(path=language_file)
    rows = list(source.rows(errors=RowErrors()))
    assert [row.target for row in rows] == ["Japanese", "Japanese"]
    assert rows[0].input == "Ikiru. Ikiru came out in 1952. Akira Kurosawa directed it."
    assert rows[1].input.startswith("Ran. Ran came out in 1985. Its genre is War and Drama.")
    assert source.path == language_file


def test_page_has_one_sentence_per_fact() -> None:
    page = FilmPage("M", 1931, "Crime", "Fritz Lang", "Thea, Fritz", "Peter, Otto, Ellen")
    assert split_sentences(page_text(page)[3:]) == [
        "M came out in 1931.",
        "Its genre is Crime.",
        "Fritz Lang directed it.",
        "Thea and Fritz wrote it.",
        "Peter, Otto and Ellen play in it.",
    ]


def test_film_languages_of_an_invalid_file(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match="--force-reinstall bokeh-sampledata"):
        next(FilmLanguages(path=tmp_path / "none.db").rows(errors=RowErrors()))


def test_film_languages_without_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MODULE", "no_such_package")
    with pytest.raises(RegardError, match="pip install bokeh-sampledata"):
        FilmLanguages()


def test_installed_film_languages() -> None:
    """A bag of words is far better than the majority baseline."""
    rows = list(FilmLanguages().rows(errors=RowErrors()))
    counts = Counter(row.target for row in rows)
    assert len(rows) > 2000
    assert len(counts) > 8
    assert min(counts.values()) >= module.MIN_FILMS
    assert module.EXCLUDED_LANGUAGE not in counts
    assert len({row.input for row in rows}) == len(rows)
    train, validation = rows[::2], rows[1::2]
    votes: dict[str, Counter[str]] = {}
    for row in train:
        for word in set(re.findall(r"\w+", row.input)):
            votes.setdefault(word, Counter())[row.target] += 1
    majority = Counter(row.target for row in train).most_common(1)[0][0]

    def predict(text: str) -> str:
        scores: Counter[str] = Counter()
        for word in set(re.findall(r"\w+", text)) & votes.keys():
            for label, times in votes[word].items():
                scores[label] += times / counts[label] / votes[word].total()  # type: ignore[assignment]
        return scores.most_common(1)[0][0]

    accuracy = sum(predict(row.input) == row.target for row in validation) / len(validation)
    majority_baseline = sum(row.target == majority for row in validation) / len(validation)
    assert majority_baseline < 0.45
    assert accuracy > 0.75


def test_package_is_not_imported() -> None:
    script = (
        "import sys\n"
        "from regard.data.readers.text_file import Row, RowErrors\n"
        "from regard.data.datasets.films import FilmLanguages, film_facts\n"
        "assert film_facts()\n"
        "next(FilmLanguages().rows(errors=RowErrors()))\n"
        "sys.exit('bokeh_sampledata' in sys.modules or 'pandas' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
