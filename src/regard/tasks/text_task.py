"""Tasks on single texts: options, vocabulary, splits and batches that masked language modelling and
text classification share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, Self, TypeVar, overload, runtime_checkable

import numpy as np
import torch
from jaxtyping import Int64

from regard.core.batches import TextBatch
from regard.core.errors import RegardError
from regard.data.batching import Batches
from regard.data.noising import IGNORE_INDEX
from regard.data.readers.text_file import RowErrors
from regard.data.splits import dedup_key, holdout_fractions, split_of
from regard.data.text_dataset import DocumentDataset, TextDataset
from regard.data.tokenizers.vocabulary import Vocabulary, build_vocabulary, load_vocabulary
from regard.tasks.metrics.classification import validate_references
from regard.tasks.task import Task, validate_options, validate_positive


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """Options of every task on single texts.

    Args:
        train_file: Training data.
        validation_file, test_file: Evaluation data; without them, splits of the training data by hash.
        validation_fraction: Fraction held out without `validation_file`.
        test_fraction: Fraction held out with neither `validation_file` nor `test_file`.
        skip_bad_rows: Skip and list malformed rows instead of raising.
        vocabulary_size: Maximum size of a WordPiece, subword or word vocabulary.
        lowercase: Lower-case all texts.
        max_length: Maximum sequence length, START and END included.
        batch_tokens: Maximum number of tokens in a batch, padding included.
        metric: The metric that selects the best checkpoint.
    """

    train_file: str | None = None
    validation_file: str | None = None
    test_file: str | None = None
    validation_fraction: float = 0.05
    test_fraction: float = 0.05
    skip_bad_rows: bool = False
    vocabulary_size: int = 8000
    lowercase: bool = True
    max_length: int = 128
    batch_tokens: int = 4096
    metric: str = ""

    def __post_init__(self) -> None:
        validate_positive(self, "vocabulary_size")
        validate_options(self, "8 or more", lambda value: value >= 8, "max_length")
        validate_positive(self, "batch_tokens")
        if self.batch_tokens <= self.max_length:
            raise RegardError(
                f"task.batch_tokens={self.batch_tokens} does not hold a row of "
                f"task.max_length={self.max_length}. Make it larger than that."
            )


# Tokenizer → its keyword for the vocabulary size.
SIZE_KEYWORDS = {
    "subwords": "size",
    "wordpiece": "size",
    "words": "max_size",
    "word_punct": "max_size",
}
WORD_LEVEL = ("words", "word_punct")


@dataclass(frozen=True, kw_only=True)
class TextVocabularies:
    """The vocabulary of the texts, and the labels in the order of their class ids."""

    text: Vocabulary
    labels: tuple[str, ...] = ()

    @classmethod
    def build(
        cls, options: TextOptions, *, kind: str, texts: Iterable[str], min_count: int = 1
    ) -> Self:
        """Build the vocabulary in one pass over the texts, without labels."""
        size = {SIZE_KEYWORDS[kind]: options.vocabulary_size} if kind in SIZE_KEYWORDS else {}
        counted = {"min_count": min_count} if kind in WORD_LEVEL else {}
        try:
            text = build_vocabulary(kind, texts, lowercase=options.lowercase, **size, **counted)
        except RegardError as error:
            for keyword, value in size.items():  # name the task's option, not the tokenizer's
                if str(error).startswith(own := f"{keyword}={value}"):
                    rest = str(error).removeprefix(own)
                    raise RegardError(f"task.vocabulary_size={value}{rest}") from error
            raise
        return cls(text=text)

    def for_warm_start(self) -> Self:
        """The vocabulary without the labels, which differ between tasks."""
        return replace(self, labels=())

    def sizes(self) -> dict[str, int]:
        """Vocabulary size and number of classes, as keyword arguments of a model."""
        classes = {"classes": len(self.labels)} if self.labels else {}
        return {"vocabulary": self.text.size, **classes}

    def as_json(self) -> dict[str, Any]:
        """Vocabulary and labels as JSON values."""
        return {"text": self.text.as_json(), "labels": list(self.labels)}

    @classmethod
    def from_json(cls, record: object) -> Self:
        """Load the output of `as_json`."""
        match record:
            case {"text": text, "labels": [*labels]} if all(
                isinstance(label, str) for label in labels
            ) and len(set(labels)) == len(labels):
                return cls(text=load_vocabulary(text), labels=tuple(labels))
        raise RegardError(
            "The vocabulary file lacks 'text' or 'labels', or a label occurs twice. Restore the "
            "original file, or train again."
        )


class TextTask(Task):
    """A task on single texts. Nothing is generated, so `decode` is ignored."""

    vocabularies_class: ClassVar[type[TextVocabularies]] = TextVocabularies

    @classmethod
    def scores(
        cls, predictions: Sequence[str], references: Sequence[Sequence[str]]
    ) -> dict[str, float]:
        """Every metric that is a function of the predictions."""
        validate_references(references)
        return super().scores(predictions, references)

    @classmethod
    def cost_kwargs(cls, batch: TextBatch) -> dict[str, int]:
        """The sizes of a batch, as keyword arguments of the model's `cost`."""
        return {
            "batch_size": batch.tokens.shape[0],
            "length": batch.tokens.shape[1],
            "masked_tokens": int(batch.target_mask.sum()),
        }


@runtime_checkable
class TextRow(Protocol):
    """A row with a text."""

    @property
    def text(self) -> str:
        """The text."""
        ...


Row_co = TypeVar("Row_co", bound=TextRow, covariant=True)
Row = TypeVar("Row", bound=TextRow)


@runtime_checkable
class RowSource(Protocol[Row_co]):
    """A file or a dataset that can be read several times."""

    def rows(self, *, errors: RowErrors) -> Iterator[Row_co]:
        """The rows, in order."""
        ...


def split_rows(
    source: RowSource[Row], options: TextOptions, split: str, errors: RowErrors
) -> Iterator[Row]:
    """The rows of the training file that the hash of their text assigns to `split`."""
    validation, test = holdout_fractions(options)
    for row in source.rows(errors=errors):
        text = dedup_key(row.text, lowercase=options.lowercase)
        if split_of(text, validation=validation, test=test) == split:
            yield row


Collate = Callable[[Int64[np.ndarray, " rows"]], TextBatch]


class TextBatches(Sequence[TextBatch]):
    """Batches that `collate` creates on access from the row indices of `index_batches`."""

    def __init__(self, *, index_batches: Batches, collate: Collate) -> None:
        self._index_batches = index_batches
        self._collate = collate

    def __len__(self) -> int:
        return len(self._index_batches)

    def indices(self, index: int) -> Int64[np.ndarray, " rows"]:
        """The row indices of batch `index`."""
        return self._index_batches.indices(index)

    @overload
    def __getitem__(self, index: int) -> TextBatch: ...

    @overload
    def __getitem__(self, index: slice) -> TextBatches: ...

    def __getitem__(self, index: int | slice) -> TextBatch | TextBatches:
        """One batch, or a lazy slice of the batches."""
        if isinstance(index, slice):
            return TextBatches(index_batches=self._index_batches[index], collate=self._collate)
        return self._collate(self.indices(index))


def collate_texts(
    rows: TextDataset | DocumentDataset, indices: Int64[np.ndarray, " rows"]
) -> TextBatch:
    """The padded batch of these rows, without token targets."""
    tokens, lengths, segments = (torch.from_numpy(array) for array in rows.padded(indices))
    return TextBatch(
        tokens=tokens,
        lengths=lengths,
        segments=segments,
        token_targets=torch.full_like(tokens, IGNORE_INDEX),
        labels=torch.from_numpy(rows.labels[indices]),
    )
