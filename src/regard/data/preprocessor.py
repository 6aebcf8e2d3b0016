"""Preprocessors: fitted on the training rows, they encode inputs and targets for a model.

    pairs of texts        two vocabularies, or one         PairPreprocessor
    texts and labels      vocabulary, class ids            ItemPreprocessor
    texts and numbers     vocabulary, standardised         ItemPreprocessor
    frames and labels     standardised, class ids          ItemPreprocessor
    images and labels     standardised, class ids          ImagePreprocessor

A preprocessor is stored with a run: `as_json` has what was fitted, and the options of the task the rest.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from regard.core.batches import FrameSpec, ImageSpec, InputSpec, TokenSpec
from regard.core.errors import RegardError
from regard.core.records.image import ImageRecord
from regard.core.records.sound import SoundRecord
from regard.data.examples import Examples, Ragged
from regard.data.labels import Labels
from regard.data.readers.text_file import Row, RowErrors
from regard.data.splits import EvalSplit, array_key, dedup_key
from regard.data.tokenizers.vocabulary import Vocabulary, build_vocabulary, load_vocabulary
from regard.data.tokenizers.word_level import TAG_SEPARATOR, CharacterTagVocabulary

ENCODE_ROWS = 4096  # enough for the tokenizer to work in parallel
# Tokenizer → its keyword for the vocabulary size.
SIZE_KEYWORDS = {
    "subwords": "size",
    "wordpiece": "size",
    "words": "max_size",
    "word_punct": "max_size",
}

Rows = Callable[[], Iterator[Row]]
"""Reads the training rows again."""


@dataclass(frozen=True)
class Standardizer:
    """Standardises numbers, or each feature of vectors, to mean 0 and standard deviation 1.

    The features of images are their channels; `size` is their height and width.
    """

    mean: tuple[float, ...]
    scale: tuple[float, ...]
    size: tuple[int, int] | None = None

    @classmethod
    def fit(cls, batches: Iterable[Any]) -> Self:
        """From numbers, or arrays of vectors, in one pass."""
        count, total, squares = 0, np.zeros(1), np.zeros(1)
        for batch in batches:
            values = np.asarray(batch, dtype=np.float64)
            values = values.reshape(-1, 1) if values.ndim < 2 else values
            count += len(values)
            total, squares = total + values.sum(axis=0), squares + np.square(values).sum(axis=0)
        mean = total / max(1, count)
        variance = np.maximum(squares / max(1, count) - np.square(mean), 0.0)
        scale = np.sqrt(np.where(variance > 1e-12 * np.square(mean), variance, 1.0))
        return cls(tuple(mean.tolist()), tuple(np.where(scale > 0, scale, 1.0).tolist()))

    def __len__(self) -> int:
        return len(self.mean)

    def encode(self, values: Any) -> Any:
        """Standardised values; raises for another number of features."""
        features = np.shape(values)[-1] if np.ndim(values) > 1 else 1
        if features != len(self):
            raise RegardError(
                f"The frames have {features} features, but those of the training split have {len(self)}. "
                "Compute the same features."
            )
        return (np.asarray(values, dtype=np.float64) - self.mean) / self.scale

    def decode(self, values: Any) -> Any:
        """The original values."""
        return np.asarray(values, dtype=np.float64) * self.scale + self.mean

    def as_json(self) -> dict[str, Any]:
        """As JSON values."""
        found = {"kind": "standardizer", "mean": list(self.mean), "scale": list(self.scale)}
        return found if self.size is None else {**found, "size": list(self.size)}

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Self:
        """Load the output of `as_json`."""
        try:
            mean, scale = (tuple(map(float, record[name])) for name in ("mean", "scale"))
            height, width = map(int, record.get("size", (0, 0)))
        except (KeyError, TypeError, ValueError) as error:
            raise RegardError(
                "Invalid preprocessor: 'mean', 'scale' or 'size' is not a list of numbers. Restore the "
                "original file, or train again."
            ) from error
        return cls(mean, scale, (height, width) if height else None)


Component = Vocabulary | Labels | Standardizer


def _load(record: Any) -> Component:
    kinds: dict[Any, Any] = {"labels": Labels.from_json, "standardizer": Standardizer.from_json}
    kind = record.get("kind") if isinstance(record, dict) else None
    found: Component = kinds.get(kind, load_vocabulary)(record)
    return found


class Encoded(NamedTuple):
    """A row, its encoded input and target, and how many tokens of the input were removed."""

    row: Row
    input: Any
    target: Any
    segments: Sequence[int] | None = None
    removed: int = 0


class Truncation(NamedTuple):
    """Number of truncated texts and of removed tokens, each out of the total."""

    texts: int = 0
    of_texts: int = 0
    tokens: int = 0
    of_tokens: int = 0

    def combined_with(self, other: Self) -> Self:
        """The counts of both."""
        return type(self)(*(one + more for one, more in zip(self, other, strict=True)))

    def describe(self, max_length: int, *, unit: str = "texts", piece: str = "tokens") -> str:
        """The counts in words; empty without truncation. `unit` and `piece` are what was truncated.

        >>> Truncation(texts=1, of_texts=2, tokens=30, of_tokens=120).describe(80)
        '1 of 2 texts truncated to 80 tokens, 25.0 % of all tokens removed'
        """
        if not self.texts:
            return ""
        percent = 100 * self.tokens / self.of_tokens
        noun = unit.removesuffix("s") if self.of_texts == 1 else unit
        return (
            f"{self.texts:,} of {self.of_texts:,} {noun} truncated to {max_length:,} {piece}, "
            f"{percent:.1f} % of all {piece} removed"
        )


class Preprocessor(ABC):
    """What is fitted on the training rows, and the encoding of inputs and targets.

    Args:
        options: The task's options.
        input: The vocabulary of the inputs, or their standardisation.
        target: That of the targets, which may be the same object; or the labels; None if there is none.
    """

    unit: ClassVar[str] = "texts"
    piece: ClassVar[str] = "tokens"  # of which an input consists
    # Whether an input that is too long is truncated and counted.
    truncates: ClassVar[bool] = False
    # Whether a page shows a picture of an input, see `picture`; and of how many inputs it shows attention.
    has_pictures: ClassVar[bool] = False
    num_shown: ClassVar[int] = 4
    # Whether targets are sequences of tokens.
    has_target_vocabulary: ClassVar[bool] = False

    def __init__(self, options: Any, *, input: Any, target: Any = None) -> None:
        self.options = options
        self.input = input
        self.target = target

    @property
    def is_fitted(self) -> bool:
        """Whether nothing is left to fit; after a warm start, labels are."""
        return True

    @classmethod
    @abstractmethod
    def fit(cls, options: Any, rows: Rows, *, path: Path, known: Self | None = None) -> Self:
        """Fit on the training rows; what `known` has is taken over. `path` is for messages."""

    @classmethod
    def key(cls, options: Any, value: Any) -> str:
        """What identifies an input: inputs with equal keys are duplicates, and in the same split."""
        if not isinstance(value, str):
            return array_key(value)
        return dedup_key(value, lowercase=options.lowercase not in (False, "no"))

    @abstractmethod
    def encode(self, rows: Iterable[Row], *, path: Path, errors: RowErrors) -> Iterator[Encoded]:
        """The encoded rows; one that cannot be used is reported."""

    @abstractmethod
    def encode_inputs(self, inputs: Sequence[Any]) -> Examples:
        """Inputs to predict for, encoded like those of the training split."""

    def examples(self, encoded: Iterable[Encoded]) -> Examples:
        """The training examples of encoded rows."""
        raise NotImplementedError

    def split(self, rows: Iterable[Row], *, path: Path) -> EvalSplit:
        """An evaluation split of these rows."""
        return EvalSplit.of(rows, path=path)

    def picture(self, value: Any, *, name: str) -> SoundRecord | ImageRecord | None:
        """What a page shows of an input that is not text."""
        del value, name
        return None

    def target_facts(self, train: Examples) -> dict[str, Any]:
        """Facts on the targets of the training split, as JSON values."""
        del train
        return {}

    def describe_targets(self, train: Examples) -> str:
        """The same in a sentence."""
        del train
        return ""

    def notes(self, split: EvalSplit) -> list[str]:
        """Warnings about a split, one line each."""
        del split
        return []

    def truncation(self, inputs: Sequence[Any]) -> Truncation:
        """How much of these inputs is truncated."""
        del inputs
        return Truncation()

    def truncation_note(self, cut: Truncation) -> str:
        """The counts in words; empty without truncation."""
        if not cut.texts:
            return ""
        return cut.describe(self.options.max_length, unit=self.unit, piece=self.piece)

    def sizes(self) -> dict[str, Any]:
        """Input spec, vocabulary sizes and number of outputs, as keyword arguments of a model."""
        source: InputSpec
        if not isinstance(self.input, Standardizer):
            source = TokenSpec(self.input.size)
        elif self.input.size is None:
            source = FrameSpec(len(self.input))
        else:
            source = ImageSpec(len(self.input), *self.input.size)
        if self.target is None:
            return {"source": source}
        if isinstance(self.target, Vocabulary):
            return {"source": source, "target_vocabulary": self.target.size}
        return {"source": source, "outputs": len(self.target)}

    def describe(self) -> str:
        """The sizes in words."""
        if isinstance(self.input, Standardizer):
            if self.input.size is not None:
                colour = "grey" if len(self.input) == 1 else "colour"
                return f"{'×'.join(map(str, self.input.size))} pixels, {colour}"
            return f"{len(self.input)} features"
        if isinstance(self.target, Vocabulary) and self.target is not self.input:
            return f"vocabulary sizes {self.input.size:,} and {self.target.size:,}"
        return f"vocabulary size {self.input.size:,}"

    def for_warm_start(self) -> Self:
        """The part that a task initialised from this run takes over: not the labels."""
        target = self.target if isinstance(self.target, Vocabulary) else None
        return type(self)(self.options, input=self.input, target=target)

    def as_json(self) -> dict[str, Any]:
        """What was fitted, as JSON values; a shared vocabulary is written once."""
        target = None if self.target is None else self.target.as_json()
        return {
            "input": self.input.as_json(),
            "target": "input" if self.target is self.input else target,
        }

    @classmethod
    def from_json(cls, record: object, options: Any) -> Self:
        """Load the output of `as_json`, also that of another task."""
        match record:
            case {"input": dict() as stored, "target": dict() | "input" | None as target}:
                found = _load(stored)
                of_target = (
                    found if target == "input" else None if target is None else _load(target)
                )
                if isinstance(of_target, Vocabulary) == cls.has_target_vocabulary:
                    return cls(options, input=found, target=of_target)
                raise RegardError(
                    f"its targets are {'texts' if isinstance(of_target, Vocabulary) else 'not texts'}, "
                    "unlike those of this task. Choose a run of another task."
                )
        raise RegardError(
            "The preprocessor file lacks 'input' or 'target'. Restore the original file, or train again."
        )


def text_vocabulary(
    options: Any, kind: str, texts: Iterable[str], *, lowercase: bool
) -> Vocabulary:
    """The vocabulary of the texts, of at most `vocabulary_size` tokens where its kind has a size."""
    keyword = SIZE_KEYWORDS.get(kind)
    sized = keyword is not None and (hasattr(options, "min_count") or keyword == "size")
    size = {str(keyword): options.vocabulary_size} if sized else {}
    if kind in ("words", "word_punct") and hasattr(options, "min_count"):
        size["min_count"] = options.min_count
    try:
        return build_vocabulary(kind, texts, lowercase=lowercase, **size)
    except RegardError as error:
        own = f"{keyword}={options.vocabulary_size}"  # name the task's option, not the tokenizer's
        if keyword is not None and str(error).startswith(own):
            rest = str(error).removeprefix(own)
            raise RegardError(f"task.vocabulary_size={options.vocabulary_size}{rest}") from error
        raise


def blocks(rows: Iterable[Any]) -> Iterator[list[Any]]:
    """The rows in blocks, so that a tokenizer works in parallel."""
    stream = iter(rows)
    while block := list(islice(stream, ENCODE_ROWS)):
        yield block


class PairPreprocessor(Preprocessor):
    """Pairs of texts, with a vocabulary for each side or one for both; a row that is too long is malformed.

    The options are those of a sequence-to-sequence task. `group` says whether rows with the same source
    are several references for it.
    """

    unit: ClassVar[str] = "pairs"
    has_target_vocabulary: ClassVar[bool] = True
    group: ClassVar[bool] = False

    @classmethod
    def fit(cls, options: Any, rows: Rows, *, path: Path, known: Self | None = None) -> Self:
        """Build the vocabularies in one pass over each side."""
        del path
        if known is not None:
            return known
        sources: Iterator[str] = (row.input for row in rows())
        targets: Iterator[str] = (row.target for row in rows())
        kind, first = options.source_tokens, next(sources, "")
        sources = chain([first], sources) if first else sources
        if kind == "characters" and "," in str(options.source_column) and TAG_SEPARATOR in first:
            kind = CharacterTagVocabulary.kind
        if options.shared_vocabulary:
            lowercase = options.lowercase == "both"
            both = chain(sources, targets)
            shared = text_vocabulary(options, kind, both, lowercase=lowercase)
            return cls(options, input=shared, target=shared)
        lowercase = options.lowercase != "no"
        source = text_vocabulary(options, kind, sources, lowercase=lowercase)
        lowercase = options.lowercase == "both"
        target = text_vocabulary(options, options.target_tokens, targets, lowercase=lowercase)
        return cls(options, input=source, target=target)

    def encode(self, rows: Iterable[Row], *, path: Path, errors: RowErrors) -> Iterator[Encoded]:
        """Token ids of both sides."""
        limit = self.options.max_length
        for block in blocks(rows):
            sources = self.input.encode_all(row.input for row in block)
            targets = self.target.encode_all(row.target for row in block)
            for row, source, target in zip(block, sources, targets, strict=True):
                longest = max(len(source), len(target))
                if longest > limit:
                    reason = f"too long: {longest} tokens, but task.max_length is {limit}"
                    errors.report(path=path, line=row.line, reason=reason)
                else:
                    yield Encoded(row, source, target)

    def examples(self, encoded: Iterable[Encoded]) -> Examples:
        """Pairs of sequences."""
        return pair_examples((each.input, each.target) for each in encoded)

    def encode_inputs(self, inputs: Sequence[str]) -> Examples:
        """The sources of pairs."""
        typed = [self.input.typed(text) for text in inputs]
        return Examples(inputs=Ragged.of(self.input.encode_all(typed)), end=True)

    def encode_split(self, split: EvalSplit) -> Examples:
        """Each input with its first reference."""
        sources = self.input.encode_all(split.inputs)
        first = self.target.encode_all(choices[0] for choices in split.references)
        return pair_examples(zip(sources, first, strict=True))

    def split(self, rows: Iterable[Row], *, path: Path) -> EvalSplit:
        """Texts with all their references."""
        del path
        pairs = ((row.input, row.target) for row in rows)
        return EvalSplit.grouped(pairs, group=self.group, lowercase=self.options.lowercase)


def pair_examples(pairs: Iterable[tuple[Sequence[int], Sequence[int]]]) -> Examples:
    """Examples of source and target tokens, in one pass."""
    tokens, ends = array("i"), array("q", [0])

    def sources() -> Iterator[Sequence[int]]:
        for source, target in pairs:
            tokens.extend(target)
            ends.append(len(tokens))
            yield source

    inputs = Ragged.of(sources())
    values = np.frombuffer(tokens, dtype=np.int32)
    return Examples(
        inputs=inputs, targets=Ragged(values, np.frombuffer(ends, dtype=np.int64)), end=True
    )


class GroupedPairPreprocessor(PairPreprocessor):
    """As `PairPreprocessor`; rows with the same source are several references for it."""

    group: ClassVar[bool] = True
