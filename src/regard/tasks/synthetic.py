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

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

from regard.core.errors import RegardError
from regard.core.registry import known_options
from regard.data.readers.text_file import RowErrors
from regard.data.splits import EvalSplit
from regard.data.synthetic import (
    AAStar,
    Associations,
    Brackets,
    Copying,
    ExampleGenerator,
    ListOperations,
    Parity,
    SyntheticExamples,
    SyntheticLabels,
    SyntheticPairs,
    length_range,
)
from regard.tasks.classification.corpus import (
    NUM_BOUNDARY_TOKENS,
    ClassifyCorpus,
    ClassifyOptions,
    labelled_split,
)
from regard.tasks.classification.labels import validate_labels
from regard.tasks.classification.task import Classify
from regard.tasks.seq2seq.corpus import PairVocabularies, Seq2SeqCorpus, Seq2SeqOptions
from regard.tasks.seq2seq.task import ExactMatchTask
from regard.tasks.task import Task, validate_positive, validate_proper_fractions
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

    def validate(self) -> None:
        """Raise on data files and impossible numbers."""
        for name in ("train_file", "validation_file", "test_file"):
            if getattr(self, name) is not None:
                raise RegardError(
                    f"task.{name}={getattr(self, name)!r}: a synthetic task generates its data. Remove "
                    "it; to train on a file, use the task 'classify' or 'translate'."
                )
        validate_positive(self, "num_examples", "num_test_examples", "shortest", "test_shortest")
        for first, last in (("shortest", "longest"), ("test_shortest", "test_longest")):
            if getattr(self, first) > getattr(self, last):
                raise RegardError(
                    f"task.{first}={getattr(self, first)} is more than "
                    f"task.{last}={getattr(self, last)}. Swap them."
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


class SyntheticTask(Task):
    """A task on generated strings; a subclass names the generator, whose options are the task's."""

    generator_class: ClassVar[Callable[..., ExampleGenerator]]
    examples_class: ClassVar[type[SyntheticExamples]]
    num_boundary_tokens: ClassVar[int] = 0

    @classmethod
    def generator(cls, options: Any) -> ExampleGenerator:
        """The generator of the examples."""
        names = [name for name in known_options(cls.generator_class) if hasattr(options, name)]
        return cls.generator_class(**{name: getattr(options, name) for name in names})

    @classmethod
    def train_source(cls, options: Any) -> Any:
        """Training and validation examples; raises if strings would be truncated.

        The target may depend on the removed tokens.
        """
        generator = cls.generator(options)
        length = max(options.longest, options.test_longest)
        tokens = generator.num_tokens(length) + cls.num_boundary_tokens
        if tokens > options.max_length:
            raise RegardError(
                f"A string of length {length} has {tokens} tokens, but task.max_length is "
                f"{options.max_length}. Raise it, or lower task.longest and task.test_longest."
            )
        return cls.examples_class(
            generator=generator,
            shortest=options.shortest,
            longest=options.longest,
            count=options.num_examples,
            seed=2 * options.data_seed,
        )

    @classmethod
    def test_split(cls, options: Any, shortest: int, longest: int) -> EvalSplit:
        """Test examples of these lengths."""
        examples = SyntheticExamples(
            generator=cls.generator(options),
            shortest=shortest,
            longest=longest,
            count=options.num_test_examples,
            seed=2 * options.data_seed + 1,  # odd, so that no split repeats the training data
        )
        return EvalSplit.of(examples.examples(), group=False)

    @classmethod
    def read_split(
        cls, file: str, options: Any, *, vocabularies: Any = None, errors: RowErrors
    ) -> EvalSplit:
        """Examples of a length or range of lengths, such as "80-100"; else a file."""
        if lengths := length_range(file):
            return cls.test_split(options, *lengths)
        return super().read_split(file, options, vocabularies=vocabularies, errors=errors)


class SyntheticClassification(SyntheticTask, Classify):
    """Classification of generated strings."""

    options_class = SyntheticLabelOptions
    examples_class = SyntheticLabels
    num_boundary_tokens = NUM_BOUNDARY_TOKENS

    @classmethod
    def read_corpus(
        cls, options: ClassifyOptions, vocabularies: TextVocabularies | None
    ) -> ClassifyCorpus:
        """Generate the data."""
        assert isinstance(options, SyntheticLabelOptions)
        errors = RowErrors()
        examples = cls.train_source(options)
        rows = list(split_rows(examples, options, "train", errors))
        if vocabularies is None:
            vocabularies = TextVocabularies.build(
                options, kind=options.tokens, texts=(row.text for row in rows)
            )
        if not vocabularies.labels:
            labels = tuple(sorted({row.label for row in rows}))
            vocabularies = replace(vocabularies, labels=labels)
        validate_labels(vocabularies.labels, examples.path)
        splits = {
            "validation": labelled_split(split_rows(examples, options, "validation", errors)),
            "test": cls.test_split(options, options.test_shortest, options.test_longest),
        }
        return ClassifyCorpus.encode(rows, splits, options, vocabularies, errors=errors)


class SyntheticSeq2Seq(SyntheticTask, ExactMatchTask):
    """A transformation of generated strings."""

    options_class: ClassVar[type[SyntheticPairOptions]]
    examples_class = SyntheticPairs
    groups_references = False

    @classmethod
    def read_corpus(
        cls, options: Seq2SeqOptions, vocabularies: PairVocabularies | None
    ) -> Seq2SeqCorpus:
        """Generate the data."""
        assert isinstance(options, SyntheticPairOptions)
        corpus = super().read_corpus(options, vocabularies)
        test = cls.test_split(options, options.test_shortest, options.test_longest)
        return replace(corpus, test=test)


class ParityTask(SyntheticClassification):
    """Whether the number of ones is even or odd; lengths are in bits."""

    generator_class = Parity


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
        validate_proper_fractions(self, "b_fraction")


class AAStarTask(SyntheticClassification):
    """Whether a string is in the language (aa)*."""

    options_class = AAStarOptions
    generator_class = AAStar


@dataclass(frozen=True, kw_only=True)
class CopyOptions(SyntheticPairOptions):
    """As `SyntheticPairOptions`; lengths are in letters, `symbols` is the alphabet size."""

    symbols: int = 8
    test_longest: int = 32


class Copy(SyntheticSeq2Seq):
    """Copy the input."""

    options_class = CopyOptions
    generator_class = Copying


class Reverse(SyntheticSeq2Seq):
    """Reverse the input."""

    options_class = CopyOptions
    generator_class = partial(Copying, backwards=True)


@dataclass(frozen=True, kw_only=True)
class AssociativeRecallOptions(SyntheticLabelOptions):
    """As `SyntheticLabelOptions`; lengths are in key–value pairs, at most `keys`."""

    keys: int = 64
    values: int = 16
    tokens: str = "words"
    num_examples: int = 20000


class AssociativeRecallTask(SyntheticClassification):
    """The value of the queried key."""

    options_class = AssociativeRecallOptions
    generator_class = Associations


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
    generator_class = Brackets


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
    generator_class = ListOperations
