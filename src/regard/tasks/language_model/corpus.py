"""Data of language modelling: options, splits, and chunking of long texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Self

import numpy as np
from jaxtyping import Int64

from regard.core.errors import RegardError
from regard.core.registry import lookup
from regard.data.datasets.films import FilmQuestions, fact_sentences, sample_films
from regard.data.readers.text_file import RowErrors
from regard.data.splits import EvalSplit, dedup_key, holdout_fractions, split_facts, split_of
from regard.data.text_dataset import DocumentFile
from regard.data.token_store import TokenStore
from regard.data.tokenizers.vocabulary import Vocabulary
from regard.tasks.seq2seq.corpus import PairRows, PairVocabularies, pair_source, text_vocabulary
from regard.tasks.task import (
    validate_options,
    validate_positive,
    validate_proper_fractions,
    validate_train_split,
)

TOKENIZERS = ("characters", "words", "subwords")
SPANS = ("one", "several")
# Without a validation split, this many training texts are evaluated on.
TRAIN_EVAL_TEXTS = 200
# A continuous text is evaluated in chunks of this many characters, but in at least so many chunks.
EVAL_CHUNK_CHARACTERS = 2000
MIN_EVAL_CHUNKS = 40


@dataclass(frozen=True, kw_only=True)
class LMOptions:
    """Options of language modelling.

    Args:
        train_file: Training texts, one per line; without it, embedded sentences about films.
        films: Number of embedded films.
        validation_file, test_file: Evaluation texts; without them, splits of the training data by hash.
        validation_fraction: Fraction held out without `validation_file`; with 0, training texts are
            evaluated on.
        test_fraction: Fraction held out with neither `validation_file` nor `test_file`.
        skip_bad_rows: Skip and list malformed rows instead of raising.
        tokens: Tokenizer: characters, words or subwords.
        vocabulary_size: Size of a subword vocabulary.
        lowercase: Lower-case all texts.
        max_length: Maximum number of tokens; longer texts are split into chunks.
        stream: Treat the lines as one continuous text, as in a book, and hold out its end.
        batch_tokens: Maximum number of tokens in a batch, padding included.
        label_smoothing: Probability mass spread over all tokens.
        span_fraction: Fraction of texts with span corruption; the others predict next tokens.
        spans: Corrupt one span per text, or several, with `noise_density` of the tokens in spans of
            `mean_span_length` on average.
        max_span_fraction: Maximum fraction of a text in its one span.
        full_length_probability: How often a text with one span is not truncated first.
        min_kept_fraction: Minimum fraction that a truncated text keeps.
        qa_file: Question-answer pairs to mix in; they are part of the vocabulary too.
        qa_fraction: Fraction of pairs among all examples.
        qa_validation_fraction, qa_test_fraction: Fractions of the pairs that are excluded, since a
            fine-tuning task evaluates on them.
        qa_lowercase: Whether that task treats sources that differ in case as equal.
        format: Format of `qa_file`; default: by the extension.
        source_column, target_column: Question and answer column of `qa_file`: index from 0, or name.
        header: Whether the first row of `qa_file` is a header.
        metric: The metric that selects the best checkpoint.
    """

    train_file: str | None = None
    films: int = 2000
    validation_file: str | None = None
    test_file: str | None = None
    validation_fraction: float = 0.05
    test_fraction: float = 0.0
    skip_bad_rows: bool = False
    tokens: str = "subwords"
    vocabulary_size: int = 4000
    lowercase: bool = False
    max_length: int = 256
    stream: bool = False
    batch_tokens: int = 2048
    label_smoothing: float = 0.0
    span_fraction: float = 0.0
    spans: str = "one"
    noise_density: float = 0.15
    mean_span_length: float = 3.0
    max_span_fraction: float = 0.5
    full_length_probability: float = 0.3
    min_kept_fraction: float = 0.25
    qa_file: str | None = None
    qa_fraction: float = 0.0
    qa_validation_fraction: float = 0.0
    qa_test_fraction: float = 0.0
    qa_lowercase: bool = False
    format: str | None = None
    source_column: int | str = 0
    target_column: int | str = 1
    header: bool = False
    metric: str = ""

    def __post_init__(self) -> None:
        validate_positive(self, "films", "vocabulary_size", "max_length", "batch_tokens")
        of_all = ("span_fraction", "full_length_probability")
        validate_options(self, "from 0 to 1", lambda value: 0 <= value <= 1, *of_all)
        of_text = ("max_span_fraction", "min_kept_fraction", "noise_density")
        validate_options(self, "above 0 and at most 1", lambda value: 0 < value <= 1, *of_text)
        validate_proper_fractions(self, "label_smoothing", "qa_fraction")
        validate_proper_fractions(self, "validation_fraction", "test_fraction")
        validate_proper_fractions(self, "qa_validation_fraction", "qa_test_fraction")
        validate_positive(self, "mean_span_length")
        lookup("kind of task.tokens", self.tokens, dict.fromkeys(TOKENIZERS))
        lookup("choice for task.spans", self.spans, dict.fromkeys(SPANS))
        if self.stream and self.span_fraction:
            raise RegardError(
                f"task.stream=true is incompatible with task.span_fraction={self.span_fraction}: span "
                "corruption needs texts with an end. Set one of them to false or 0."
            )
        if self.qa_fraction and self.qa_file is None and self.train_file is not None:
            raise RegardError(
                f"task.qa_fraction={self.qa_fraction} mixes in question-answer pairs, but there are none. "
                "Name a file with task.qa_file=FILE."
            )


def qa_options(task_options: Any) -> dict[str, Any]:
    """Options of a pre-training stage that mix in the pairs of its fine-tuning task.

    The validation and test pairs of that task are excluded, to avoid leakage.
    """
    validation, test = holdout_fractions(task_options)
    shared = ("format", "source_column", "target_column", "header", "skip_bad_rows")
    return {
        "qa_file": task_options.train_file,
        **{name: getattr(task_options, name) for name in shared},
        "qa_lowercase": task_options.lowercase != "no",
        "qa_validation_fraction": validation,
        "qa_test_fraction": test,
    }


@dataclass(frozen=True, kw_only=True)
class LMCorpus:
    """Data splits and vocabulary; rows of `train` have an empty source, `pairs` are mixed in."""

    vocabularies: PairVocabularies
    train: TokenStore
    pairs: TokenStore | None
    validation: EvalSplit
    test: EvalSplit
    validation_is_train: bool
    chunked_texts: int
    max_length: int
    errors: RowErrors

    @classmethod
    def read(cls, options: LMOptions, *, vocabularies: PairVocabularies | None = None) -> Self:
        """Read the files; given `vocabularies` are reused."""
        errors = RowErrors(skip=options.skip_bad_rows)
        texts = _split_texts(options, errors)
        pairs = list(qa_pairs(options, errors))
        if vocabularies is None:
            sides = chain.from_iterable(pairs)
            everything = chain(texts["train"], sides)
            shared = text_vocabulary(options, options.tokens, everything, options.lowercase)
            vocabularies = PairVocabularies(source=shared, target=shared)
        vocabulary = vocabularies.target
        encoded = vocabulary.encode_all(texts["train"])
        chunk = partial(_chunks, max_length=options.max_length)
        train = TokenStore.build(((), row) for row in chain.from_iterable(map(chunk, encoded)))
        validate_train_split(train, options, units="texts")
        validation_is_train = not (
            texts["validation"] or options.validation_file or options.validation_fraction
        )
        if validation_is_train:
            texts["validation"] = texts["train"][:TRAIN_EVAL_TEXTS]
            if options.stream:
                texts["validation"] = [texts["train"][0][-EVAL_CHUNK_CHARACTERS:]]
        return cls(
            vocabularies=vocabularies,
            train=train,
            pairs=_pair_store(pairs if options.qa_fraction else [], vocabulary),
            validation=eval_split(texts["validation"]),
            test=eval_split(texts["test"]),
            validation_is_train=validation_is_train,
            chunked_texts=sum(len(ids) > options.max_length for ids in encoded),
            max_length=options.max_length,
            errors=errors,
        )

    def describe(self) -> str:
        """Sizes in one line."""
        pairs = f", {len(self.pairs):,} question-answer pairs" if self.pairs is not None else ""
        validation = (
            "no validation texts: evaluated on training texts"
            if self.validation_is_train
            else f"{len(self.validation):,} validation texts"
        )
        chunked = (
            f"; {self.chunked_texts:,} texts split at {self.max_length} tokens"
            if self.chunked_texts
            else ""
        )
        return (
            f"{len(self.train):,} training texts ({len(self.train.target_tokens):,} tokens)"
            f"{pairs}, {validation}; vocabulary size {self.vocabularies.target.size:,}{chunked}"
        )

    def facts(self) -> dict[str, Any]:
        """Sizes and fingerprints of the splits, for a run's record."""
        return {
            "train_texts": len(self.train),
            "train_tokens": len(self.train.target_tokens),
            "train_fingerprint": self.train.fingerprint(),
            "pairs": 0 if self.pairs is None else len(self.pairs),
            "pairs_fingerprint": "" if self.pairs is None else self.pairs.fingerprint(),
            **split_facts(self.validation, self.test),
            "validation_is_train": self.validation_is_train,
            "chunked_texts": self.chunked_texts,
            "row_errors": self.errors.count,
        }


def chunk_texts(
    texts: Sequence[str], vocabulary: Vocabulary, *, max_length: int
) -> tuple[TokenStore, Int64[np.ndarray, " rows"]]:
    """The texts as chunks, like the training texts, and the index of the text of each chunk."""
    rows = [
        (owner, chunk)
        for owner, ids in enumerate(vocabulary.encode_all(texts))
        for chunk in _chunks(ids, max_length)
    ]
    store = TokenStore.build(((), chunk) for _, chunk in rows)
    return store, np.array([owner for owner, _ in rows], dtype=np.int64)


def _split_texts(options: LMOptions, errors: RowErrors) -> dict[str, list[str]]:
    """The texts of each split; a split with a file of its own takes nothing from the training file."""
    all_texts = (
        [" ".join(fact_sentences(film)) for film in sample_films(options.films)]
        if options.train_file is None
        else list(file_texts(options.train_file, errors))
    )
    validation, test = holdout_fractions(options)
    texts: dict[str, list[str]] = {"train": [], "validation": [], "test": []}
    if options.stream:
        # The end of a continuous text is held out, not chunks between training chunks.
        chunks = _joined_lines(all_texts)
        ends = [round(len(chunks) * fraction) for fraction in (1 - validation - test, 1 - test)]
        texts["train"] = [" ".join(chunks[: ends[0]])] if ends[0] else []
        texts["validation"], texts["test"] = chunks[ends[0] : ends[1]], chunks[ends[1] :]
    else:
        for text in all_texts:
            key = dedup_key(text, lowercase=options.lowercase)
            texts[split_of(key, validation=validation, test=test)].append(text)
    for name in ("validation", "test"):
        if file := getattr(options, f"{name}_file"):
            own = list(file_texts(file, errors))
            texts[name] = _joined_lines(own) if options.stream else own
    return texts


def file_texts(path: str, errors: RowErrors) -> Iterator[str]:
    """The texts of a file, one per line."""
    return (row.text for row in DocumentFile(path=Path(path)).rows(errors=errors))


def _joined_lines(lines: Sequence[str]) -> list[str]:
    """Lines joined to chunks of some length, so that few tokens are predicted without context."""
    chunks, held, size = list[str](), list[str](), 0
    least = min(EVAL_CHUNK_CHARACTERS, sum(map(len, lines)) // MIN_EVAL_CHUNKS)
    for line in lines:
        held.append(line)
        size += len(line) + 1
        if size >= least:
            chunks.append(" ".join(held))
            held, size = [], 0
    return [*chunks, " ".join(held)] if held else chunks


def qa_pairs(options: LMOptions, errors: RowErrors) -> Iterator[tuple[str, str]]:
    """Question-answer pairs to mix in, without those that a fine-tuning task evaluates on."""
    if options.qa_file is not None:
        source: PairRows = pair_source(options, options.qa_file)
    elif options.train_file is None:
        source = FilmQuestions(count=options.films)
    else:
        return
    validation, test = options.qa_validation_fraction, options.qa_test_fraction
    for row in source.rows(errors=errors):
        question = dedup_key(row.source, lowercase=options.qa_lowercase)
        if split_of(question, validation=validation, test=test) == "train":
            yield row.source, row.target


def _pair_store(pairs: Sequence[tuple[str, str]], vocabulary: Vocabulary) -> TokenStore | None:
    if not pairs:
        return None
    questions = vocabulary.encode_all(question for question, _ in pairs)
    answers = vocabulary.encode_all(answer for _, answer in pairs)
    return TokenStore.build(zip(questions, answers, strict=True))


def eval_split(texts: Iterable[str]) -> EvalSplit:
    """The texts as references; a language model has no inputs."""
    return EvalSplit.of((("", text) for text in texts), group=False)


def _chunks(ids: Sequence[int], max_length: int) -> Iterator[Sequence[int]]:
    """The token ids in chunks; an empty text is one empty chunk."""
    for first in range(0, max(1, len(ids)), max_length):
        yield ids[first : first + max_length]
