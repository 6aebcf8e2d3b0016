"""Data of text classification: options, embedded datasets, splits, and truncation of long texts.

The training data is streamed twice: once for vocabulary and labels, once for the tokens. A text becomes
token ids with START and END, or is split into sentences. Text beyond `max_length` is truncated and counted;
a sentence beyond `sentence_length` is split, and nothing of it is lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Self

from regard.core.batches import UNKNOWN
from regard.core.registry import lookup
from regard.data.datasets.films import FilmLanguages
from regard.data.datasets.movie_reviews import MovieReviews
from regard.data.readers.labelled import MAX_LINE_BYTES, LabelledRow, LabelledSource
from regard.data.readers.pairs import parse_column
from regard.data.readers.text_file import RowErrors
from regard.data.sentences import split_sentences
from regard.data.splits import EvalSplit, Leakage, leakage_summary, split_facts
from regard.data.text_dataset import DocumentDataset, EncodedDocument, TextDataset
from regard.data.tokenizers.vocabulary import VOCABULARIES
from regard.tasks.classification.labels import (
    ClassBalance,
    rows_with_known_labels,
    validate_label_column,
    validate_labels,
)
from regard.tasks.task import validate_options, validate_positive, validate_proper_fractions
from regard.tasks.text_task import RowSource, TextOptions, TextVocabularies, split_rows

# Datasets that need no file, in the order of `DATASETS`; the first is the default.
EMBEDDED_DATASETS = ("film-languages", "movie-reviews", "movie-sentences")
DEFAULT_DATASET = EMBEDDED_DATASETS[0]
LARGEST_LINE_BYTES = 2**40
ENCODE_ROWS = 4096  # enough for the tokenizer to work in parallel
NUM_BOUNDARY_TOKENS = 2  # START and END
ADD_LABEL = "Add training texts with that label, or fix the line"


@dataclass(frozen=True, kw_only=True)
class ClassifyOptions(TextOptions):
    """As `TextOptions`; texts longer than `max_length` are truncated.

    `train_file` is a file of labelled texts or an embedded dataset: film-languages (the default),
    movie-reviews or movie-sentences (docs/documents.md).

    Args:
        format: File format: labelled, tsv, csv or jsonl; default: by the extension.
        header: Whether the first row is a header; a column given by name implies it.
        text_column, label_column: Index from 0, or name.
        max_line_bytes: Maximum length of a line; longer ones are malformed.
        tokens: Tokenizer: wordpiece, subwords, word_punct, words or characters.
        min_count: Minimum frequency of a word in a word vocabulary.
        sentences: Split texts into sentences, as the model `hierarchical` needs.
        sentence_length: Maximum tokens in a sentence; longer ones are split.
        label_smoothing: Probability mass spread over all labels (Szegedy et al. 2016).
    """

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
        lookup("vocabulary", self.tokens, VOCABULARIES)
        validate_positive(self, "min_count", "sentence_length")
        rule = f"from 1 to {LARGEST_LINE_BYTES}"
        validate_options(
            self, rule, lambda value: 1 <= value <= LARGEST_LINE_BYTES, "max_line_bytes"
        )
        validate_proper_fractions(self, "label_smoothing")


Rows = TextDataset | DocumentDataset


class Truncation(NamedTuple):
    """Number of truncated texts and of removed tokens, each out of the total."""

    texts: int = 0
    of_texts: int = 0
    tokens: int = 0
    of_tokens: int = 0

    def combined_with(self, other: Self) -> Self:
        """The counts of both."""
        return type(self)(*(one + more for one, more in zip(self, other, strict=True)))

    def describe(self, max_length: int) -> str:
        """The counts in words; empty without truncation.

        >>> Truncation(texts=1, of_texts=2, tokens=30, of_tokens=120).describe(80)
        '1 of 2 texts truncated to 80 tokens, 25.0 % of all tokens removed'
        """
        if not self.texts:
            return ""
        percent = 100 * self.tokens / self.of_tokens
        noun = "text" if self.of_texts == 1 else "texts"
        return (
            f"{self.texts:,} of {self.of_texts:,} {noun} truncated to {max_length:,} tokens, "
            f"{percent:.1f} % of all tokens removed"
        )


def encode_labelled(
    rows: Iterator[LabelledRow], options: ClassifyOptions, vocabularies: TextVocabularies
) -> tuple[Rows, Truncation]:
    """Token ids and class ids of these rows, in one pass."""
    number_of = {label: number for number, label in enumerate(vocabularies.labels)}
    documents: list[EncodedDocument] = []
    labels: list[int] = []
    truncation = Truncation()
    while block := list(islice(rows, ENCODE_ROWS)):
        encoded, truncated = _encoded([row.text for row in block], options, vocabularies)
        documents += encoded
        truncation = truncation.combined_with(truncated)
        labels += [number_of[row.label] for row in block]
    return _rows(documents, labels, options), truncation


def encode_texts(
    texts: Sequence[str],
    vocabularies: TextVocabularies,
    options: ClassifyOptions,
    *,
    labels: Sequence[int] | None = None,
) -> Rows:
    """The token ids of these texts, truncated like the training texts."""
    return _rows(_encoded(texts, options, vocabularies)[0], labels, options)


def count_truncation(
    texts: Sequence[str], vocabularies: TextVocabularies, options: ClassifyOptions
) -> Truncation:
    """How much `encode_texts` truncates these texts."""
    truncation = Truncation()
    for start in range(0, len(texts), ENCODE_ROWS):
        block = texts[start : start + ENCODE_ROWS]
        truncation = truncation.combined_with(_encoded(block, options, vocabularies)[1])
    return truncation


def _rows(
    documents: list[EncodedDocument], labels: Sequence[int] | None, options: ClassifyOptions
) -> Rows:
    if options.sentences:
        return DocumentDataset.of(documents, labels)
    return TextDataset.of_texts([document.tokens for document in documents], labels)


def _encoded(
    texts: Sequence[str], options: ClassifyOptions, vocabularies: TextVocabularies
) -> tuple[list[EncodedDocument], Truncation]:
    vocabulary = vocabularies.text
    if options.sentences:
        split = [split_sentences(text) for text in texts]
        flat = iter(vocabulary.encode_all(sentence for of_text in split for sentence in of_text))
        whole = [
            _document(islice(flat, len(of_text)), options.sentence_length) for of_text in split
        ]
    else:
        whole = [EncodedDocument(tokens, ()) for tokens in vocabulary.encode_all(texts)]
    limit = options.max_length - (0 if options.sentences else NUM_BOUNDARY_TOKENS)
    lengths = [len(document.tokens) for document in whole]
    removed = [length - limit for length in lengths if length > limit]
    kept = [EncodedDocument(tokens[:limit], segments[:limit]) for tokens, segments in whole]
    return kept, Truncation(len(removed), len(lengths), sum(removed), sum(lengths))


def _document(sentences: Iterable[Sequence[int]], max_length: int) -> EncodedDocument:
    """One document of these encoded sentences; an empty one is a single unknown token."""
    tokens: list[int] = []
    segments: list[int] = []
    number = 0
    for sentence in sentences:
        for start in range(0, len(sentence), max_length):
            chunk = sentence[start : start + max_length]
            tokens += chunk
            segments += [number] * len(chunk)
            number += 1
    return EncodedDocument(tokens or [UNKNOWN], segments or [0])


Source = LabelledSource | FilmLanguages | MovieReviews

DATASETS: dict[str, Callable[[], Source]] = {
    "film-languages": FilmLanguages,
    "movie-reviews": MovieReviews,
    "movie-sentences": lambda: MovieReviews(name="rotten_tomatoes"),
}


def labelled_source(options: ClassifyOptions, file: str | None) -> Source:
    """The embedded dataset or file of that name."""
    name = DEFAULT_DATASET if file is None else file
    if name in DATASETS:
        return DATASETS[name]()
    text_column, label_column = (
        None if column is None else parse_column(column)
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


@dataclass(frozen=True, kw_only=True)
class ClassifyCorpus:
    """Data splits and vocabularies."""

    vocabularies: TextVocabularies
    train: Rows
    validation: EvalSplit
    test: EvalSplit
    # Texts of each evaluation split that also occur in training.
    leakage: dict[str, int]
    # A note on the origin of the dataset.
    notice: str
    truncation: dict[str, Truncation]
    max_length: int
    errors: RowErrors

    @classmethod
    def read(
        cls,
        options: ClassifyOptions,
        *,
        texts: Source,
        vocabularies: TextVocabularies | None = None,
    ) -> Self:
        """Read the files; given `vocabularies` are reused, also those of a pre-training without labels."""
        errors = RowErrors(skip=options.skip_bad_rows)
        train_errors = errors
        if vocabularies is None or not vocabularies.labels:
            labels: Counter[str] = Counter()
            rows = _counted(split_rows(texts, options, "train", errors), labels)
            if vocabularies is None:
                vocabularies = TextVocabularies.build(
                    options,
                    kind=options.tokens,
                    texts=(row.text for row in rows),
                    min_count=options.min_count,
                )
            for _ in rows:  # count the labels of rows that the vocabulary did not need
                pass
            validate_label_column(labels, texts.path)
            vocabularies = TextVocabularies(text=vocabularies.text, labels=tuple(sorted(labels)))
            train_errors = RowErrors(skip=True)  # reported by the first pass
        validate_labels(vocabularies.labels, texts.path)
        known = set(vocabularies.labels)
        splits = {
            split: labelled_split(_eval_rows(texts, options, split, errors, known=known))
            for split in ("validation", "test")
        }
        rows = split_rows(texts, options, "train", train_errors)
        rows = rows_with_known_labels(rows, known, path=texts.path, errors=errors, hint=ADD_LABEL)
        notice = getattr(texts, "notice", "")
        return cls.encode(rows, splits, options, vocabularies, errors=errors, notice=notice)

    @classmethod
    def encode(
        cls,
        rows: Iterable[LabelledRow],
        splits: dict[str, EvalSplit],
        options: ClassifyOptions,
        vocabularies: TextVocabularies,
        *,
        errors: RowErrors,
        notice: str = "",
    ) -> Self:
        """Encode the training rows, and count leakage and truncation."""
        leakage = Leakage[Any](splits, lowercase=options.lowercase, text_of=lambda row: row.text)
        train, truncation = encode_labelled(leakage.watch(rows), options, vocabularies)
        of_splits = {
            name: count_truncation(split.inputs, vocabularies, options)
            for name, split in splits.items()
        }
        return cls(
            vocabularies=vocabularies,
            train=train,
            **splits,
            leakage=leakage.counts(),
            notice=notice,
            truncation={"train": truncation, **of_splits},
            max_length=options.max_length,
            errors=errors,
        )

    def facts(self) -> dict[str, Any]:
        """Sizes, class balance and fingerprints of the splits, for a run's record."""
        return {
            "train_texts": len(self.train),
            "train_fingerprint": self.train.fingerprint(),
            **split_facts(self.validation, self.test),
            "class_balance": self.balance().as_json(),
            "truncated_texts": {name: counts.texts for name, counts in self.truncation.items()},
            "truncated_tokens": {name: counts.tokens for name, counts in self.truncation.items()},
            "leakage": self.leakage,
            "row_errors": self.errors.count,
        }

    def describe(self) -> str:
        """Sizes, truncation, leakage and class balance in one line."""
        return (
            f"{len(self.train):,} training texts, {len(self.validation):,} validation texts, "
            f"{len(self.test):,} test texts; vocabulary size {self.vocabularies.text.size:,}"
            + "".join(
                f"; {name} split: {text}"
                for name, counts in self.truncation.items()
                if (text := counts.describe(self.max_length))
            )
            + leakage_summary(self.leakage, "texts")
            + f". {self.balance().describe()} {self.notice}".rstrip(" .")
        )

    def balance(self) -> ClassBalance:
        """The class balance of the training split."""
        return ClassBalance.of(self.vocabularies.labels[number] for number in self.train.labels)


def labelled_split(rows: Iterator[LabelledRow]) -> EvalSplit:
    """Texts, with their label as reference."""
    return EvalSplit.of(((row.text, row.label) for row in rows), group=False)


def _counted(rows: Iterator[LabelledRow], labels: Counter[str]) -> Iterator[LabelledRow]:
    for row in rows:
        labels[row.label] += 1
        yield row


def _eval_rows(
    texts: RowSource[LabelledRow],
    options: ClassifyOptions,
    split: str,
    errors: RowErrors,
    *,
    known: set[str],
) -> Iterator[LabelledRow]:
    """The rows of an evaluation split; a row with a label unseen in training is malformed."""
    file: str | None = getattr(options, f"{split}_file")
    source = labelled_source(options, file or options.train_file)
    if file:
        rows = source.rows(errors=errors)
        return rows_with_known_labels(rows, known, path=source.path, errors=errors, hint=ADD_LABEL)
    rows = split_rows(texts, options, split, RowErrors(skip=True))
    fraction = f"task.{split}_fraction={getattr(options, f'{split}_fraction')}"
    hint = (
        f"It is in the {split} split, which is taken from the training file by hash: add texts with that "
        f"label, lower {fraction}, or give --{split}-file"
    )
    return rows_with_known_labels(
        rows,
        known,
        path=source.path,
        errors=errors,
        hint=hint,
        required=split == "validation",  # a run needs no test split
    )
