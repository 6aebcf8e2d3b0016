"""Data of sequence-to-sequence tasks: options, source and target vocabularies, and splits.

The training file is streamed, once per vocabulary and once for the tokens, and stored as token ids.
Evaluation splits are kept as texts, since predictions are scored as texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, Self, runtime_checkable

from regard.core.errors import RegardError
from regard.core.registry import lookup
from regard.data.readers.formats import EXTENSIONS, PairRow
from regard.data.readers.pairs import PairSource
from regard.data.readers.text_file import RowErrors
from regard.data.splits import (
    EvalSplit,
    Leakage,
    dedup_key,
    holdout_fractions,
    leakage_summary,
    split_facts,
    split_of,
)
from regard.data.token_store import TokenStore
from regard.data.tokenizers.vocabulary import Vocabulary, build_vocabulary, load_vocabulary
from regard.tasks.task import (
    validate_options,
    validate_positive,
    validate_proper_fractions,
    validate_train_split,
)

LOWERCASE = ("no", "source", "both")
ENCODE_ROWS = 4096  # enough for the tokenizer to work in parallel


@dataclass(frozen=True, kw_only=True)
class Seq2SeqOptions:
    """Options of every sequence-to-sequence task. A file is FILE, or SOURCE,TARGET for parallel files.

    Args:
        train_file: Training pairs; each task has a default, or requires one.
        validation_file, test_file: Evaluation pairs; without them, splits of the training data by a
            hash of the source.
        validation_fraction: Fraction held out without `validation_file`.
        test_fraction: Fraction held out with neither `validation_file` nor `test_file`.
        format: File format: tsv, csv, jsonl, dictionary or lines; default: by the extension.
        header: Whether the first row is a header; a column given by name implies it.
        source_column, target_column: Index from 0, or name.
        skip_bad_rows: Skip and list malformed rows instead of raising.
        source_tokens, target_tokens: Tokenizer: characters, words or subwords.
        shared_vocabulary: Use one vocabulary for source and target.
        vocabulary_size: Size of a subword vocabulary.
        lowercase: Which side to lower-case: no, source or both.
        max_length: Maximum number of tokens of a text; longer rows are malformed.
        batch_tokens: Maximum number of tokens in a batch, source and target, padding included.
        label_smoothing: Probability mass spread over all tokens (Szegedy et al. 2016).
        beam_size: Beam width in decoding; 1 is greedy.
        length_penalty: Hypotheses are ranked by log-probability / length**length_penalty.
        metric: The metric that selects the best checkpoint.
    """

    train_file: str | None = None
    validation_file: str | None = None
    test_file: str | None = None
    validation_fraction: float = 0.05
    test_fraction: float = 0.05
    format: str | None = None
    header: bool = False
    source_column: int | str = 0
    target_column: int | str = 1
    skip_bad_rows: bool = False
    source_tokens: str = "subwords"
    target_tokens: str = "subwords"
    shared_vocabulary: bool = False
    vocabulary_size: int = 8000
    lowercase: str = "no"
    max_length: int = 256
    batch_tokens: int = 2048
    label_smoothing: float = 0.1
    beam_size: int = 4
    length_penalty: float = 1.0
    metric: str = ""

    def __post_init__(self) -> None:
        validate_positive(self, "vocabulary_size", "max_length", "batch_tokens", "beam_size")
        validate_proper_fractions(self, "label_smoothing")
        validate_options(
            self, "0 or more", lambda value: 0 <= value < float("inf"), "length_penalty"
        )
        lookup("choice for task.lowercase", self.lowercase, dict.fromkeys(LOWERCASE))
        if self.shared_vocabulary and self.lowercase == "source":
            raise RegardError(
                "task.lowercase='source' is incompatible with task.shared_vocabulary, which is one for "
                "both sides. Set lowercase to 'both' or 'no'."
            )
        if self.shared_vocabulary and self.source_tokens != self.target_tokens:
            raise RegardError(
                f"task.shared_vocabulary needs one tokenizer, but source_tokens is "
                f"'{self.source_tokens}' and target_tokens is '{self.target_tokens}'. "
                "Set both to the same, or shared_vocabulary to false."
            )


@dataclass(frozen=True, kw_only=True)
class PairVocabularies:
    """Source and target vocabulary, which may be the same object."""

    source: Vocabulary
    target: Vocabulary

    @classmethod
    def build(
        cls, options: Seq2SeqOptions, *, sources: Iterable[str], targets: Iterable[str]
    ) -> Self:
        """Build the vocabularies in one pass over each side."""
        if options.shared_vocabulary:
            both = (text for side in (sources, targets) for text in side)
            lowercase = options.lowercase == "both"
            shared = text_vocabulary(options, options.source_tokens, both, lowercase)
            return cls(source=shared, target=shared)
        return cls(
            source=text_vocabulary(
                options, options.source_tokens, sources, options.lowercase != "no"
            ),
            target=text_vocabulary(
                options, options.target_tokens, targets, options.lowercase == "both"
            ),
        )

    def for_warm_start(self) -> Self:
        """Both vocabularies."""
        return self

    def sizes(self) -> dict[str, int]:
        """Vocabulary sizes, as keyword arguments of a model."""
        return {"source_vocabulary": self.source.size, "target_vocabulary": self.target.size}

    def as_json(self) -> dict[str, Any]:
        """Both vocabularies as JSON values; a shared one is written once."""
        if self.source is self.target:
            return {"shared": self.source.as_json()}
        return {"source": self.source.as_json(), "target": self.target.as_json()}

    @classmethod
    def from_json(cls, record: object) -> Self:
        """Load the output of `as_json`."""
        match record:
            case {"shared": shared}:
                vocabulary = load_vocabulary(shared)
                return cls(source=vocabulary, target=vocabulary)
            case {"source": source, "target": target}:
                return cls(source=load_vocabulary(source), target=load_vocabulary(target))
        raise RegardError(
            "The vocabulary file has neither 'shared' nor 'source' and 'target'. Restore the original "
            "file, or train again."
        )


def text_vocabulary(options: Any, kind: str, texts: Iterable[str], lowercase: bool) -> Vocabulary:
    """The vocabulary of the texts; `vocabulary_size` is for subwords only."""
    size = {"size": options.vocabulary_size} if kind == "subwords" else {}
    return build_vocabulary(kind, texts, lowercase=lowercase, **size)


@runtime_checkable
class PairRows(Protocol):
    """A source of pairs: a file (`PairSource`) or an embedded dataset."""

    @property
    def path(self) -> Path:
        """The file, for messages."""
        ...

    def rows(self, *, errors: RowErrors) -> Iterator[PairRow]:
        """All pairs, in order; may be called repeatedly."""
        ...


@dataclass(frozen=True, kw_only=True)
class Seq2SeqCorpus:
    """Data splits and vocabularies."""

    vocabularies: PairVocabularies
    train: TokenStore
    validation: EvalSplit
    test: EvalSplit
    # Sources of each evaluation split that also occur in training.
    leakage: dict[str, int]
    errors: RowErrors

    @classmethod
    def read(
        cls,
        options: Seq2SeqOptions,
        *,
        pairs: PairRows,
        group: bool,
        default_format: str | None = None,
        vocabularies: PairVocabularies | None = None,
    ) -> Self:
        """Read the files; given `vocabularies` are reused, as when a run is resumed.

        `group` is passed to `EvalSplit.of`, `default_format` to `pair_source`.
        """
        errors = train_errors = RowErrors(skip=options.skip_bad_rows)
        if vocabularies is None:
            train_errors = RowErrors(skip=True)  # for later passes over the same rows
            vocabularies = PairVocabularies.build(
                options,
                sources=(row.source for row in split_rows(options, pairs, "train", errors)),
                targets=(row.target for row in split_rows(options, pairs, "train", train_errors)),
            )
        rows = split_rows(options, pairs, "train", train_errors)
        splits: dict[str, EvalSplit] = {}
        for split in ("validation", "test"):
            source = pairs
            found = split_rows(options, pairs, split, RowErrors(skip=True))
            if file := getattr(options, f"{split}_file"):
                source = pair_source(options, file, default_format=default_format)
                found = source.rows(errors=errors)
            encoded = encode_rows(found, vocabularies, options, source.path, errors)
            examples = ((row.source, row.target) for row, _, _ in encoded)
            splits[split] = EvalSplit.of(examples, group=group, lowercase=options.lowercase)
        leakage = Leakage[PairRow](
            splits, lowercase=options.lowercase != "no", text_of=lambda row: row.source
        )
        encoded = encode_rows(leakage.watch(rows), vocabularies, options, pairs.path, errors)
        train = TokenStore.build((source, target) for _, source, target in encoded)
        validate_train_split(train, options, units="rows", path=pairs.path)
        return cls(
            vocabularies=vocabularies,
            train=train,
            **splits,
            leakage=leakage.counts(),
            errors=errors,
        )

    def describe(self) -> str:
        """Sizes and leakage in one line."""
        return (
            f"{len(self.train):,} training pairs, {len(self.validation):,} validation pairs, "
            f"{len(self.test):,} test pairs; vocabulary sizes {self.vocabularies.source.size:,} and "
            f"{self.vocabularies.target.size:,}" + leakage_summary(self.leakage, "sources")
        )

    def facts(self) -> dict[str, Any]:
        """Sizes and fingerprints of the splits, for a run's record."""
        return {
            "train_pairs": len(self.train),
            "train_fingerprint": self.train.fingerprint(),
            **split_facts(self.validation, self.test),
            "leakage": self.leakage,
            "row_errors": self.errors.count,
        }


def pair_source(options: Any, text: str, *, default_format: str | None = None) -> PairSource:
    """The file or parallel files that an option names; `default_format` is for unknown extensions."""
    source = PairSource.from_text(
        text,
        format=options.format,
        source_column=options.source_column,
        target_column=options.target_column,
        header=options.header,
    )
    suffix = Path(source.path.name.lower().removesuffix(".gz")).suffix
    if source.format is None and source.target_path is None and suffix not in EXTENSIONS:
        return replace(source, format=default_format)
    return source


def split_rows(
    options: Seq2SeqOptions, pairs: PairRows, split: str, errors: RowErrors
) -> Iterator[PairRow]:
    """The rows of the training file that the hash of their source assigns to `split`."""
    validation, test = holdout_fractions(options)
    if not (validation or test):
        if split == "train":
            yield from pairs.rows(errors=errors)
        return
    for row in pairs.rows(errors=errors):
        source = dedup_key(row.source, lowercase=options.lowercase != "no")
        if split_of(source, validation=validation, test=test) == split:
            yield row


def encode_rows(
    rows: Iterator[PairRow],
    vocabularies: PairVocabularies,
    options: Seq2SeqOptions,
    path: Path,
    errors: RowErrors,
) -> Iterator[tuple[PairRow, Sequence[int], Sequence[int]]]:
    """Rows with their source and target token ids; a row with a too long text is malformed."""
    while block := list(islice(rows, ENCODE_ROWS)):
        sources = vocabularies.source.encode_all(row.source for row in block)
        targets = vocabularies.target.encode_all(row.target for row in block)
        for row, source, target in zip(block, sources, targets, strict=True):
            longest = max(len(source), len(target))
            if longest > options.max_length:
                reason = f"too long: {longest} tokens, but task.max_length is {options.max_length}"
                errors.report(path=path, line=row.line, reason=reason)
            else:
                yield row, source, target
