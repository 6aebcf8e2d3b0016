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
from functools import partial
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, model_validator

from regard.core.errors import RegardError
from regard.core.options import Options, PositiveInt, Probability
from regard.core.registry import known_options
from regard.data.item_preprocessor import NUM_BOUNDARY_TOKENS, ItemPreprocessor
from regard.data.readers.text_file import Reader
from regard.data.splits import Split
from regard.data.synthetic import (
    AAStar,
    Associations,
    Brackets,
    Copying,
    ExampleGenerator,
    ListOperations,
    Parity,
    SyntheticExamples,
    length_range,
)
from regard.tasks.classification.task import Classification, ClassifyOptions
from regard.tasks.metrics import ExactMatch, Loss
from regard.tasks.sequence import SequenceOptions, SequenceTask, Tokenizer
from regard.tasks.task import Task


class SyntheticOptions(Options):
    """Options of every synthetic task. The validation split is held out by hash, at training lengths.

    Args:
        num_examples: Number of training and validation examples; duplicates may occur.
        shortest, longest: Their lengths.
        num_test_examples: Number of test examples.
        test_shortest, test_longest: Their lengths.
        data_seed: Seed of the data; the seed of a run does not change it.
    """

    num_examples: PositiveInt = 4000
    shortest: PositiveInt = 1
    longest: int = 16
    num_test_examples: PositiveInt = 1000
    test_shortest: PositiveInt = 17
    test_longest: int = 64
    data_seed: int = 0

    @model_validator(mode="after")
    def _validate_lengths(self) -> Self:
        for name in ("train_file", "validation_file", "test_file"):
            if getattr(self, name, None) is not None:
                raise RegardError(
                    f"task.{name}={getattr(self, name)!r}: a synthetic task generates its data. Remove "
                    "it; to train on a file, use the task 'classify' or 'translate'."
                )
        for first, last in (("shortest", "longest"), ("test_shortest", "test_longest")):
            if getattr(self, first) > getattr(self, last):
                raise RegardError(
                    f"task.{first}={getattr(self, first)} is more than "
                    f"task.{last}={getattr(self, last)}. Swap them."
                )
        return self


class SyntheticLabelOptions(SyntheticOptions, ClassifyOptions):
    """As `SyntheticOptions` and, except for files, as `ClassifyOptions`."""

    tokens: Tokenizer = "characters"
    lowercase: bool = False
    test_fraction: Probability = 0.0
    max_length: Annotated[int, Field(ge=8)] = 512


class SyntheticPairOptions(SyntheticOptions, SequenceOptions):
    """As `SyntheticOptions` and, except for files, as `SequenceOptions`."""

    source_tokens: Tokenizer = "characters"
    target_tokens: Tokenizer = "characters"
    shared_vocabulary: bool = True
    label_smoothing: Probability = 0.0
    beam_size: PositiveInt = 1
    test_fraction: Probability = 0.0


class SyntheticTask(Task):
    """A task on generated strings; a subclass names the generator, whose options are the task's."""

    generator_class: ClassVar[Callable[..., ExampleGenerator]]
    num_boundary_tokens: ClassVar[int] = 0

    @classmethod
    def generator(cls, options: Any) -> ExampleGenerator:
        """The generator of the examples."""
        names = [name for name in known_options(cls.generator_class) if hasattr(options, name)]
        return cls.generator_class(**{name: getattr(options, name) for name in names})

    @classmethod
    def readers(cls, options: Any) -> dict[Split, Reader]:
        """Training and validation examples, and test examples; raises if strings would be truncated.

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
        train = SyntheticExamples(
            generator=generator,
            shortest=options.shortest,
            longest=options.longest,
            count=options.num_examples,
            seed=2 * options.data_seed,
        )
        test = cls.test_examples(options, options.test_shortest, options.test_longest)
        return {"train": train, "test": test}

    @classmethod
    def test_examples(cls, options: Any, shortest: int, longest: int) -> SyntheticExamples:
        """Test examples of these lengths."""
        return SyntheticExamples(
            generator=cls.generator(options),
            shortest=shortest,
            longest=longest,
            count=options.num_test_examples,
            seed=2 * options.data_seed + 1,  # odd, so that no split repeats the training data
        )

    @classmethod
    def reader(cls, options: Any, file: str | None) -> Reader:
        """Examples of a length or range of lengths, such as "80-100"; else a file."""
        if lengths := length_range(file or ""):
            return cls.test_examples(options, *lengths)
        return super().reader(options, file)


class SyntheticPreprocessor(ItemPreprocessor):
    """Longer strings may have labels that occur in no training string; they count as errors."""

    rejects_unseen_labels = False


class SyntheticClassification(SyntheticTask, Classification):
    """Classification of generated strings."""

    options_class = SyntheticLabelOptions
    preprocessor_class = SyntheticPreprocessor
    num_boundary_tokens = NUM_BOUNDARY_TOKENS
    file_target = "label"


class SyntheticSequence(SyntheticTask, SequenceTask):
    """A transformation of generated strings."""

    options_class: ClassVar[type[Any]] = SyntheticPairOptions
    metrics = (ExactMatch(), Loss())


class ParityTask(SyntheticClassification):
    """Whether the number of ones is even or odd; lengths are in bits."""

    generator_class = Parity


class AAStarOptions(SyntheticLabelOptions):
    """As `SyntheticLabelOptions`; lengths are in symbols.

    Args:
        b_fraction: Fraction of the strings that contain b's.
    """

    b_fraction: Probability = 0.2
    longest: int = 40
    test_shortest: PositiveInt = 41
    test_longest: int = 160
    validation_fraction: Probability = 0.2


class AAStarTask(SyntheticClassification):
    """Whether a string is in the language (aa)*."""

    options_class = AAStarOptions
    generator_class = AAStar


class CopyOptions(SyntheticPairOptions):
    """As `SyntheticPairOptions`; lengths are in letters.

    Args:
        symbols: Size of the alphabet.
    """

    symbols: int = 8
    test_longest: int = 32


class Copy(SyntheticSequence):
    """Copy the input."""

    options_class = CopyOptions
    generator_class = Copying


class Reverse(SyntheticSequence):
    """Reverse the input."""

    options_class = CopyOptions
    generator_class = partial(Copying, backwards=True)


class AssociativeRecallOptions(SyntheticLabelOptions):
    """As `SyntheticLabelOptions`; lengths are in key–value pairs, at most `keys`.

    Args:
        keys: Number of different keys.
        values: Number of different values.
    """

    keys: int = 64
    values: int = 16
    tokens: Tokenizer = "words"
    num_examples: PositiveInt = 20000


class AssociativeRecallTask(SyntheticClassification):
    """The value of the queried key."""

    options_class = AssociativeRecallOptions
    generator_class = Associations


class BracketsOptions(SyntheticLabelOptions):
    """As `SyntheticLabelOptions`; lengths are in brackets, and even.

    Args:
        kinds: Number of bracket types, 1 to 4.
        depth: Maximum nesting depth.
    """

    kinds: int = 2
    depth: int = 4
    shortest: PositiveInt = 2
    longest: int = 20
    test_shortest: PositiveInt = 22
    test_longest: int = 80


class BracketsTask(SyntheticClassification):
    """Whether a string is balanced."""

    options_class = BracketsOptions
    generator_class = Brackets


class ListOpsOptions(SyntheticLabelOptions):
    """As `SyntheticLabelOptions`; lengths are in tokens.

    Args:
        depth: Maximum nesting depth.
    """

    depth: int = 3
    tokens: Tokenizer = "words"
    num_examples: PositiveInt = 20000
    shortest: PositiveInt = 3
    longest: int = 30
    test_shortest: PositiveInt = 31
    test_longest: int = 100


class ListOpsTask(SyntheticClassification):
    """The value of an expression, a digit."""

    options_class = ListOpsOptions
    generator_class = ListOperations
