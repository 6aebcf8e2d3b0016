"""The files of the task `classify`, read and cut into what is learned from and what is held out.

What is learned from is streamed twice: once for the vocabulary and the labels, once for the tokens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Self

from regard.core.batches import UNKNOWN
from regard.core.errors import RegardError
from regard.core.registry import look_up
from regard.data.datasets.films import FilmLanguages
from regard.data.datasets.movie_reviews import MovieReviews
from regard.data.readers.labelled import MAX_LINE_BYTES, LabelledRow, LabelledSource
from regard.data.readers.pairs import as_column
from regard.data.readers.text_file import BadRows
from regard.data.sentences import sentences
from regard.data.splits import HeldOut, LearnedToo, held_out_facts, learned_too_words
from regard.data.text_dataset import DocumentRows, EncodedDocument, TextRows
from regard.data.tokenizers.vocabulary import VOCABULARIES
from regard.tasks.classification.labels import (
    ClassBalance,
    known_rows,
    require_labels,
    require_repeated,
)
from regard.tasks.text_task import RowSource, TextOptions, TextVocabularies, part_rows

# What the task `classify` can be told.


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


# Labelled texts become rows of token numbers: framed by START and END, or cut into sentences.
#
# A text that is too long is cut off, and how much was is counted (`Cut`). A sentence that is too
# long is cut into several, and nothing of it is lost.


ROWS_AT_A_TIME = 4096  # enough for the tokenizer to work in parallel
FRAME = 2  # START and END

Rows = TextRows | DocumentRows


class Cut(NamedTuple):
    """How many texts were too long, and how many of all tokens were left out for that."""

    texts: int = 0
    of_texts: int = 0
    tokens: int = 0
    of_tokens: int = 0

    def with_more(self, other: Self) -> Self:
        """Of these texts and of others."""
        return type(self)(*(one + more for one, more in zip(self, other, strict=True)))

    def words(self, longest: int) -> str:
        """A part of a sentence that says so; empty where nothing was cut.

        >>> Cut(texts=1, of_texts=2, tokens=30, of_tokens=120).words(80)
        '1 of 2 texts is cut off after 80 tokens, which leaves out 25.0 % of what there is to read'
        """
        if not self.texts:
            return ""
        share = 100 * self.tokens / self.of_tokens
        are = "is" if self.texts == 1 else "are"
        of = "text" if self.of_texts == 1 else "texts"
        return (
            f"{self.texts:,} of {self.of_texts:,} {of} {are} cut off after {longest:,} tokens, which "
            f"leaves out {share:.1f} % of what there is to read"
        )


def training_rows(
    rows: Iterator[LabelledRow], options: ClassifyOptions, vocabularies: TextVocabularies
) -> tuple[Rows, Cut]:
    """Token numbers and class numbers of these rows, which are read once."""
    number_of = {label: number for number, label in enumerate(vocabularies.labels)}
    documents: list[EncodedDocument] = []
    labels: list[int] = []
    cut = Cut()
    while block := list(islice(rows, ROWS_AT_A_TIME)):
        some, more = _encoded([row.text for row in block], options, vocabularies)
        documents += some
        cut = cut.with_more(more)
        labels += [number_of[row.label] for row in block]
    return _rows(documents, labels, options), cut


def text_rows(
    texts: Sequence[str],
    vocabularies: TextVocabularies,
    options: ClassifyOptions,
    *,
    labels: Sequence[int] | None = None,
) -> Rows:
    """The tokens of these texts, cut off where those learned from were."""
    return _rows(_encoded(texts, options, vocabularies)[0], labels, options)


def cut_of(texts: Sequence[str], vocabularies: TextVocabularies, options: ClassifyOptions) -> Cut:
    """How much of these texts `text_rows` leaves out."""
    cut = Cut()
    for start in range(0, len(texts), ROWS_AT_A_TIME):
        block = texts[start : start + ROWS_AT_A_TIME]
        cut = cut.with_more(_encoded(block, options, vocabularies)[1])
    return cut


def _rows(
    documents: list[EncodedDocument], labels: Sequence[int] | None, options: ClassifyOptions
) -> Rows:
    if options.sentences:
        return DocumentRows.of(documents, labels)
    return TextRows.of_texts([document.tokens for document in documents], labels)


def _encoded(
    texts: Sequence[str], options: ClassifyOptions, vocabularies: TextVocabularies
) -> tuple[list[EncodedDocument], Cut]:
    vocabulary = vocabularies.text
    if options.sentences:
        parts = [sentences(text) for text in texts]
        flat = iter(vocabulary.encode_all(part for some in parts for part in some))
        whole = [_document(islice(flat, len(some)), options.sentence_length) for some in parts]
    else:
        whole = [EncodedDocument(tokens, ()) for tokens in vocabulary.encode_all(texts)]
    room = options.max_length - (0 if options.sentences else FRAME)
    lengths = [len(document.tokens) for document in whole]
    over = [length - room for length in lengths if length > room]
    kept = [EncodedDocument(tokens[:room], segments[:room]) for tokens, segments in whole]
    return kept, Cut(len(over), len(lengths), sum(over), sum(lengths))


def _document(parts: Iterable[Sequence[int]], longest: int) -> EncodedDocument:
    """One document of these sentences; one without any token is a single unknown one."""
    tokens: list[int] = []
    segments: list[int] = []
    number = 0
    for part in parts:
        for start in range(0, len(part), longest):
            piece = part[start : start + longest]
            tokens += piece
            segments += [number] * len(piece)
            number += 1
    return EncodedDocument(tokens or [UNKNOWN], segments or [0])


# Where the task `classify` finds labelled texts: a file, or a set that an installed package holds.


Source = LabelledSource | FilmLanguages | MovieReviews

SETS: dict[str, Callable[[], Source]] = {
    "film-languages": FilmLanguages,
    "movie-reviews": MovieReviews,
    "movie-sentences": lambda: MovieReviews(name="rotten_tomatoes"),
}


def source_of(options: ClassifyOptions, text: str | None) -> Source:
    """What an option names: a set by its name, or a file, with the columns of the task."""
    name = DEFAULT_LABELS if text is None else text
    if name in SETS:
        return SETS[name]()
    text_column, label_column = (
        None if column is None else as_column(column)
        for column in (options.text_column, options.label_column)
    )
    return LabelledSource(
        path=Path(name),
        format=options.format,
        text_column=text_column,
        label_column=label_column,
        header=options.header,
        max_line_bytes=options.max_line_bytes,
    )


FIX = "Give texts with that label to learn from too, fix the line"


@dataclass(frozen=True, kw_only=True)
class ClassifyCorpus:
    """Everything read from the files of the task."""

    vocabularies: TextVocabularies
    train: Rows
    validation: HeldOut
    test: HeldOut
    # How many texts of each held-out part stand in the training part too.
    learned_too: dict[str, int]
    # What must be known of where the texts come from.
    notice: str
    # How much of each part is left out because a text is too long.
    cuts: dict[str, Cut]
    max_length: int
    bad: BadRows

    @classmethod
    def read(
        cls,
        options: ClassifyOptions,
        *,
        texts: Source,
        vocabularies: TextVocabularies | None = None,
    ) -> Self:
        """Read the files; known `vocabularies` are used again, those of an encoder without labels too."""
        bad = BadRows(skip=options.skip_bad_rows)
        first = bad
        if vocabularies is None or not vocabularies.labels:
            labels: Counter[str] = Counter()
            rows = _counted(part_rows(texts, options, "train", bad), labels)
            if vocabularies is None:
                vocabularies = TextVocabularies.build(
                    options,
                    kind=options.tokens,
                    texts=(row.text for row in rows),
                    min_count=options.min_count,
                )
            for _ in rows:  # whatever was not read for the vocabulary
                pass
            require_repeated(labels, texts.path)
            vocabularies = TextVocabularies(text=vocabularies.text, labels=tuple(sorted(labels)))
            first = BadRows(skip=True)  # every later pass meets the same bad rows again
        require_labels(vocabularies.labels, texts.path)
        known = set(vocabularies.labels)
        held_out = {
            part: held_out_texts(_held_out_rows(texts, options, part, bad, known=known))
            for part in ("validation", "test")
        }
        seen = LearnedToo[Any](held_out, lowercase=options.lowercase, text_of=lambda row: row.text)
        rows = part_rows(texts, options, "train", first)
        fitting = known_rows(rows, known, path=texts.path, bad=bad, hint=FIX)
        train, cut = training_rows(seen.watch(fitting), options, vocabularies)
        return cls(
            vocabularies=vocabularies,
            train=train,
            validation=held_out["validation"],
            test=held_out["test"],
            learned_too=seen.counts(),
            notice=getattr(texts, "notice", ""),
            cuts={"train": cut} | held_out_cuts(held_out, vocabularies, options),
            max_length=options.max_length,
            bad=bad,
        )

    def facts(self) -> dict[str, Any]:
        """How much there is of each part, and a fingerprint that shows any later change."""
        return {
            "train_texts": len(self.train),
            "train_fingerprint": self.train.fingerprint(),
            **held_out_facts(self.validation, self.test),
            "label_balance": self.balance().as_json(),
            "cut_texts": {part: cut.texts for part, cut in self.cuts.items()},
            "cut_tokens": {part: cut.tokens for part, cut in self.cuts.items()},
            "held_out_sources_in_train": self.learned_too,
            "bad_rows": self.bad.count,
        }

    def describe(self) -> str:
        """How much there is, in one line."""
        return (
            f"{len(self.train):,} texts to learn from, {len(self.validation):,} to develop on, "
            f"{len(self.test):,} to test on; vocabulary of {self.vocabularies.text.size:,}"
            + "".join(
                f"; of the {part} part, {words}"
                for part, cut in self.cuts.items()
                if (words := cut.words(self.max_length))
            )
            + learned_too_words(self.learned_too, "texts")
            + f". {self.balance().describe()} {self.notice}".rstrip(" .")
        )

    def balance(self) -> ClassBalance:
        """How many texts of each label are learned from."""
        return ClassBalance.of(self.vocabularies.labels[number] for number in self.train.labels)


def held_out_texts(rows: Iterator[LabelledRow]) -> HeldOut:
    """Texts and the label of each."""
    return HeldOut.of(((row.text, row.label) for row in rows), group=False)


def held_out_cuts(
    held_out: dict[str, HeldOut], vocabularies: TextVocabularies, options: ClassifyOptions
) -> dict[str, Cut]:
    """How much of each held-out part is left out."""
    return {part: cut_of(texts.sources, vocabularies, options) for part, texts in held_out.items()}


def _counted(rows: Iterator[LabelledRow], labels: Counter[str]) -> Iterator[LabelledRow]:
    for row in rows:
        labels[row.label] += 1
        yield row


def _held_out_rows(
    texts: RowSource[LabelledRow],
    options: ClassifyOptions,
    part: str,
    bad: BadRows,
    *,
    known: set[str],
) -> Iterator[LabelledRow]:
    """The rows of a part; a label that is never learned is a bad row."""
    own: str | None = getattr(options, part)
    path = source_of(options, own or options.labels).path
    if own:
        rows = source_of(options, own).rows(bad=bad)
        return known_rows(rows, known, path=path, bad=bad, hint=FIX)
    rows = part_rows(texts, options, part, BadRows(skip=True))
    share = f"task.{part}_share={getattr(options, f'{part}_share')}"
    hint = (
        f"It fell to the {part} part, which is drawn from the file: give more texts with that label, "
        f"lower {share}, or give a file of its own with --{part}"
    )
    # Without texts to test on a run is still one.
    return known_rows(rows, known, path=path, bad=bad, hint=hint, required=part == "validation")
