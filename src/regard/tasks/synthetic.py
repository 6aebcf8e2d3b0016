"""What every task on drawn strings can be told: how many, of which lengths, drawn from what."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from regard.core.errors import RegardError
from regard.core.protocols import Decode
from regard.data.readers.formats import PairRow
from regard.data.readers.labelled import LabelledRow
from regard.data.readers.text_file import BadRows
from regard.data.splits import HeldOut, LearnedToo
from regard.data.synthetic import (
    Associations,
    Brackets,
    Copying,
    DrawnLabels,
    DrawnPairs,
    EvenAs,
    ListOperations,
    Parity,
    Rule,
    length_range,
)
from regard.tasks.classification.corpus import (
    FRAME,
    ClassifyCorpus,
    ClassifyOptions,
    held_out_cuts,
    held_out_texts,
    training_rows,
)
from regard.tasks.classification.labels import require_labels
from regard.tasks.classification.task import Classify
from regard.tasks.metrics.accuracy import right_labels
from regard.tasks.metrics.metric import SummedMetric, percentage
from regard.tasks.seq2seq.corpus import PairOptions, PairRows, PairVocabularies
from regard.tasks.seq2seq.task import PairTask
from regard.tasks.text_task import TextVocabularies, part_rows


@dataclass(frozen=True, kw_only=True)
class DrawnStrings:
    """Strings to develop on are held out by their hash, so of the lengths that are learned from.

    strings          how many are drawn to learn from and to develop on; the same may come twice
    shortest         the least length of these; `longest` the greatest
    test_strings     how many are drawn to test on: others, usually longer
    test_shortest    the least length of these; `test_longest` the greatest
    drawn_from       another number gives other strings; a run's seed changes none
    """

    strings: int = 4000
    shortest: int = 1
    longest: int = 16
    test_strings: int = 1000
    test_shortest: int = 17
    test_longest: int = 64
    drawn_from: int = 0

    def to_learn(self) -> dict[str, int]:
        """The words of `DrawnExamples` for what is learned from and developed on."""
        return {
            "shortest": self.shortest,
            "longest": self.longest,
            "count": self.strings,
            "seed": 2 * self.drawn_from,
        }

    def to_test(self, shortest: int | None = None, longest: int | None = None) -> dict[str, int]:
        """The words of `DrawnExamples` for the test part, or for one of these lengths."""
        return {
            "shortest": self.test_shortest if shortest is None else shortest,
            "longest": self.test_longest if longest is None else longest,
            "count": self.test_strings,
            # Odd, so that no part of any lengths is drawn as the one that is learned from.
            "seed": 2 * self.drawn_from + 1,
        }


def require_drawn(options: Any, files: Iterable[str]) -> None:
    """Refuse files and numbers that make no strings."""
    for name in files:
        if getattr(options, name) is not None:
            raise RegardError(
                f"task.{name}={getattr(options, name)!r}: the strings of this task are drawn, not read. "
                "Leave it away; to learn from a file, use the task 'classify' or 'translate'."
            )
    for name in ("strings", "test_strings", "shortest", "test_shortest"):
        if getattr(options, name) < 1:
            raise RegardError(f"task.{name}={getattr(options, name)}: it must be 1 or more.")
    for first, last in (("shortest", "longest"), ("test_shortest", "test_longest")):
        if getattr(options, first) > getattr(options, last):
            raise RegardError(
                f"task.{first}={getattr(options, first)} is more than "
                f"task.{last}={getattr(options, last)}. Swap them."
            )


def require_room(rule: Rule, options: Any, *, frame: int) -> None:
    """Refuse strings that would be cut off: what is cut may be what the answer depends on."""
    length = max(options.longest, options.test_longest)
    places = rule.tokens(length) + frame
    if places > options.max_length:
        raise RegardError(
            f"A string of length {length} takes {places} places, but task.max_length is "
            f"{options.max_length}. Raise it, or lower task.longest and task.test_longest."
        )


# A task on drawn strings that have a label: classification without any file.
#
# What is asked is a `Rule` of `data/strings`; training, loss and scores are those of `classify`.
# The test part has lengths of its own, and a run can be scored at any others:
# `load(RUN).score("80-100")`.


@dataclass(frozen=True, kw_only=True)
class DrawnLabelOptions(DrawnStrings, ClassifyOptions):
    """As `DrawnStrings` and, but for files, as `ClassifyOptions`."""

    tokens: str = "characters"
    lowercase: bool = False
    test_share: float = 0.0
    max_length: int = 512

    def __post_init__(self) -> None:
        super().__post_init__()
        require_drawn(self, ("labels", "validation", "test"))


class DrawnLabelTask(Classify):
    """A kind of task says by its options what the rule is."""

    options_class: ClassVar[type[DrawnLabelOptions]]

    @classmethod
    @abstractmethod
    def rule(cls, options: Any) -> Rule:
        """What is drawn."""

    @classmethod
    def from_options(
        cls,
        options: ClassifyOptions,
        *,
        seed: int,
        decode: Decode,
        vocabularies: TextVocabularies | None = None,
    ) -> Self:
        """Draw the strings that the options describe."""
        assert isinstance(options, DrawnLabelOptions)
        rule = cls.rule(options)
        require_room(rule, options, frame=FRAME)
        corpus = drawn_corpus(rule, options, vocabularies=vocabularies)
        return cls(corpus=corpus, options=options, seed=seed, decode=decode)

    @classmethod
    def held_out(
        cls, text: str, options: Any, *, vocabularies: Any = None, bad: BadRows
    ) -> HeldOut:
        """Strings of a length or of a range of lengths, such as "80-100"; else a labelled file."""
        lengths = length_range(text)
        if lengths is None:
            return super().held_out(text, options, vocabularies=vocabularies, bad=bad)
        drawn = DrawnLabels(rule=cls.rule(options), **options.to_test(*lengths))
        return held_out_texts(drawn.rows(bad=bad))


def drawn_corpus(
    rule: Rule, options: DrawnLabelOptions, *, vocabularies: TextVocabularies | None = None
) -> ClassifyCorpus:
    """The parts, as those of a file are; known `vocabularies` are used again."""
    bad = BadRows()
    drawn = DrawnLabels(rule=rule, **options.to_learn())
    rows = list(part_rows(drawn, options, "train", bad))
    if vocabularies is None:
        vocabularies = TextVocabularies.build(
            options, kind=options.tokens, texts=(row.text for row in rows)
        )
    if not vocabularies.labels:
        labels = tuple(sorted({row.label for row in rows}))
        vocabularies = TextVocabularies(text=vocabularies.text, labels=labels)
    require_labels(vocabularies.labels, drawn.path)
    longer = DrawnLabels(rule=rule, **options.to_test())
    held_out = {
        "validation": held_out_texts(part_rows(drawn, options, "validation", bad)),
        "test": held_out_texts(longer.rows(bad=bad)),
    }
    seen = LearnedToo[LabelledRow](
        held_out, lowercase=options.lowercase, text_of=lambda row: row.text
    )
    train, cut = training_rows(seen.watch(rows), options, vocabularies)
    return ClassifyCorpus(
        vocabularies=vocabularies,
        train=train,
        validation=held_out["validation"],
        test=held_out["test"],
        learned_too=seen.counts(),
        notice="",
        cuts={"train": cut} | held_out_cuts(held_out, vocabularies, options),
        max_length=options.max_length,
        bad=bad,
    )


# A task on drawn strings for which another string is to be written, without any file.
#
# An answer counts if it is right to the last symbol: exact match, in percent. The test part has
# lengths of its own, and a run can be scored at any others: `load(RUN).score("80-100")`.


@dataclass(frozen=True, kw_only=True)
class DrawnPairOptions(DrawnStrings, PairOptions):
    """As `DrawnStrings` and, but for files, as `PairOptions`."""

    source_tokens: str = "characters"
    target_tokens: str = "characters"
    shared_vocabulary: bool = True
    label_smoothing: float = 0.0
    beam_size: int = 1
    test_share: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_drawn(self, ("pairs", "validation", "test"))


class DrawnPairTask(PairTask):
    """A kind of task says by its options what the rule is."""

    options_class: ClassVar[type[DrawnPairOptions]]
    metrics: ClassVar[dict[str, bool]] = {"exact_match": False, "loss": True}
    summed: ClassVar[dict[str, SummedMetric]] = {
        "exact_match": SummedMetric(right_labels, percentage)
    }
    groups_answers = False

    @classmethod
    @abstractmethod
    def rule(cls, options: Any) -> Rule:
        """What is drawn."""

    @classmethod
    def from_options(
        cls,
        options: PairOptions,
        *,
        seed: int,
        decode: Decode,
        vocabularies: PairVocabularies | None = None,
    ) -> Self:
        """Draw the strings that the options describe."""
        assert isinstance(options, DrawnPairOptions)
        rule = cls.rule(options)
        require_room(rule, options, frame=0)
        task = super().from_options(options, seed=seed, decode=decode, vocabularies=vocabularies)
        longer = DrawnPairs(rule=rule, **options.to_test())
        corpus = replace(task.corpus, test=_held_out(longer.rows(bad=BadRows())))
        return cls(corpus=corpus, options=options, seed=seed, decode=decode)

    @classmethod
    def training_pairs(cls, options: PairOptions) -> PairRows:
        assert isinstance(options, DrawnPairOptions)
        return DrawnPairs(rule=cls.rule(options), **options.to_learn())

    @classmethod
    def held_out(
        cls, text: str, options: Any, *, vocabularies: Any = None, bad: BadRows
    ) -> HeldOut:
        """Strings of a length or of a range of lengths, such as "80-100"; else a file of pairs."""
        lengths = length_range(text)
        if lengths is None:
            return super().held_out(text, options, vocabularies=vocabularies, bad=bad)
        drawn = DrawnPairs(rule=cls.rule(options), **options.to_test(*lengths))
        return _held_out(drawn.rows(bad=bad))

    @classmethod
    def scores(cls, predicted: Sequence[str], answers: Sequence[Sequence[str]]) -> dict[str, float]:
        """The share of exact matches."""
        right = [hit for hit, _ in right_labels(predicted, answers)]
        return {"exact_match": 100.0 * sum(right) / max(1, len(right))}


def _held_out(rows: Any) -> HeldOut:
    pairs: list[PairRow] = list(rows)
    return HeldOut.of(((row.source, row.target) for row in pairs), group=False)


# PARITY: is the number of ones in a string of bits odd?
#
# 0 1 1 0 1   →  odd
#
# Trained on short strings and tested on longer ones: a recurrent layer carries on with what it has
# learned, a Transformer of fixed size does not (Hahn 2020; Bhattamishra et al. 2020).


@dataclass(frozen=True, kw_only=True)
class ParityOptions(DrawnLabelOptions):
    """As `DrawnLabelOptions`: a length is a number of bits."""


class ParityTask(DrawnLabelTask):
    """The rule has no options."""

    options_class = ParityOptions

    @classmethod
    def rule(cls, options: Any) -> Rule:
        """Bits."""
        del options
        return Parity()


# (aa)*: an even number of a's, and nothing else.
#
# a a a a   →  yes a a a     →  no
#
# Of each length there is one string of a's only, so that the lengths of some are held out to
# develop on.


@dataclass(frozen=True, kw_only=True)
class EvenAsOptions(DrawnLabelOptions):
    """As `DrawnLabelOptions`: a length is a number of symbols. And:

    b_share     how many of the strings have a b among the a's
    """

    b_share: float = 0.2
    longest: int = 40
    test_shortest: int = 41
    test_longest: int = 160
    validation_share: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.b_share < 1:
            raise RegardError(f"task.b_share={self.b_share}: it must be from 0 to below 1.")


class EvenAsTask(DrawnLabelTask):
    """Whether a string is in the language."""

    options_class = EvenAsOptions

    @classmethod
    def rule(cls, options: Any) -> Rule:
        """a's, and some b's."""
        return EvenAs(b_share=options.b_share)


# Copying: a string to itself, or to itself backwards.
#
# copy       cab  →  cab reverse    cab  →  bac
#
# What is easy for attention and hard for a memory of fixed size; how far it reaches beyond the
# lengths it was learned at is another question (Jelassi et al. 2024).


@dataclass(frozen=True, kw_only=True)
class CopyOptions(DrawnPairOptions):
    """As `DrawnPairOptions`: a length is a number of letters. And:

    symbols     how many letters there are
    """

    symbols: int = 8
    test_longest: int = 32


class Copy(DrawnPairTask):
    """A string to itself."""

    options_class = CopyOptions

    @classmethod
    def rule(cls, options: Any) -> Rule:
        """Letters."""
        return Copying(symbols=options.symbols)


class Reverse(DrawnPairTask):
    """A string to itself backwards."""

    options_class = CopyOptions

    @classmethod
    def rule(cls, options: Any) -> Rule:
        """Letters, which are to be turned round."""
        return Copying(symbols=options.symbols, backwards=True)


# Associative recall: keys with a value each, then one of the keys again: what was its value?
#
# k4 v1 k0 v7 k9 v1 ? k0   →  v7
#
# The answer is one token, so that it is classified. How many pairs a model can keep is what is
# measured.


@dataclass(frozen=True, kw_only=True)
class AssociateOptions(DrawnLabelOptions):
    """As `DrawnLabelOptions`: a length is a number of pairs. And:

    keys       how many there are; no more pairs fit into a string
    values     how many there are
    """

    keys: int = 64
    values: int = 16
    tokens: str = "words"
    strings: int = 20000
    longest: int = 16
    test_shortest: int = 17
    test_longest: int = 64


class AssociateTask(DrawnLabelTask):
    """The value of a key."""

    options_class = AssociateOptions

    @classmethod
    def rule(cls, options: Any) -> Rule:
        """Pairs of a key and a value."""
        return Associations(keys=options.keys, values=options.values)


# Nested brackets: is every bracket closed by one of its kind, in order?
#
# ( [ ] )   →  yes ( [ ) ]   →  no
#
# Hierarchy in its smallest form: how deep and how long the strings are can be set apart.


@dataclass(frozen=True, kw_only=True)
class BracketsOptions(DrawnLabelOptions):
    """As `DrawnLabelOptions`: a length is a number of brackets, and even. And:

    kinds     of brackets, 1 to 4
    depth     how many are open at once in a balanced string, at most
    """

    kinds: int = 2
    depth: int = 4
    shortest: int = 2
    longest: int = 20
    test_shortest: int = 22
    test_longest: int = 80


class BracketsTask(DrawnLabelTask):
    """Whether a string is balanced."""

    options_class = BracketsOptions

    @classmethod
    def rule(cls, options: Any) -> Rule:
        """Balanced strings, and spoilt ones."""
        return Brackets(kinds=options.kinds, depth=options.depth)


# Operations on nested lists of digits (ListOps): the value is a digit.
#
# [MAX 2 9 [MIN 4 7 ] 0 ]   →  9
#
# What is inside must be worked out before what is outside (Nangia and Bowman 2018; Tay et al.
# 2021).


@dataclass(frozen=True, kw_only=True)
class ListOpsOptions(DrawnLabelOptions):
    """As `DrawnLabelOptions`: a length is a number of tokens. And:

    depth     how many lists may be open at once
    """

    depth: int = 3
    tokens: str = "words"
    strings: int = 20000
    shortest: int = 3
    longest: int = 30
    test_shortest: int = 31
    test_longest: int = 100


class ListOpsTask(DrawnLabelTask):
    """The digit that an expression is worth."""

    options_class = ListOpsOptions

    @classmethod
    def rule(cls, options: Any) -> Rule:
        """Lists of digits and lists."""
        return ListOperations(depth=options.depth)
