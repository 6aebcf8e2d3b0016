"""Synthetic tasks: generated strings to classify or to transform, for length generalisation.

    parity               0 1 1 0 1                 →  odd
    aa_star              a a a a                   →  yes
    brackets             ( [ ] )                   →  yes
    listops              [MAX 2 9 [MIN 4 7 ] 0 ]   →  9
    associative_recall   k4 v1 k0 v7 ? k0          →  v7
    copy, reverse        cab                       →  cab, bac

A Transformer of fixed size fails on parity of longer strings, an RNN does not (Hahn 2020). Copying is hard
for a state of fixed size (Jelassi et al. 2024). ListOps: Nangia and Bowman 2018.

The generators are in `data/synthetic.py`. Training and validation strings have the same lengths; test
strings are longer by default. A run can be evaluated at other lengths: `load(RUN).score("80-100")`. The
metric of copy and reverse is exact match, in percent.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from regard.core.errors import RegardError
from regard.core.protocols import Decode
from regard.data.readers.formats import PairRow
from regard.data.readers.labelled import LabelledRow
from regard.data.readers.text_file import RowErrors
from regard.data.splits import EvalSplit, Leakage
from regard.data.synthetic import (
    AAStar,
    Associations,
    Brackets,
    Copying,
    ExampleGenerator,
    ListOperations,
    Parity,
    SyntheticLabels,
    SyntheticPairs,
    length_range,
)
from regard.tasks.classification.corpus import (
    NUM_BOUNDARY_TOKENS,
    ClassifyCorpus,
    ClassifyOptions,
    encode_labelled,
    labelled_split,
    split_truncation,
)
from regard.tasks.classification.labels import validate_labels
from regard.tasks.classification.task import Classify
from regard.tasks.metrics.accuracy import exact_match, exact_matches
from regard.tasks.metrics.metric import CorpusMetric, percentage
from regard.tasks.seq2seq.corpus import PairRows, PairVocabularies, Seq2SeqOptions
from regard.tasks.seq2seq.task import Seq2SeqTask
from regard.tasks.text_task import TextVocabularies, split_rows


@dataclass(frozen=True, kw_only=True)
class SyntheticOptions:
    """Options of every synthetic task. The validation split is held out by hash, at training lengths.

    Args:
        num_examples: Number of training and validation examples; duplicates may occur.
        shortest, longest: Their lengths.
        num_test_examples: Number of test examples.
        test_shortest, test_longest: Their lengths.
        data_seed: Seed of the data; the seed of a run does not change it.
    """

    num_examples: int = 4000
    shortest: int = 1
    longest: int = 16
    num_test_examples: int = 1000
    test_shortest: int = 17
    test_longest: int = 64
    data_seed: int = 0

    def train_kwargs(self) -> dict[str, int]:
        """Keyword arguments of `SyntheticExamples` for training and validation."""
        return {
            "shortest": self.shortest,
            "longest": self.longest,
            "count": self.num_examples,
            "seed": 2 * self.data_seed,
        }

    def test_kwargs(
        self, shortest: int | None = None, longest: int | None = None
    ) -> dict[str, int]:
        """Keyword arguments of `SyntheticExamples` for the test split, or for other lengths."""
        return {
            "shortest": self.test_shortest if shortest is None else shortest,
            "longest": self.test_longest if longest is None else longest,
            "count": self.num_test_examples,
            "seed": 2 * self.data_seed + 1,  # odd, so that no split repeats the training data
        }

    def validate(self) -> None:
        """Raise on data files and impossible numbers."""
        for name in ("train_file", "validation_file", "test_file"):
            if getattr(self, name) is not None:
                raise RegardError(
                    f"task.{name}={getattr(self, name)!r}: a synthetic task generates its data. Remove "
                    "it; to train on a file, use the task 'classify' or 'translate'."
                )
        for name in ("num_examples", "num_test_examples", "shortest", "test_shortest"):
            if getattr(self, name) < 1:
                raise RegardError(f"task.{name}={getattr(self, name)}: it must be 1 or more.")
        for first, last in (("shortest", "longest"), ("test_shortest", "test_longest")):
            if getattr(self, first) > getattr(self, last):
                raise RegardError(
                    f"task.{first}={getattr(self, first)} is more than "
                    f"task.{last}={getattr(self, last)}. Swap them."
                )


def validate_max_length(generator: ExampleGenerator, options: Any, *, boundary_tokens: int) -> None:
    """Raise if strings would be truncated, since the target may depend on the removed tokens."""
    length = max(options.longest, options.test_longest)
    tokens = generator.num_tokens(length) + boundary_tokens
    if tokens > options.max_length:
        raise RegardError(
            f"A string of length {length} has {tokens} tokens, but task.max_length is "
            f"{options.max_length}. Raise it, or lower task.longest and task.test_longest."
        )


@dataclass(frozen=True, kw_only=True)
class SyntheticLabelOptions(SyntheticOptions, ClassifyOptions):
    """As `SyntheticOptions` and, except for files, as `ClassifyOptions`."""

    tokens: str = "characters"
    lowercase: bool = False
    test_fraction: float = 0.0
    max_length: int = 512

    def __post_init__(self) -> None:
        super().__post_init__()
        self.validate()


class SyntheticClassification(Classify):
    """Classification of generated strings; a subclass names the generator."""

    options_class: ClassVar[type[SyntheticLabelOptions]]

    @classmethod
    @abstractmethod
    def generator(cls, options: Any) -> ExampleGenerator:
        """The generator of the examples."""

    @classmethod
    def from_options(
        cls,
        options: ClassifyOptions,
        *,
        seed: int,
        decode: Decode,
        vocabularies: TextVocabularies | None = None,
    ) -> Self:
        """Generate the data."""
        assert isinstance(options, SyntheticLabelOptions)
        generator = cls.generator(options)
        validate_max_length(generator, options, boundary_tokens=NUM_BOUNDARY_TOKENS)
        corpus = synthetic_corpus(generator, options, vocabularies=vocabularies)
        return cls(corpus=corpus, options=options, seed=seed, decode=decode)

    @classmethod
    def read_split(
        cls, file: str, options: Any, *, vocabularies: Any = None, errors: RowErrors
    ) -> EvalSplit:
        """Examples of a length or range of lengths, such as "80-100"; else a labelled file."""
        lengths = length_range(file)
        if lengths is None:
            return super().read_split(file, options, vocabularies=vocabularies, errors=errors)
        examples = SyntheticLabels(
            generator=cls.generator(options), **options.test_kwargs(*lengths)
        )
        return labelled_split(examples.rows(errors=errors))


def synthetic_corpus(
    generator: ExampleGenerator,
    options: SyntheticLabelOptions,
    *,
    vocabularies: TextVocabularies | None = None,
) -> ClassifyCorpus:
    """Data splits and vocabularies; given `vocabularies` are reused."""
    errors = RowErrors()
    examples = SyntheticLabels(generator=generator, **options.train_kwargs())
    rows = list(split_rows(examples, options, "train", errors))
    if vocabularies is None:
        vocabularies = TextVocabularies.build(
            options, kind=options.tokens, texts=(row.text for row in rows)
        )
    if not vocabularies.labels:
        labels = tuple(sorted({row.label for row in rows}))
        vocabularies = TextVocabularies(text=vocabularies.text, labels=labels)
    validate_labels(vocabularies.labels, examples.path)
    test = SyntheticLabels(generator=generator, **options.test_kwargs())
    splits = {
        "validation": labelled_split(split_rows(examples, options, "validation", errors)),
        "test": labelled_split(test.rows(errors=errors)),
    }
    leakage = Leakage[LabelledRow](
        splits, lowercase=options.lowercase, text_of=lambda row: row.text
    )
    train, truncation = encode_labelled(leakage.watch(rows), options, vocabularies)
    return ClassifyCorpus(
        vocabularies=vocabularies,
        train=train,
        validation=splits["validation"],
        test=splits["test"],
        leakage=leakage.counts(),
        notice="",
        truncation={"train": truncation} | split_truncation(splits, vocabularies, options),
        max_length=options.max_length,
        errors=errors,
    )


@dataclass(frozen=True, kw_only=True)
class SyntheticPairOptions(SyntheticOptions, Seq2SeqOptions):
    """As `SyntheticOptions` and, except for files, as `Seq2SeqOptions`."""

    source_tokens: str = "characters"
    target_tokens: str = "characters"
    shared_vocabulary: bool = True
    label_smoothing: float = 0.0
    beam_size: int = 1
    test_fraction: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.validate()


class SyntheticSeq2Seq(Seq2SeqTask):
    """A transformation of generated strings; a subclass names the generator."""

    options_class: ClassVar[type[SyntheticPairOptions]]
    metrics: ClassVar[dict[str, bool]] = {"exact_match": False, "loss": True}
    corpus_metrics: ClassVar[dict[str, CorpusMetric]] = {
        "exact_match": CorpusMetric(exact_matches, percentage)
    }
    groups_references = False

    @classmethod
    @abstractmethod
    def generator(cls, options: Any) -> ExampleGenerator:
        """The generator of the examples."""

    @classmethod
    def from_options(
        cls,
        options: Seq2SeqOptions,
        *,
        seed: int,
        decode: Decode,
        vocabularies: PairVocabularies | None = None,
    ) -> Self:
        """Generate the data."""
        assert isinstance(options, SyntheticPairOptions)
        generator = cls.generator(options)
        validate_max_length(generator, options, boundary_tokens=0)
        task = super().from_options(options, seed=seed, decode=decode, vocabularies=vocabularies)
        test = SyntheticPairs(generator=generator, **options.test_kwargs())
        corpus = replace(task.corpus, test=_pair_split(test.rows(errors=RowErrors())))
        return cls(corpus=corpus, options=options, seed=seed, decode=decode)

    @classmethod
    def train_source(cls, options: Seq2SeqOptions) -> PairRows:
        assert isinstance(options, SyntheticPairOptions)
        return SyntheticPairs(generator=cls.generator(options), **options.train_kwargs())

    @classmethod
    def read_split(
        cls, file: str, options: Any, *, vocabularies: Any = None, errors: RowErrors
    ) -> EvalSplit:
        """Examples of a length or range of lengths, such as "80-100"; else a file of pairs."""
        lengths = length_range(file)
        if lengths is None:
            return super().read_split(file, options, vocabularies=vocabularies, errors=errors)
        examples = SyntheticPairs(generator=cls.generator(options), **options.test_kwargs(*lengths))
        return _pair_split(examples.rows(errors=errors))

    @classmethod
    def scores(
        cls, predictions: Sequence[str], references: Sequence[Sequence[str]]
    ) -> dict[str, float]:
        """Exact match in percent."""
        return {"exact_match": exact_match(predictions, references)}


def _pair_split(rows: Iterator[PairRow]) -> EvalSplit:
    return EvalSplit.of(((row.source, row.target) for row in rows), group=False)


@dataclass(frozen=True, kw_only=True)
class ParityOptions(SyntheticLabelOptions):
    """As `SyntheticLabelOptions`; lengths are in bits."""


class ParityTask(SyntheticClassification):
    """Whether the number of ones is even or odd."""

    options_class = ParityOptions

    @classmethod
    def generator(cls, options: Any) -> ExampleGenerator:
        del options
        return Parity()


@dataclass(frozen=True, kw_only=True)
class AAStarOptions(SyntheticLabelOptions):
    """As `SyntheticLabelOptions`; lengths are in symbols. `b_fraction` of the strings contain b's."""

    b_fraction: float = 0.2
    longest: int = 40
    test_shortest: int = 41
    test_longest: int = 160
    validation_fraction: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.b_fraction < 1:
            raise RegardError(f"task.b_fraction={self.b_fraction}: it must be from 0 to below 1.")


class AAStarTask(SyntheticClassification):
    """Whether a string is in the language (aa)*."""

    options_class = AAStarOptions

    @classmethod
    def generator(cls, options: Any) -> ExampleGenerator:
        return AAStar(b_fraction=options.b_fraction)


@dataclass(frozen=True, kw_only=True)
class CopyOptions(SyntheticPairOptions):
    """As `SyntheticPairOptions`; lengths are in letters, `symbols` is the alphabet size."""

    symbols: int = 8
    test_longest: int = 32


class Copy(SyntheticSeq2Seq):
    """Copy the input."""

    options_class = CopyOptions

    @classmethod
    def generator(cls, options: Any) -> ExampleGenerator:
        return Copying(symbols=options.symbols)


class Reverse(SyntheticSeq2Seq):
    """Reverse the input."""

    options_class = CopyOptions

    @classmethod
    def generator(cls, options: Any) -> ExampleGenerator:
        return Copying(symbols=options.symbols, backwards=True)


@dataclass(frozen=True, kw_only=True)
class AssociativeRecallOptions(SyntheticLabelOptions):
    """As `SyntheticLabelOptions`; lengths are in key–value pairs, at most `keys`."""

    keys: int = 64
    values: int = 16
    tokens: str = "words"
    num_examples: int = 20000
    longest: int = 16
    test_shortest: int = 17
    test_longest: int = 64


class AssociativeRecallTask(SyntheticClassification):
    """The value of the queried key."""

    options_class = AssociativeRecallOptions

    @classmethod
    def generator(cls, options: Any) -> ExampleGenerator:
        return Associations(keys=options.keys, values=options.values)


@dataclass(frozen=True, kw_only=True)
class BracketsOptions(SyntheticLabelOptions):
    """As `SyntheticLabelOptions`; lengths are in brackets, and even.

    `kinds` is the number of bracket types, 1 to 4, and `depth` the maximum nesting depth.
    """

    kinds: int = 2
    depth: int = 4
    shortest: int = 2
    longest: int = 20
    test_shortest: int = 22
    test_longest: int = 80


class BracketsTask(SyntheticClassification):
    """Whether a string is balanced."""

    options_class = BracketsOptions

    @classmethod
    def generator(cls, options: Any) -> ExampleGenerator:
        return Brackets(kinds=options.kinds, depth=options.depth)


@dataclass(frozen=True, kw_only=True)
class ListOpsOptions(SyntheticLabelOptions):
    """As `SyntheticLabelOptions`; lengths are in tokens, `depth` is the maximum nesting depth."""

    depth: int = 3
    tokens: str = "words"
    num_examples: int = 20000
    shortest: int = 3
    longest: int = 30
    test_shortest: int = 31
    test_longest: int = 100


class ListOpsTask(SyntheticClassification):
    """The value of an expression, a digit."""

    options_class = ListOpsOptions

    @classmethod
    def generator(cls, options: Any) -> ExampleGenerator:
        return ListOperations(depth=options.depth)
