"""Film reviews: read from a made-up file of the same layout, and from the package where it is installed."""

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
from regard.data.readers.labelled import with_windows_marks
from regard.data.readers.text_file import BadRows

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


def test_rows_are_those_of_one_set_with_their_labels(file: Path) -> None:
    assert list(reviews(file).rows(bad=BadRows())) == [
        ('Good, "really".<br />See it.', "positive", 2),
        # Control characters are what they are in Windows-1252, or nothing.
        ("Bad – and it’s long .", "negative", 3),
    ]
    assert list(reviews(file, "rotten_tomatoes").rows(bad=BadRows())) == [
        ("a gem .", "positive", 4)
    ]


def test_it_can_be_read_twice_and_says_what_it_must_not_be_scored_on(file: Path) -> None:
    source = reviews(file)
    assert list(source.rows(bad=BadRows())) == list(source.rows(bad=BadRows()))
    assert source.path == file
    assert "Large Movie Review" in source.notice
    assert "Stanford Sentiment Treebank" in reviews(file, "rotten_tomatoes").notice


def test_a_changed_file_is_refused_before_anything_is_read(file: Path) -> None:
    source = reviews(file)
    file.write_text(TEXT.replace("Good", "Evil"), encoding="utf-8")
    with pytest.raises(RegardError, match=r"SHA-256 is .*--force-reinstall movie-reviews==0\.0\.2"):
        next(source.rows(bad=BadRows()))


def test_an_unknown_set_is_refused(file: Path) -> None:
    with pytest.raises(RegardError, match=r"Unknown set of reviews 'imbd'.*imdb, rotten_tomatoes"):
        reviews(file, "imbd")


def test_its_absence_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MODULE", "no_such_package")
    with pytest.raises(RegardError, match=r"pip install 'regard\[reviews\]'"):
        MovieReviews()


def test_the_extra_is_the_version_whose_file_is_known() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = f"{module.PACKAGE}=={module.VERSION}"
    assert project["optional-dependencies"][module.EXTRA] == [wanted]


@needs_package
def test_the_installed_reviews() -> None:
    for name, half in (("imdb", 12_500), ("rotten_tomatoes", 4_265)):
        rows = list(MovieReviews(name=name).rows(bad=BadRows()))
        assert Counter(row.label for row in rows) == {"positive": half, "negative": half}
        assert all(row.text.strip() for row in rows)


@needs_package
def test_the_package_is_not_imported() -> None:
    script = (
        "import sys\n"
        "from regard.data.readers.text_file import BadRows\n"
        "from regard.data.datasets.movie_reviews import MovieReviews\n"
        "next(MovieReviews().rows(bad=BadRows()))\n"
        "sys.exit('movie_reviews' in sys.modules or 'pandas' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@needs_package
@pytest.mark.data
def test_what_it_has_in_common_with_other_sets(data_folder: Path) -> None:
    """The figures that the notices give."""

    def key(text: str) -> str:
        letters = with_windows_marks(text).replace("<br />", " ")
        return "".join(filter(str.isalnum, letters.lower()))

    def keys(name: str) -> set[str]:
        return {key(row.text) for row in MovieReviews(name=name).rows(bad=BadRows())}

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
