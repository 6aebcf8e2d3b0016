"""Masked language modelling and next-sentence prediction: pre-training of an encoder (Devlin et al. 2019).

    the cat [MASK] on the mat        →  sat
    first half | second half         →  is the second half the next sentence, or from another document?

Documents are split into chunks of two halves:

    document    It is a film. It is old. Bob made it.
    IS_NEXT     It is a film.  |  It is old. Bob made it.
    NOT_NEXT    It is a film.  |  They met in Rome.           from another document

A chunk is split at the sentence end nearest to its middle. Half of the pairs, sampled anew for every epoch,
are NOT_NEXT (section 3.1, where chunks are whole sentences; here, runs of tokens). Tokens are masked
by `data/noising.py`. The loss is the mean cross-entropy of masked tokens plus that of next-sentence labels.
Accuracies are in percent; perplexity is that of the masked tokens. The embedded data are pages about films.
Pairs and masks of evaluation splits are sampled with a fixed seed, the same for every model. The reference
of a document is the list of its masked tokens.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from jaxtyping import Float, Int, Int64
from pydantic import Field, model_validator
from torch import Tensor
from torch.nn import functional as F

from regard.core.batches import (
    END,
    IGNORE_INDEX,
    START,
    Batch,
    ClassTarget,
    PositionTarget,
    TokenInput,
)
from regard.core.errors import RegardError
from regard.core.options import PositiveFraction, PositiveInt
from regard.core.protocols import Decode, Loss
from regard.core.traits import TargetKind
from regard.data.batching import Batches, evaluation_batches
from regard.data.dataset import Dataset
from regard.data.datasets.films import FilmDocuments
from regard.data.examples import Examples, Ragged, flat_positions
from regard.data.noising import mask_tokens
from regard.data.preprocessor import Encoded, Preprocessor, Rows, blocks, text_vocabulary
from regard.data.readers.text_file import Row, RowErrors
from regard.data.readers.text_reader import Target
from regard.data.splits import EvalSplit
from regard.data.tokenizers.subword import MASK_ID
from regard.tasks.classification.task import validate_batch_tokens
from regard.tasks.metrics import (
    Loss as LossMetric,
    MaskedAccuracy,
    NextSentenceAccuracy,
    Perplexity,
)
from regard.tasks.task import EvalResult, Task, TaskOptions, device_of

TOKENIZER = "wordpiece"
EVAL_SEED = 2019
SENTENCE_ENDS = ".!?"
IS_NEXT, NOT_NEXT = 1, 0

Halves = tuple[Sequence[int], Sequence[int]]


class MaskedLMOptions(TaskOptions):
    """As `TaskOptions`, with one document per line in `train_file`, and pages about films without it.

    Args:
        vocabulary_size: Maximum size of the WordPiece vocabulary.
        lowercase: Lower-case all texts.
        max_length: Maximum sequence length, START and END included; longer documents are split.
        next_sentence: Also predict whether the second half of a row follows the first.
        mask_fraction: Fraction of tokens to predict.
    """

    vocabulary_size: PositiveInt = 8000
    lowercase: bool = True
    max_length: Annotated[int, Field(ge=8)] = 128
    batch_tokens: PositiveInt = 4096
    next_sentence: bool = True
    mask_fraction: PositiveFraction = 0.15

    @model_validator(mode="after")
    def _validate_batch(self) -> Self:
        validate_batch_tokens(self)
        return self


@dataclass(frozen=True)
class MaskedTarget:
    """The masked tokens, and whether the second half follows the first; None if that is not predicted."""

    tokens: PositionTarget
    pairs: ClassTarget | None

    @property
    def num_predictions(self) -> int:
        """The number of masked tokens and of labelled pairs."""
        pairs = 0 if self.pairs is None else self.pairs.num_predictions
        return self.tokens.num_predictions + pairs

    @property
    def num_positions(self) -> int:
        """None beside the input's."""
        return 0

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of masked tokens."""
        return (self.tokens.num_predictions,)

    def to(self, device: torch.device | str) -> Self:
        """On another device."""
        pairs = None if self.pairs is None else self.pairs.to(device)
        return replace(self, tokens=self.tokens.to(device), pairs=pairs)

    def cut(self, length: int) -> Self:
        """The first positions of every row."""
        return replace(self, tokens=self.tokens.cut(length))

    def select(self, rows: slice | Tensor) -> Self:
        """Some rows."""
        pairs = None if self.pairs is None else self.pairs.select(rows)
        return replace(self, tokens=self.tokens.select(rows), pairs=pairs)


class MaskedPreprocessor(Preprocessor):
    """Documents in WordPiece tokens; the examples are the two halves of each chunk."""

    unit: ClassVar[str] = "documents"

    def __init__(self, options: Any, *, input: Any, target: Any = None) -> None:
        super().__init__(options, input=input, target=target)
        if input.kind != TOKENIZER:
            raise RegardError(f"A {input.kind} vocabulary has no [MASK] token. Use {TOKENIZER}.")

    @classmethod
    def fit(cls, options: Any, rows: Rows, *, path: Path, known: Self | None = None) -> Self:
        """Build the vocabulary."""
        del path
        if known is not None:
            return known
        texts = (row.input for row in rows())
        vocabulary = text_vocabulary(options, TOKENIZER, texts, lowercase=options.lowercase)
        return cls(options, input=vocabulary)

    def encode(self, rows: Iterable[Row], *, path: Path, errors: RowErrors) -> Iterator[Encoded]:
        """Token ids of the documents."""
        del path, errors
        for block in blocks(rows):
            texts = self.input.encode_all(row.input for row in block)
            yield from (Encoded(row, ids, None) for row, ids in zip(block, texts, strict=True))

    def examples(self, encoded: Iterable[Encoded]) -> Examples:
        """The halves of each chunk as input and target; chunks leave room for START and two ENDs."""
        ends = {number for mark in SENTENCE_ENDS for number in self.input.encode(mark)}
        owners: list[int] = []
        seconds: list[Sequence[int]] = []

        def firsts() -> Iterator[Sequence[int]]:
            for owner, each in enumerate(encoded):
                for chunk in split_chunks(each.input, max_length=self.options.max_length - 3):
                    first, second = split_halves(chunk, sentence_ends=ends)
                    owners.append(owner)
                    seconds.append(second)
                    yield first

        inputs = Ragged.of(firsts())
        return Examples(
            inputs=inputs, targets=Ragged.of(seconds), owners=np.array(owners, dtype=np.int64)
        )

    def encode_inputs(self, inputs: Sequence[str]) -> Examples:
        """Whole texts; raises if one is longer than the model's maximum."""
        encoded = self.input.encode_all(inputs)
        longest = self.options.max_length - 2  # START and END
        for text, ids in zip(inputs, encoded, strict=True):
            if len(ids) > longest:
                raise RegardError(
                    f"The text '{text[:40]}…' has {len(ids)} tokens, but the model takes at most "
                    f"{longest}. Split it."
                )
        return Examples(inputs=Ragged.of(encoded), start=True, end=True)

    def encode_split(self, split: EvalSplit) -> tuple[MaskedRows, Int64[np.ndarray, " rows"]]:
        """The rows to evaluate on, the same each time, and the document of each."""
        rows = (Row(text, None, 0) for text in split.inputs)
        chunks = self.examples(self.encode(rows, path=Path(), errors=RowErrors()))
        assert chunks.owners is not None
        pairs = self.options.next_sentence and len(np.unique(chunks.owners)) > 1
        rng = np.random.default_rng(EVAL_SEED)
        limit = self.options.max_length - 3
        found = paired_rows(chunks, rng=rng, next_sentence=pairs, max_length=limit)
        return found, chunks.owners

    def split(self, rows: Iterable[Row], *, path: Path) -> EvalSplit:
        """The documents, each with the list of its masked tokens as reference."""
        split = EvalSplit.of(rows, path=path)
        masked, owners = self.encode_split(split)
        batches = masked_batches(masked, self)
        found: dict[int, list[str]] = {}
        for index in range(len(batches)):
            classes = batches[index].target.tokens.classes
            for row, of_row in zip(batches.indices(index), classes, strict=True):
                found[int(row)] = self.input.tokens_of(of_row[of_row >= 0].tolist())
        references = join_by_document(found, owners, documents=len(split))
        return replace(split, references=tuple(references))


class MaskedRows(NamedTuple):
    """Rows before masking, and their next-sentence labels; None without pairs."""

    examples: Examples
    labels: Int64[np.ndarray, " rows"] | None


def paired_rows(
    chunks: Examples, *, rng: np.random.Generator, next_sentence: bool, max_length: int
) -> MaskedRows:
    """Pairs of halves labelled IS_NEXT or NOT_NEXT; without `next_sentence`, whole chunks."""
    first, seconds = chunks.inputs, chunks.targets
    assert isinstance(seconds, Ragged)
    own = np.arange(len(chunks))
    second = sample_second_halves(chunks, rng) if next_sentence else own
    added = np.minimum(seconds.lengths[second], max_length - first.lengths)
    # START, the first half, END if there are two texts, the second half, END
    between = int(next_sentence) * (added > 0)
    row, within, offsets = flat_positions(first.lengths + added + between + 2)
    position = within - 1
    in_first = (position >= 0) & (position < first.lengths[row])
    in_second = position - first.lengths[row] - between[row]
    is_second = (in_second >= 0) & (in_second < added[row])
    tokens = np.full(len(row), END, dtype=np.int32)
    tokens[within == 0] = START
    tokens[in_first] = first.values[(first.offsets[row] + position)[in_first]]
    tokens[is_second] = seconds.values[(seconds.offsets[second[row]] + in_second)[is_second]]
    segments = ((in_second >= 0) & (between[row] > 0)).astype(np.int32)
    examples = Examples(inputs=Ragged(tokens, offsets), segments=segments)
    if not next_sentence:
        return MaskedRows(examples, None)
    is_next = np.where(second == own, IS_NEXT, NOT_NEXT)
    return MaskedRows(examples, np.where(added > 0, is_next, IGNORE_INDEX))


def sample_second_halves(
    chunks: Examples, rng: np.random.Generator
) -> Int64[np.ndarray, " chunks"]:
    """The chunk that provides the second half for each first half: itself with probability 1/2."""
    owners, seconds = chunks.owners, chunks.targets
    assert owners is not None
    assert isinstance(seconds, Ragged)
    begin = np.searchsorted(owners, owners, side="left")
    end = np.searchsorted(owners, owners, side="right")
    others = len(chunks) - (end - begin)
    if len(others) and not others.all():
        raise RegardError(
            "Next-sentence prediction needs at least two documents. Give more documents, one per "
            "line, or set task.next_sentence=false."
        )
    drawn = np.floor(rng.random(len(chunks)) * others).astype(np.int64)
    sampled = (end + drawn) % max(1, len(chunks))
    lengths = seconds.lengths
    # A chunk of one token has no second half.
    swapped = (rng.random(len(chunks)) < 0.5) & (lengths > 0) & (lengths[sampled] > 0)
    return np.where(swapped, sampled, np.arange(len(chunks)))


def split_chunks(text: Sequence[int], *, max_length: int) -> list[Sequence[int]]:
    """Split a text into the fewest chunks of at most `max_length` tokens, of nearly equal length.

    >>> split_chunks([4, 5, 6, 7, 8], max_length=4)
    [[4, 5, 6], [7, 8]]
    """
    count = -(-len(text) // max_length)
    cuts = [-(-index * len(text) // count) for index in range(count + 1)] if count else []
    return [text[begin:end] for begin, end in pairwise(cuts)]


def split_halves(chunk: Sequence[int], *, sentence_ends: Collection[int]) -> Halves:
    """Split a chunk at the sentence end nearest to its middle, or in the middle if there is none.

    >>> split_halves([4, 9, 5, 6, 7], sentence_ends={9})
    ([4, 9], [5, 6, 7])
    """
    middle = len(chunk) / 2
    ends = [index for index in range(1, len(chunk)) if chunk[index - 1] in sentence_ends]
    cut = min(ends, key=lambda index: abs(index - middle)) if ends else -(-len(chunk) // 2)
    return chunk[:cut], chunk[cut:]


def masked_batch(
    rows: MaskedRows,
    indices: Int64[np.ndarray, " rows"],
    preprocessor: MaskedPreprocessor,
    *,
    seeds: tuple[int, ...],
) -> Batch:
    """The batch of these rows; the masks are a function of the seeds and of the first row index."""
    inputs = rows.examples.collate_inputs(indices)
    assert isinstance(inputs, TokenInput)
    tokens, classes = mask_tokens(
        inputs.tokens.numpy(),
        rng=np.random.default_rng([*seeds, int(indices[0])]),
        mask_id=MASK_ID,
        vocab_size=preprocessor.input.size,
        mask_fraction=preprocessor.options.mask_fraction,
    )
    pairs = None if rows.labels is None else ClassTarget(torch.from_numpy(rows.labels[indices]))
    target = MaskedTarget(PositionTarget(torch.from_numpy(classes)), pairs)
    return Batch(replace_tokens(inputs, torch.from_numpy(tokens)), target)


def replace_tokens(inputs: TokenInput, tokens: Int[Tensor, "batch length"]) -> TokenInput:
    """The input with other tokens of the same lengths."""
    return TokenInput(tokens, inputs.lengths, inputs.segments, inputs.padded)


def masked_batches(rows: MaskedRows, preprocessor: MaskedPreprocessor) -> Batches:
    """Evaluation batches with fixed masks."""
    return evaluation_batches(
        rows.examples,
        collate=lambda indices: masked_batch(rows, indices, preprocessor, seeds=(EVAL_SEED,)),
    )


def join_by_document(
    tokens: Mapping[int, list[str]], owners: Int64[np.ndarray, " rows"], *, documents: int
) -> list[list[str]]:
    """The tokens of all rows of each document, in order."""
    joined: list[list[str]] = [[] for _ in range(documents)]
    for row, document in enumerate(owners.tolist()):
        joined[document] += tokens[row]
    return joined


class RunningScore:
    """Cross-entropy and accuracy, accumulated over batches."""

    def __init__(self) -> None:
        self.total, self.correct, self.count = 0.0, 0, 0

    def add(
        self,
        logits: Float[Tensor, "predictions classes"],
        labels: Int[Tensor, " predictions"],
        predictions: Int[Tensor, " predictions"],
    ) -> None:
        """Add the predictions of one batch."""
        loss = F.cross_entropy(logits, labels, ignore_index=IGNORE_INDEX, reduction="sum")
        self.total += loss.item()
        self.correct += int((predictions == labels).sum())
        self.count += int((labels != IGNORE_INDEX).sum())

    @property
    def mean(self) -> float:
        """Mean cross-entropy."""
        return self.total / self.count

    @property
    def accuracy(self) -> float:
        """Accuracy in percent."""
        return 100.0 * self.correct / self.count


def predicted_tokens(
    logits: Float[Tensor, "*predictions vocabulary"],
) -> Int[Tensor, "*predictions"]:
    """The most probable ordinary token; MASK and the special tokens are excluded."""
    first = MASK_ID + 1
    return logits[..., first:].argmax(dim=-1) + first


class MaskedLM(Task):
    """Masked language modelling; the default metric is the accuracy on masked tokens."""

    options_class = MaskedLMOptions
    preprocessor_class = MaskedPreprocessor
    target_kind: ClassVar[TargetKind] = "positions"
    metrics = (MaskedAccuracy(), NextSentenceAccuracy(), Perplexity(), LossMetric())
    datasets: ClassVar[Mapping[str, Any]] = {"film-documents": lambda _: FilmDocuments()}
    file_target: ClassVar[Target] = "none"

    def __init__(self, *, dataset: Dataset, options: Any, seed: int, decode: Decode) -> None:
        super().__init__(dataset=dataset, options=options, seed=seed, decode=decode)
        if self.metric == "next_sentence_accuracy" and not options.next_sentence:
            raise RegardError(
                "task.metric='next_sentence_accuracy' needs task.next_sentence=true, but it is false. "
                "Set it to true, or choose another metric, such as masked_accuracy."
            )

    def epoch(self, number: int) -> Batches:
        """The batches of one epoch, by length; pairs and masks are sampled anew."""
        preprocessor, seeds = self.dataset.preprocessor, (self.seed, number)
        rows = paired_rows(
            self.dataset.train,
            rng=np.random.default_rng(seeds),
            next_sentence=self.options.next_sentence,
            max_length=self.options.max_length - 3,
        )
        return self.batches(
            rows.examples,
            epoch=number,
            collate=lambda indices: masked_batch(rows, indices, preprocessor, seeds=seeds),
        )

    def eval_batches(self, split: EvalSplit) -> Batches:
        """Batches with the masks that `evaluate_on` uses."""
        preprocessor = self.dataset.preprocessor
        return masked_batches(preprocessor.encode_split(split)[0], preprocessor)

    def loss(self, model: Any, batch: Batch) -> Loss:
        """The sum of both mean losses, times the number of predictions that the loop divides by."""
        tokens, pairs = batch.target.tokens, batch.target.pairs
        hidden = model.hidden(batch.input)
        logits = model.token_logits(tokens.predicted(hidden))
        total = F.cross_entropy(logits, tokens.labels, reduction="sum")
        total = total / max(1, tokens.num_predictions)
        if pairs is not None:
            # Otherwise the unused head gets no gradient, so that weight decay does not change it either.
            logits = model.pair_logits(model.pooled(hidden))
            loss = F.cross_entropy(logits, pairs.labels, ignore_index=IGNORE_INDEX, reduction="sum")
            total = total + loss / max(1, pairs.num_predictions)
        return Loss(total * batch.num_predictions, batch.num_predictions)

    def evaluate_on(self, model: Any, split: EvalSplit) -> EvalResult:
        """Scores on a split, and the predicted tokens of each document."""
        preprocessor = self.dataset.preprocessor
        rows, owners = preprocessor.encode_split(split)
        batches = masked_batches(rows, preprocessor)
        found: dict[int, list[str]] = {}
        tokens, pairs = RunningScore(), RunningScore()
        for index in range(len(batches)):
            batch = batches[index].to(device_of(model))
            target = batch.target
            hidden = model.hidden(batch.input)
            logits = model.token_logits(target.tokens.predicted(hidden))
            predictions = predicted_tokens(logits)
            tokens.add(logits, target.tokens.labels, predictions)
            if target.pairs is not None:
                logits = model.pair_logits(model.pooled(hidden))
                pairs.add(logits, target.pairs.labels, logits.argmax(dim=-1))
            counts = (target.tokens.classes != IGNORE_INDEX).sum(dim=1).tolist()
            of_rows = predictions.split(counts)
            for row, ids in zip(batches.indices(index), of_rows, strict=True):
                found[int(row)] = preprocessor.input.tokens_of(ids.tolist())
        if not tokens.count:
            raise RegardError(
                "No token is masked: the texts have no known token. Give other texts."
            )
        predicted = join_by_document(found, owners, documents=len(split))
        scores = {"masked_accuracy": tokens.accuracy}
        if pairs.count:
            scores["next_sentence_accuracy"] = pairs.accuracy
        loss = tokens.mean + (pairs.mean if pairs.count else 0.0)
        scores |= {"perplexity": Perplexity.of(tokens.mean), "loss": loss}
        return EvalResult(scores, predicted)

    @classmethod
    def predict(
        cls, model: Any, inputs: Sequence[str], preprocessor: Any, decode: Decode
    ) -> list[str]:
        """Each text with every [MASK] replaced by the most probable token."""
        del decode
        examples, outputs = preprocessor.encode_inputs(inputs), [""] * len(inputs)
        batches = evaluation_batches(examples)
        with torch.inference_mode():
            for index in range(len(batches)):
                rows = batches.indices(index)
                texts = examples.collate_inputs(rows).to(device_of(model))
                logits = model.token_logits(model.hidden(texts))
                filled = torch.where(
                    texts.tokens == MASK_ID, predicted_tokens(logits), texts.tokens
                )
                for row, ids in zip(rows, filled.tolist(), strict=True):
                    outputs[row] = preprocessor.input.decode(ids)
        return outputs
