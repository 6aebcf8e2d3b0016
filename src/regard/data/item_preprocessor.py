"""The preprocessor of inputs with one label or number each: texts, documents, or arrays of frames."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from regard.core.batches import UNKNOWN
from regard.core.errors import RegardError
from regard.data.examples import Examples, Ragged
from regard.data.labels import (
    COLUMN_HINT,
    ClassBalance,
    Labels,
    short_label,
    unseen_labels_note,
    validate_label_column,
    validate_labels,
)
from regard.data.preprocessor import (
    Encoded,
    Preprocessor,
    Rows,
    Standardizer,
    Truncation,
    blocks,
    text_vocabulary,
)
from regard.data.readers.text_file import Row, RowErrors
from regard.data.sentences import split_sentences
from regard.data.splits import EvalSplit
from regard.data.tokenizers.vocabulary import Vocabulary

NUM_BOUNDARY_TOKENS = 2  # START and END


class ItemPreprocessor(Preprocessor):
    """Texts or arrays with a label or a number each.

    A text becomes its tokens with START and END, or is split into sentences. Text beyond `max_length` is
    truncated and counted; a sentence beyond `sentence_length` is split, and nothing of it is lost.
    """

    truncates: ClassVar[bool] = True
    # Whether an evaluation row with a label unseen in training is malformed, rather than an error.
    rejects_unseen_labels: ClassVar[bool] = True
    target_class: ClassVar[type[Labels] | type[Standardizer]] = Labels
    # The way out where there is one label.
    label_hint: ClassVar[str] = COLUMN_HINT

    @property
    def is_fitted(self) -> bool:
        """Whether the targets were fitted too."""
        return self.target is not None

    @classmethod
    def fit(cls, options: Any, rows: Rows, *, path: Path, known: Self | None = None) -> Self:
        """Fit inputs and targets in one pass."""
        labels: Counter[str] = Counter()
        values: list[float] = []

        def watched() -> Iterator[Any]:
            for row in rows():
                if cls.target_class is Labels:
                    labels[row.target] += 1
                else:
                    values.append(row.target)
                yield row.input

        stream = watched()
        found = cls.fit_inputs(options, stream) if known is None else known.input
        for _ in stream:  # the targets of rows that the inputs did not need
            pass
        if cls.target_class is Standardizer:
            return cls(options, input=found, target=Standardizer.fit(values))
        validate_label_column(labels, path)
        validate_labels(labels, path, hint=cls.label_hint)
        order = {name: number for number, name in enumerate(getattr(options, "label_names", ()))}
        ordered = sorted(labels, key=lambda label: (order.get(label, 0), label))
        return cls(options, input=found, target=Labels(tuple(ordered)))

    @classmethod
    def fit_inputs(cls, options: Any, inputs: Iterator[Any]) -> Vocabulary | Standardizer:
        """Fit the vocabulary of the texts."""
        return text_vocabulary(options, options.tokens, inputs, lowercase=options.lowercase)

    def encode(self, rows: Iterable[Row], *, path: Path, errors: RowErrors) -> Iterator[Encoded]:
        """Encoded inputs with class ids or standardised numbers; an unknown label is malformed."""
        rejects = self.rejects_unseen_labels and isinstance(self.target, Labels)
        hint = (
            "Add training rows with that label, lower "
            f"task.validation_fraction={self.options.validation_fraction} and "
            f"task.test_fraction={self.options.test_fraction}, give --validation-file, or fix the line"
        )
        for block in blocks(rows):
            known = []
            for row in block:
                if rejects and self.target.encode(row.target) < 0:
                    shown = short_label(row.target)
                    reason = f"unknown label: '{shown}' does not occur in training"
                    errors.report(path=path, line=row.line, reason=reason, hint=hint)
                else:
                    known.append(row)
            encoded = self._encode([row.input for row in known])
            for row, (values, segments, removed) in zip(known, encoded, strict=True):
                yield Encoded(row, values, self.encode_target(row.target), segments, removed)

    def encode_target(self, target: Any) -> int | float:
        """The class id of a label, or the standardised number."""
        if isinstance(self.target, Labels):
            return self.target.encode(target)
        return float(self.target.encode(target)[0])

    def examples(self, encoded: Iterable[Encoded]) -> Examples:
        """Inputs with their targets."""
        targets: list[int | float] = []
        segments: list[int] = []

        def inputs() -> Iterator[Any]:
            for each in encoded:
                targets.append(each.target)
                segments.extend(each.segments or ())
                yield each.input

        values = Ragged.of(inputs())
        kind = np.int64 if isinstance(self.target, Labels) else np.float32
        return self._examples(values, segments, np.array(targets, dtype=kind))

    def encode_inputs(self, inputs: Sequence[Any]) -> Examples:
        """Inputs without targets, truncated like the training inputs."""
        encoded = [each for block in blocks(inputs) for each in self._encode(block)]
        segments = [number for each in encoded for number in each.segments or ()]
        return self._examples(Ragged.of(each.input for each in encoded), segments, None)

    def encode_split(self, split: EvalSplit) -> Examples:
        """A split with its targets; unknown labels are IGNORE_INDEX."""
        kind = np.int64 if isinstance(self.target, Labels) else np.float32
        targets = np.array([self.encode_target(each) for each in split.references], dtype=kind)
        return replace(self.encode_inputs(split.inputs), targets=targets)

    def _examples(self, inputs: Ragged, segments: list[int], targets: Any) -> Examples:
        sentences = getattr(self.options, "sentences", False)
        frames = isinstance(self.input, Standardizer)
        return Examples(
            inputs=inputs,
            targets=targets,
            segments=np.array(segments, dtype=np.int32) if sentences else None,
            start=not (sentences or frames),
            end=not (sentences or frames),
        )

    def _encode(self, inputs: Sequence[Any]) -> list[EncodedInput]:
        options = self.options
        sentences = getattr(options, "sentences", False)
        if isinstance(self.input, Standardizer):
            for text in inputs:
                if isinstance(text, str):
                    raise RegardError(
                        f"The input '{short_label(text)}' is a text, but the model takes frames. Evaluate "
                        "a file of arrays with --score FILE.npz, or pass arrays to predict in Python."
                    )
            scaled = (self.input.encode(frames).astype(np.float32) for frames in inputs)
            whole = [EncodedInput(frames, None) for frames in scaled]
        elif sentences:
            split = [split_sentences(text) for text in inputs]
            flat = iter(self.input.encode_all(one for of_text in split for one in of_text))
            whole = [_document(islice(flat, len(one)), options.sentence_length) for one in split]
        else:
            whole = [EncodedInput(tokens, None) for tokens in self.input.encode_all(inputs)]
        boundary = not (sentences or isinstance(self.input, Standardizer))
        limit = options.max_length - (NUM_BOUNDARY_TOKENS if boundary else 0)
        return [
            EncodedInput(
                values[:limit],
                None if segments is None else segments[:limit],
                max(0, len(values) - limit),
            )
            for values, segments, _ in whole
        ]

    def target_facts(self, train: Examples) -> dict[str, Any]:
        """Class balance, or mean and standard deviation."""
        if isinstance(self.target, Labels):
            return {"class_balance": self.balance(train).as_json()}
        return {"target_mean": self.target.mean[0], "target_deviation": self.target.scale[0]}

    def describe_targets(self, train: Examples) -> str:
        """Class balance, or mean and standard deviation."""
        if isinstance(self.target, Labels):
            return self.balance(train).describe(self.unit)
        mean, scale = self.target.mean[0], self.target.scale[0]
        return f"Targets have mean {mean:.4g} and standard deviation {scale:.4g}."

    def balance(self, train: Examples) -> ClassBalance:
        """The class balance of the training split."""
        assert isinstance(train.targets, np.ndarray)
        return ClassBalance.of(self.target.labels[number] for number in train.targets)

    def truncation(self, inputs: Sequence[Any]) -> Truncation:
        """How much of these inputs is truncated."""
        found = Truncation()
        if not self.truncates:
            return found
        for block in blocks(inputs):
            encoded = self._encode(block)
            removed = [each.removed for each in encoded]
            kept = sum(len(each.input) for each in encoded)
            texts = sum(count > 0 for count in removed)
            counts = Truncation(texts, len(encoded), sum(removed), kept + sum(removed))
            found = found.combined_with(counts)
        return found

    def notes(self, split: EvalSplit) -> list[str]:
        """Labels unseen in training, and truncated inputs."""
        found = [self.truncation_note(self.truncation(split.inputs))]
        if isinstance(self.target, Labels):
            found.insert(
                0, unseen_labels_note(split.references, self.target.labels, unit=self.unit)
            )
        return [note for note in found if note]


class EncodedInput(NamedTuple):
    """Tokens or frames, the sentence of each token, and how many were removed."""

    input: Any
    segments: Sequence[int] | None
    removed: int = 0


def _document(sentences: Iterable[Sequence[int]], max_length: int) -> EncodedInput:
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
    return EncodedInput(tokens or [UNKNOWN], segments or [0])
