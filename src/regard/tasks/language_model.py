"""Language modelling: next-token prediction, or span corruption (denoising, as in T5).

    next tokens       (nothing)          →  a b c d e f       span_fraction = 0
    span corruption   a b <unknown> f    →  c d e             span_fraction = 1  (data/noising.py)

Question-answer pairs may be mixed in (`qa_fraction`), so that facts are memorised in a form that can be
queried ("mixed training" of Allen-Zhu and Li 2024). Texts longer than `max_length` are split into
chunks; with `stream`, the lines of a file are one continuous text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator
from torch.nn import functional as F

from regard.core.batches import UNKNOWN, Batch
from regard.core.errors import RegardError
from regard.core.options import Fraction, PositiveFraction, PositiveInt, Probability
from regard.core.protocols import Decode, Loss
from regard.core.traits import TargetKind
from regard.data.batching import Batches, evaluation_batches
from regard.data.dataset import Dataset
from regard.data.datasets.films import FilmDocuments, FilmQuestions
from regard.data.examples import Examples, Ragged, concatenate_pairs
from regard.data.noising import corrupt_spans, corrupt_texts
from regard.data.preprocessor import (
    Encoded,
    PairPreprocessor,
    Rows,
    blocks,
    pair_examples,
    text_vocabulary,
)
from regard.data.readers.text_file import GeneratedRows, Reader, Row, RowErrors
from regard.data.readers.text_reader import TextReader
from regard.data.splits import EvalSplit, Split, dedup_key, holdout_fractions, split_of
from regard.tasks.metrics import BitsPerCharacter, Loss as LossMetric, Perplexity
from regard.tasks.sequence import SequenceOptions, sequence_loss
from regard.tasks.task import EvalResult, FileOptions, Task, device_of

EVAL_SEED = 0  # the same spans at every evaluation
# Without a validation split, this many training texts are evaluated on.
TRAIN_EVAL_TEXTS = 200
# A continuous text is evaluated in chunks of this many characters, but in at least so many chunks.
EVAL_CHUNK_CHARACTERS = 2000
MIN_EVAL_CHUNKS = 40


class LMOptions(FileOptions):
    """As `FileOptions`; format, header and columns are those of `qa_file`, all other files are texts.

    Args:
        films: Number of embedded films, the data without `train_file`.
        validation_fraction: With 0 and without `validation_file`, training texts are evaluated on.
        tokens: Tokenizer: characters, words or subwords.
        vocabulary_size: Size of a subword vocabulary.
        lowercase: Lower-case all texts.
        max_length: Maximum number of tokens; longer texts are split into chunks.
        stream: Treat the lines as one continuous text, as in a book, and hold out its end.
        label_smoothing: Probability mass spread over all tokens.
        span_fraction: Fraction of texts with span corruption; the others predict next tokens.
        spans: Corrupt one span per text, or several.
        noise_density: Fraction of the tokens in spans, with several spans.
        mean_span_length: Mean length of a span, with several spans.
        max_span_fraction: Maximum fraction of a text in its one span.
        full_length_probability: How often a text with one span is not truncated first.
        min_kept_fraction: Minimum fraction that a truncated text keeps.
        qa_file: Question-answer pairs to mix in; they are part of the vocabulary too.
        qa_fraction: Fraction of pairs among all examples.
        qa_validation_fraction, qa_test_fraction: Fractions of the pairs that are excluded, since a
            fine-tuning task evaluates on them.
        qa_lowercase: Whether that task treats sources that differ in case as equal.
    """

    films: PositiveInt = 2000
    test_fraction: Probability = 0.0
    tokens: Literal["characters", "words", "subwords"] = "subwords"
    vocabulary_size: PositiveInt = 4000
    lowercase: bool = False
    max_length: PositiveInt = 256
    stream: bool = False
    label_smoothing: Probability = 0.0
    span_fraction: Fraction = 0.0
    spans: Literal["one", "several"] = "one"
    noise_density: PositiveFraction = 0.15
    mean_span_length: Annotated[float, Field(ge=1)] = 3.0
    max_span_fraction: PositiveFraction = 0.5
    full_length_probability: Fraction = 0.3
    min_kept_fraction: PositiveFraction = 0.25
    qa_file: str | None = None
    qa_fraction: Probability = 0.0
    qa_validation_fraction: Probability = 0.0
    qa_test_fraction: Probability = 0.0
    qa_lowercase: bool = False

    @model_validator(mode="after")
    def _validate_combination(self) -> Self:
        if self.stream and self.span_fraction:
            raise RegardError(
                f"task.stream=true is incompatible with task.span_fraction={self.span_fraction}: span "
                "corruption needs texts with an end. Set one of them to false or 0."
            )
        if self.qa_fraction and self.qa_file is None and self.train_file is not None:
            raise RegardError(
                f"task.qa_fraction={self.qa_fraction} mixes in question-answer pairs, but there are none. "
                "Name a file with task.qa_file=FILE."
            )
        return self


def qa_options(task_options: Any) -> dict[str, Any]:
    """Options of a pre-training stage that mix in the pairs of its fine-tuning task.

    The validation and test pairs of that task are excluded, to avoid leakage.
    """
    validation, test = holdout_fractions(task_options)
    shared = ("format", "source_column", "target_column", "header", "skip_bad_rows")
    return {
        "qa_file": task_options.train_file,
        **{name: getattr(task_options, name) for name in shared},
        "qa_lowercase": task_options.lowercase != "no",
        "qa_validation_fraction": validation,
        "qa_test_fraction": test,
    }


def qa_pairs(options: LMOptions, errors: RowErrors) -> Iterator[tuple[str, str]]:
    """Question-answer pairs to mix in, without those that a fine-tuning task evaluates on."""
    if options.qa_file is not None:
        given = ("format", "source_column", "target_column", "header")
        reader: Reader = TextReader.from_text(
            options.qa_file, **{name: getattr(options, name) for name in given}
        )
    elif options.train_file is None:
        reader = FilmQuestions(count=options.films)
    else:
        return
    validation, test = options.qa_validation_fraction, options.qa_test_fraction
    for row in reader.rows(errors=errors):
        question = dedup_key(row.input, lowercase=options.qa_lowercase)
        if split_of(question, validation=validation, test=test) == "train":
            yield row.input, row.target


class LMPreprocessor(PairPreprocessor):
    """Texts as targets of an empty source, in chunks; pairs may be encoded too."""

    unit: ClassVar[str] = "texts"

    @classmethod
    def fit(cls, options: Any, rows: Rows, *, path: Path, known: Self | None = None) -> Self:
        """One vocabulary of all texts and of the pairs."""
        del path
        if known is not None:
            return known
        pairs = qa_pairs(options, RowErrors(skip=options.skip_bad_rows))
        texts = chain((row.input for row in rows()), chain.from_iterable(pairs))
        shared = text_vocabulary(options, options.tokens, texts, lowercase=options.lowercase)
        return cls(options, input=shared, target=shared)

    def encode(self, rows: Iterable[Row], *, path: Path, errors: RowErrors) -> Iterator[Encoded]:
        """Token ids of the texts."""
        del path, errors
        for block in blocks(rows):
            texts = self.target.encode_all(row.input for row in block)
            yield from (Encoded(row, (), ids) for row, ids in zip(block, texts, strict=True))

    def examples(self, encoded: Iterable[Encoded]) -> Examples:
        """The texts in chunks; an empty text is one empty chunk."""
        owners: list[int] = []

        def chunks() -> Iterator[Sequence[int]]:
            limit = self.options.max_length
            for owner, each in enumerate(encoded):
                for first in range(0, max(1, len(each.target)), limit):
                    owners.append(owner)
                    yield each.target[first : first + limit]

        targets = Ragged.of(chunks())
        inputs = Ragged(np.zeros(0, dtype=np.int32), np.zeros(len(owners) + 1, dtype=np.int64))
        return Examples(
            inputs=inputs, targets=targets, end=True, owners=np.array(owners, dtype=np.int64)
        )

    def split(self, rows: Iterable[Row], *, path: Path) -> EvalSplit:
        """A text is its own reference."""
        return EvalSplit.of((row._replace(target=row.input) for row in rows), path=path)

    def encode_split(self, split: EvalSplit) -> Examples:
        """The texts in chunks, like the training texts."""
        rows = (Row(text, None, 0) for text in split.references)
        return self.examples(self.encode(rows, path=Path(), errors=RowErrors()))


class LanguageModelling(Task):
    """The default metric is bits per character, or the loss with span corruption."""

    options_class: ClassVar[type[Any]] = LMOptions
    preprocessor_class = LMPreprocessor
    target_kind: ClassVar[TargetKind] = "sequence"
    metrics = (BitsPerCharacter(), Perplexity(), LossMetric())
    datasets: ClassVar[Mapping[str, Any]] = {
        "film-facts": lambda options: FilmDocuments(count=options.films)
    }
    is_generative: ClassVar[bool] = True

    def __init__(self, *, dataset: Dataset, options: Any, seed: int, decode: Decode) -> None:
        super().__init__(dataset=dataset, options=options, seed=seed, decode=decode)
        if options.metric == "" and not self._has_whole_texts:
            self.metric = "loss"
        elif self.metric == "bits_per_character" and not self._has_whole_texts:
            raise RegardError(
                "task.metric='bits_per_character' needs whole texts of characters or subwords: "
                "out-of-vocabulary words would cost nothing. Set task.metric=perplexity."
            )

    @property
    def _has_whole_texts(self) -> bool:
        """Whether bits per character are defined."""
        return self.options.span_fraction < 1 and self.options.tokens != "words"

    @classmethod
    def reader(cls, options: Any, file: str | None) -> Reader:
        """A file with one text per line, or sentences about films."""
        if file is None or file in cls.datasets:
            return super().reader(options, file)
        return TextReader(path=Path(file), target="none")

    @classmethod
    def readers(cls, options: Any, errors: RowErrors | None = None) -> dict[Split, Reader]:
        """As for every task; the end of a continuous text is held out, not chunks between others.

        `errors` collects the row errors of a continuous text, which is read here.
        """
        found = super().readers(options)
        if not options.stream:
            return found
        errors = RowErrors(skip=options.skip_bad_rows) if errors is None else errors
        texts: dict[Split, list[str]] = {
            split: _joined_lines([row.input for row in reader.rows(errors=errors)])
            for split, reader in found.items()
        }
        validation, test = holdout_fractions(options)
        chunks = texts["train"]
        ends = [round(len(chunks) * part) for part in (1 - validation - test, 1 - test)]
        texts["train"] = [" ".join(chunks[: ends[0]])] if ends[0] else []
        texts.setdefault("validation", chunks[ends[0] : ends[1]])
        texts.setdefault("test", chunks[ends[1] :])
        return {split: _fixed(found["train"].path, of_split) for split, of_split in texts.items()}

    @classmethod
    def read_dataset(cls, options: Any, preprocessor: Any = None) -> Dataset:
        """The texts, with pairs to mix in; without a validation split, training texts in its place."""
        errors = RowErrors(skip=options.skip_bad_rows)
        readers = cls.readers(options, errors)
        dataset = Dataset.read(cls.preprocessor_class, options, readers, preprocessor=preprocessor)
        if errors.count:
            dataset = replace(dataset, errors=errors)
        fitted = dataset.preprocessor
        if options.qa_fraction:
            pairs = list(qa_pairs(options, dataset.errors))
            sides = (fitted.target.encode_all(pair[side] for pair in pairs) for side in (0, 1))
            if pairs:
                dataset = replace(dataset, extra=pair_examples(zip(*sides, strict=True)))
        if not len(dataset.validation) and not (
            options.validation_file or options.validation_fraction
        ):
            rows = readers["train"].rows(errors=RowErrors(skip=True))
            texts = [
                row._replace(input=row.input[-EVAL_CHUNK_CHARACTERS:]) if options.stream else row
                for row in islice(rows, TRAIN_EVAL_TEXTS)
            ]
            validation = fitted.split(texts, path=readers["train"].path)
            details = {"validation_is_train": True}
            dataset = replace(dataset, validation=validation, details=details)
        return dataset

    @classmethod
    def predict(
        cls, model: Any, inputs: Sequence[Any], preprocessor: Any, decode: Decode
    ) -> list[Any]:
        """Raises: a language model samples continuations with `TrainedRun.generate`."""
        del model, inputs, preprocessor, decode
        raise RegardError(
            "A language model has no single prediction for a text. Sample a continuation with generate."
        )

    def epoch(self, number: int) -> Batches:
        """Every text once, whole or corrupted, with question-answer pairs mixed in."""
        return self.batches(self._examples(number), epoch=number)

    @classmethod
    def inherited_options(cls, own: Mapping[str, Any], task_options: Any) -> dict[str, Any]:
        """The question-answer pairs of the fine-tuning task, unless others are named (`qa_options`).

        For the same pairs, its validation and test questions are always excluded.
        """
        if isinstance(task_options, SequenceOptions) and own.get("qa_file") in (
            None,
            task_options.train_file,
        ):
            return qa_options(task_options)
        return {}

    def loss(self, model: Any, batch: Batch) -> Loss:
        """The cross-entropy of the next tokens."""
        return sequence_loss(model, batch, label_smoothing=self.options.label_smoothing)

    def evaluate_on(self, model: Any, split: EvalSplit) -> EvalResult:
        """Scores on a split; the "prediction" for a text is its negative log-likelihood in nats."""
        examples = self.dataset.preprocessor.encode_split(split)
        owners = examples.owners
        if self.options.span_fraction == 1:
            examples = self._corrupted(examples.targets, seed=EVAL_SEED, epoch=0)
        nats, count = np.zeros(len(split)), 0
        batches = evaluation_batches(examples)
        for index in range(len(batches)):
            batch = batches[index].to(device_of(model))
            np.add.at(nats, owners[batches.indices(index)], _nats_per_row(model, batch))
            count += batch.num_predictions
        mean = float(nats.sum()) / count
        predictions = nats.round(6).tolist()
        scores = {"loss": mean, "perplexity": Perplexity.of(mean)}
        if self._has_whole_texts:
            scores |= self.scores(predictions, split.references, self.options)
        return EvalResult(scores, predictions)

    def _corrupted(self, texts: Any, *, seed: int, epoch: int) -> Examples:
        options = self.options
        if options.spans == "one":
            return corrupt_texts(
                texts,
                seed=seed,
                epoch=epoch,
                max_span_fraction=options.max_span_fraction,
                full_length_probability=options.full_length_probability,
                min_kept_fraction=options.min_kept_fraction,
            )
        rng = np.random.default_rng([seed, epoch])
        pairs = [
            # UNKNOWN marks a span, so a text with unknown tokens is not corrupted.
            ([], tokens)
            if UNKNOWN in tokens
            else corrupt_spans(
                tokens,
                noise_density=options.noise_density,
                mean_span_length=options.mean_span_length,
                rng=rng,
            )
            for tokens in (texts[row].tolist() for row in range(len(texts)))
        ]
        inputs, targets = (Ragged.of(pair[side] for pair in pairs) for side in (0, 1))
        return Examples(inputs=inputs, targets=targets, end=True)

    def _examples(self, epoch: int) -> Examples:
        """The examples of one epoch, a function of seed and epoch number."""
        options, texts, pairs = self.options, self.dataset.train, self.dataset.extra
        rng = np.random.default_rng([self.seed, epoch, 1])
        corrupted = rng.random(len(texts)) < options.span_fraction
        parts = [texts.select(np.flatnonzero(~corrupted))]
        if corrupted.any():
            chosen = texts.select(np.flatnonzero(corrupted))
            parts.append(self._corrupted(chosen.targets, seed=self.seed, epoch=epoch))
        if pairs is not None and options.qa_fraction:
            count = round(len(texts) * options.qa_fraction / (1 - options.qa_fraction))
            parts.append(pairs.select(self._pair_rows(len(pairs), epoch, count)))
        return concatenate_pairs(parts)

    def _pair_rows(self, total: int, epoch: int, count: int) -> Any:
        """The pairs of this epoch: `count` per epoch, from an endless stream of permutations."""
        first = epoch * count
        rows = np.arange(first, first + count)
        found = np.empty(count, dtype=np.int64)
        for turn in range(first // total, (first + count - 1) // total + 1):
            order = np.random.default_rng([self.seed, turn, 2]).permutation(total)
            here = rows // total == turn
            found[here] = order[rows[here] % total]
        return found


def _fixed(path: Path, texts: Sequence[str]) -> GeneratedRows:
    """A reader of these texts."""
    return GeneratedRows(
        path=path, generate=lambda: (Row(text, None, line) for line, text in enumerate(texts, 1))
    )


def _joined_lines(lines: Sequence[str]) -> list[str]:
    """Lines joined to chunks of some length, so that few tokens are predicted without context."""
    chunks, held, size = list[str](), list[str](), 0
    least = min(EVAL_CHUNK_CHARACTERS, sum(map(len, lines)) // MIN_EVAL_CHUNKS)
    for line in lines:
        held.append(line)
        size += len(line) + 1
        if size >= least:
            chunks.append(" ".join(held))
            held, size = [], 0
    return [*chunks, " ".join(held)] if held else chunks


def _nats_per_row(model: Any, batch: Batch) -> Any:
    """Negative log-likelihood of each row in nats."""
    target = batch.target
    hidden = target.predicted(model.hidden(batch.input, target.decoder_input))
    losses = F.cross_entropy(model.logits(hidden), target.labels, reduction="none")
    totals = np.zeros(len(target.lengths))
    np.add.at(totals, target.rows.cpu().numpy(), losses.double().cpu().numpy())
    return totals
