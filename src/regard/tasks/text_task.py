"""A task on texts to be understood: what is the same whether tokens are to be told or labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, Self, TypeVar, overload, runtime_checkable

import numpy as np
import torch
from jaxtyping import Int64

from regard.core.batches import TextBatch
from regard.core.errors import RegardError
from regard.data.batching import Batches, evaluation_batches
from regard.data.noising import NOTHING
from regard.data.readers.text_file import BadRows
from regard.data.splits import as_read, held_out_shares, part_of
from regard.data.text_dataset import DocumentRows, TextRows
from regard.data.tokenizers.vocabulary import Vocabulary, build_vocabulary, load_vocabulary
from regard.tasks.task import RunTask

# What a task on texts to be understood can be told.


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """Options that are the same whatever is asked about a text.

    validation, test           held-out files; without them, parts of what is learned from, chosen by a hash
    validation_share           the part held out where `validation` is not given
    test_share          the part held out for testing where neither `validation` nor `test` is given
    skip_bad_rows       leave bad rows out, and list them, instead of stopping at the first
    vocabulary_size     of a vocabulary of word pieces, subwords or words; characters are all there
    lowercase           whether all texts are put into lower case
    max_length          places in a row at most, START and END included
    batch_tokens        places in a batch, padding included
    metric              the score that decides which weights are kept
    """

    validation: str | None = None
    test: str | None = None
    validation_share: float = 0.05
    test_share: float = 0.05
    skip_bad_rows: bool = False
    vocabulary_size: int = 8000
    lowercase: bool = True
    max_length: int = 128
    batch_tokens: int = 4096
    metric: str = ""

    def __post_init__(self) -> None:
        for name, least in (("vocabulary_size", 1), ("max_length", 8), ("batch_tokens", 1)):
            if getattr(self, name) < least:
                raise RegardError(f"task.{name}={getattr(self, name)}: it must be {least} or more.")
        if self.batch_tokens <= self.max_length:
            raise RegardError(
                f"task.batch_tokens={self.batch_tokens} does not hold a row of "
                f"task.max_length={self.max_length}. Make it larger than that."
            )


# The vocabulary of a task on texts, and the labels it tells apart, if any.


# kind → by which keyword its size is told
SIZED_KINDS = {
    "subwords": "size",
    "wordpiece": "size",
    "words": "max_size",
    "running_words": "max_size",
}
COUNTED_KINDS = ("words", "running_words")


@dataclass(frozen=True, kw_only=True)
class TextVocabularies:
    """How texts become token numbers; label i has the class number i."""

    text: Vocabulary
    labels: tuple[str, ...] = ()

    @classmethod
    def build(
        cls, options: TextOptions, *, kind: str, texts: Iterable[str], min_count: int = 1
    ) -> Self:
        """The vocabulary of these texts, which are read once; it has no labels yet."""
        size = {SIZED_KINDS[kind]: options.vocabulary_size} if kind in SIZED_KINDS else {}
        counted = {"min_count": min_count} if kind in COUNTED_KINDS else {}
        try:
            text = build_vocabulary(kind, texts, lowercase=options.lowercase, **size, **counted)
        except RegardError as error:
            for word, value in size.items():  # the option's name for a vocabulary's own word
                if str(error).startswith(own := f"{word}={value}"):
                    said = str(error).removeprefix(own)
                    raise RegardError(f"task.vocabulary_size={value}{said}") from error
            raise
        return cls(text=text)

    def to_start_with(self) -> Self:
        """What another task takes over: how texts are cut, and not the labels, which are a task's own."""
        return replace(self, labels=())

    def sizes(self) -> dict[str, int]:
        """The sizes a model is built with, by their keywords."""
        classes = {"classes": len(self.labels)} if self.labels else {}
        return {"vocabulary": self.text.size, **classes}

    def as_json(self) -> dict[str, Any]:
        """Both as JSON values."""
        return {"text": self.text.as_json(), "labels": list(self.labels)}

    @classmethod
    def from_json(cls, record: object) -> Self:
        """The vocabularies that `as_json` wrote."""
        match record:
            case {"text": text, "labels": [*labels]} if all(
                isinstance(label, str) for label in labels
            ) and len(set(labels)) == len(labels):
                return cls(text=load_vocabulary(text), labels=tuple(labels))
        raise RegardError(
            "The vocabulary file has no 'text' and 'labels' in it, or a label stands there twice. "
            "Restore it as it was written, or train anew."
        )


class TextTask(RunTask):
    """Nothing is written token by token, so decoding is taken and not used."""

    vocabularies_class: ClassVar[type[TextVocabularies]] = TextVocabularies

    @classmethod
    def cost_words(cls, batch: TextBatch) -> dict[str, int]:
        """The sizes of a batch, by the words of its model's `cost`."""
        return {
            "batch_size": batch.tokens.shape[0],
            "length": batch.tokens.shape[1],
            "places": int(batch.predicted.sum()),
        }


# Which texts of a file belong to which part.


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
    """A file, or what stands for one, that can be read several times."""

    def rows(self, *, bad: BadRows) -> Iterator[Row_co]:
        """Its rows, in order."""
        ...


def part_rows(
    source: RowSource[Row], options: TextOptions, part: str, bad: BadRows
) -> Iterator[Row]:
    """The rows of the main file that belong to one part."""
    validation, test = held_out_shares(options)
    for row in source.rows(bad=bad):
        text = as_read(row.text, lowercase=options.lowercase)
        if part_of(text, validation=validation, test=test) == part:
            yield row


# Batches of texts, made when they are asked for, and moved to where the model is.


PLACES_AT_A_TIME = 8192  # no gradients are kept while evaluating, so batches may be larger

Make = Callable[[Int64[np.ndarray, " rows"]], TextBatch]


class TextBatches(Sequence[TextBatch]):
    """Which rows go together is known; `make` turns them into a batch, one batch at a time."""

    def __init__(self, *, cuts: Batches, make: Make) -> None:
        self._cuts = cuts
        self._make = make

    def __len__(self) -> int:
        return len(self._cuts)

    def indices(self, index: int) -> Int64[np.ndarray, " rows"]:
        """Which rows batch `index` holds."""
        return self._cuts.indices(index)

    @overload
    def __getitem__(self, index: int) -> TextBatch: ...

    @overload
    def __getitem__(self, index: slice) -> TextBatches: ...

    def __getitem__(self, index: int | slice) -> TextBatch | TextBatches:
        """One batch; or, of a slice, some of the batches, still unmade."""
        if isinstance(index, slice):
            return TextBatches(cuts=self._cuts[index], make=self._make)
        return self._make(self.indices(index))


def evaluation_cuts(rows: TextRows | DocumentRows) -> Batches:
    """Which rows are evaluated together: all of them, by length; the longest fits too."""
    longest = int(rows.store.source_lengths.max(initial=0)) + 3
    return evaluation_batches(rows.store, max_tokens=max(PLACES_AT_A_TIME, longest))


def plain_batch(rows: TextRows | DocumentRows, chosen: Int64[np.ndarray, " rows"]) -> TextBatch:
    """The batch of these rows; no token is to be told."""
    tokens, lengths, segments = (torch.from_numpy(array) for array in rows.padded(chosen))
    return TextBatch(
        tokens=tokens,
        lengths=lengths,
        segments=segments,
        wanted=torch.full_like(tokens, NOTHING),
        labels=torch.from_numpy(rows.labels[chosen]),
    )


def beside(model: Any, batch: TextBatch) -> TextBatch:
    """The batch where the model is."""
    device = next(iter(model.parameters())).device
    return TextBatch(*(tensor.to(device) for tensor in batch))
