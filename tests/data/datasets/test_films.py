"""Facts about films: read from a small file of the same layout, and from the package."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from regard.core.errors import RegardError
from regard.data.datasets import films as module
from regard.data.datasets.films import WORDINGS, Film, fact_texts, film_facts, questions, spoken

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


def test_films_that_leave_no_doubt_are_given_by_title(films: Path) -> None:
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
    ("country", "said"),
    [
        ("Japan", "Japan"),
        ("United Kingdom", "the United Kingdom"),
        ("France, Germany", "France and Germany"),
        ("France, Soviet Union, Peru", "France, the Soviet Union and Peru"),
    ],
)
def test_countries_are_named_as_in_a_sentence(country: str, said: str) -> None:
    assert spoken(country) == said


def test_the_file_is_only_read(films: Path) -> None:
    before = films.read_bytes()
    films.chmod(0o444)
    film_facts(path=films)
    assert films.read_bytes() == before
    assert list(films.parent.iterdir()) == [films]


def test_a_file_without_films_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "movies.db"
    with pytest.raises(RegardError, match="holds no films that can be read"):
        film_facts(path=path)
    assert not path.exists()
    path.write_bytes(b"not a database, but long enough to be looked at" * 100)
    with pytest.raises(RegardError, match="--force-reinstall bokeh-sampledata"):
        film_facts(path=path)


def test_its_absence_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MODULE", "no_such_package")
    with pytest.raises(RegardError, match="pip install bokeh-sampledata"):
        film_facts()


def test_the_embedded_films() -> None:
    found = film_facts()
    assert len(found) > 15_000
    assert found == sorted(found)
    assert len({film.title.lower() for film in found}) == len(found)
    samurai = Film("Seven Samurai", 1954, "Akira Kurosawa", "Japan")
    assert samurai in found
    used = set()
    for film in found:
        (text,) = fact_texts(film)
        assert all(str(fact) in text for fact in film[:3])
        assert all(country in text for country in film.country.split(", "))
        used.add(text.replace(film.title, "")[:5])
        assert len(questions(film)) in {1, 2}
    assert len(used) >= len(WORDINGS)


def test_the_package_is_not_imported() -> None:
    script = (
        "import sys\n"
        "from regard.data.datasets.films import film_facts\n"
        "assert film_facts()\n"
        "sys.exit('bokeh_sampledata' in sys.modules or 'pandas' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
