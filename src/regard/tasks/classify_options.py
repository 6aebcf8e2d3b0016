"""What the task `classify` can be told."""

from __future__ import annotations

from dataclasses import dataclass

from regard.core.errors import RegardError
from regard.core.names import look_up
from regard.data.labelled_rows import MAX_LINE_BYTES
from regard.data.vocabulary import VOCABULARIES
from regard.tasks.text_options import TextOptions

# Sets that need no file, in the order of `labelled_sources.SETS`; the first is learned from unless told.
EMBEDDED_LABELS = ("film-languages", "movie-reviews", "movie-sentences")
DEFAULT_LABELS = EMBEDDED_LABELS[0]
MOST_LINE_BYTES = 2**40


@dataclass(frozen=True, kw_only=True)
class ClassifyOptions(TextOptions):
    """As `TextOptions`; a text of more tokens than `max_length` has room for is cut off there. And:

    labels            a file of texts with a label each, or a set that is there: film-languages, which is
                      taken unless told, movie-reviews or movie-sentences (docs/documents.md)
    format            of the files, where their names do not say it: labelled, tsv, csv, jsonl
    header            whether the first row names the columns; a column given by name implies it
    text_column       where the text stands: a number from 0, or a name; `label_column` likewise
    max_line_bytes    how long a line of the files may be; longer ones are bad rows
    tokens            wordpiece, subwords, running_words, words or characters
    min_count         how often a word must be seen to be in a vocabulary of words
    sentences         whether texts are cut into sentences, as the model `hierarchical` reads them
    sentence_length   tokens in a sentence at most; a longer one is cut into several
    label_smoothing   the share of the probability that is spread over all labels (Szegedy et al. 2016)
    """

    labels: str | None = None
    format: str | None = None
    header: bool = False
    text_column: int | str | None = None
    label_column: int | str | None = None
    max_line_bytes: int = MAX_LINE_BYTES
    tokens: str = "wordpiece"
    min_count: int = 1
    sentences: bool = False
    sentence_length: int = 60
    label_smoothing: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        look_up("vocabulary", self.tokens, VOCABULARIES)
        for name in ("min_count", "sentence_length"):
            if getattr(self, name) < 1:
                raise RegardError(f"task.{name}={getattr(self, name)}: it must be 1 or more.")
        if not 1 <= self.max_line_bytes <= MOST_LINE_BYTES:
            raise RegardError(
                f"task.max_line_bytes={self.max_line_bytes}: it must be from 1 to {MOST_LINE_BYTES}."
            )
        if not 0 <= self.label_smoothing < 1:
            raise RegardError(
                f"task.label_smoothing={self.label_smoothing}: it must be from 0 to below 1."
            )
