"""Masked language modelling and next-sentence prediction: pre-training of an encoder (Devlin et al. 2019).

    the cat [MASK] on the mat        →  sat
    first half | second half         →  is the second half the next sentence, or from another document?

Tokens are masked by `data/noising.py`. The loss is the mean cross-entropy of masked tokens plus that of
next-sentence labels. Accuracies are in percent; perplexity is that of the masked tokens. The embedded
data are pages about films. Pairs and masks of evaluation splits are sampled with a fixed seed, the same for
every model. The reference of a document is its masked tokens, separated by spaces.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from jaxtyping import Float, Int, Int64
from torch import Tensor
from torch.nn import functional as F

from regard.core.batches import TextBatch
from regard.core.errors import RegardError
from regard.core.protocols import Decode, Loss
from regard.data.datasets.films import FilmDocuments
from regard.data.noising import mask_tokens
from regard.data.readers.text_file import RowErrors
from regard.data.splits import EvalSplit, Leakage, leakage_summary, split_facts
from regard.data.text_dataset import ChunkDataset, Document, DocumentFile, TextDataset
from regard.data.tokenizers.subword import MASK_ID
from regard.data.tokenizers.vocabulary import Vocabulary
from regard.tasks.metrics.classification import perplexity, token_matches
from regard.tasks.metrics.metric import CorpusMetric, percentage
from regard.tasks.task import (
    EvalResult,
    eval_batches,
    to_device_of,
    validate_options,
    validate_train_split,
)
from regard.tasks.text_task import (
    RowSource,
    TextBatches,
    TextOptions,
    TextTask,
    TextVocabularies,
    collate_texts,
    split_rows,
)

TOKENIZER = "wordpiece"
ENCODE_ROWS = 4096  # enough for the tokenizer to work in parallel
EVAL_SEED = 2019
SENTENCE_ENDS = ".!?"


@dataclass(frozen=True, kw_only=True)
class MaskedLMOptions(TextOptions):
    """As `TextOptions`, with one document per line in `train_file`, and pages about films without it.

    Args:
        next_sentence: Also predict whether the second half of a row follows the first.
        mask_fraction: Fraction of tokens to predict.
    """

    next_sentence: bool = True
    mask_fraction: float = 0.15

    def __post_init__(self) -> None:
        super().__post_init__()
        rule = "above 0 and at most 1. Use for example 0.15"
        validate_options(self, rule, lambda value: 0 < value <= 1, "mask_fraction")


class HeadOutput(NamedTuple):
    """Logits of one prediction head, and the targets."""

    logits: Float[Tensor, "predictions classes"]
    targets: Int[Tensor, " predictions"]


def head_outputs(model: Any, batch: TextBatch) -> tuple[HeadOutput, HeadOutput]:
    """Outputs for masked tokens and for next-sentence labels; other positions are not projected."""
    hidden = model.hidden(batch.tokens, batch.lengths, batch.segments)
    masked, labelled = batch.target_mask, batch.labelled
    of_tokens = HeadOutput(model.token_logits(hidden[masked]), batch.token_targets[masked])
    if not labelled.any():
        # The unused head gets no gradient at all, so that weight decay does not change it either.
        return of_tokens, HeadOutput(hidden.new_zeros(0, 2), batch.labels[:0])
    pooled = model.pooled(hidden)[labelled]
    return of_tokens, HeadOutput(model.pair_logits(pooled), batch.labels[labelled])


def predicted_tokens(
    logits: Float[Tensor, "predictions vocabulary"],
) -> Int[Tensor, " predictions"]:
    """The most probable ordinary token; MASK and the special tokens are excluded."""
    first = MASK_ID + 1
    return logits[..., first:].argmax(dim=-1) + first


class RunningScore:
    """Cross-entropy and accuracy, accumulated over batches."""

    def __init__(self) -> None:
        self.total, self.correct, self.count = 0.0, 0, 0

    def add(self, output: HeadOutput, predictions: Int[Tensor, " predictions"]) -> None:
        """Add the predictions of one batch."""
        self.total += F.cross_entropy(output.logits, output.targets, reduction="sum").item()
        self.correct += int((predictions == output.targets).sum())
        self.count += len(output.targets)

    @property
    def mean(self) -> float:
        """Mean cross-entropy."""
        return self.total / self.count

    @property
    def accuracy(self) -> float:
        """Accuracy in percent."""
        return 100.0 * self.correct / self.count


def eval_split(texts: Sequence[str], options: MaskedLMOptions, vocabulary: Vocabulary) -> EvalSplit:
    """The documents, each with its masked tokens as reference."""
    rows, chunks = eval_rows(texts, options, vocabulary)
    references: dict[int, list[str]] = {}
    batches = masked_batches(rows, options, vocabulary)
    for index in range(len(batches)):
        targets_of_rows = batches[index].token_targets
        for row, targets in zip(batches.indices(index), targets_of_rows, strict=True):
            references[int(row)] = vocabulary.tokens_of(targets[targets >= 0].tolist())
    joined = join_by_document(references, chunks, documents=len(texts))
    return EvalSplit(inputs=tuple(texts), references=tuple((reference,) for reference in joined))


def eval_rows(
    texts: Sequence[str], options: MaskedLMOptions, vocabulary: Vocabulary
) -> tuple[TextDataset, ChunkDataset]:
    """The rows to evaluate on, the same each time, and the chunks that they consist of."""
    chunks = chunk_documents(texts, options, vocabulary)
    pairs = options.next_sentence and len(np.unique(chunks.documents)) > 1
    return chunks.examples(rng=np.random.default_rng(EVAL_SEED), next_sentence=pairs), chunks


def masked_batches(
    rows: TextDataset, options: MaskedLMOptions, vocabulary: Vocabulary
) -> TextBatches:
    """Evaluation batches with fixed masks."""
    return TextBatches(
        index_batches=eval_batches(rows.store),
        collate=lambda indices: masked_batch(
            rows, indices, options, vocabulary=vocabulary.size, seeds=(EVAL_SEED,)
        ),
    )


def masked_batch(
    rows: TextDataset,
    indices: Int64[np.ndarray, " rows"],
    options: MaskedLMOptions,
    *,
    vocabulary: int,
    seeds: tuple[int, ...],
) -> TextBatch:
    """The batch of these rows; the masks are a function of the seeds and of the first row index."""
    batch = collate_texts(rows, indices)
    masked = mask_tokens(
        batch.tokens.numpy(),
        rng=np.random.default_rng([*seeds, int(indices[0])]),
        mask_id=MASK_ID,
        vocab_size=vocabulary,
        mask_fraction=options.mask_fraction,
    )
    tokens, targets = (torch.from_numpy(array) for array in masked)
    return batch._replace(tokens=tokens, token_targets=targets)


def join_by_document(
    tokens: dict[int, list[str]], chunks: ChunkDataset, *, documents: int
) -> list[str]:
    """The tokens of all chunks of each document, in order, separated by spaces."""
    joined: list[list[str]] = [[] for _ in range(documents)]
    for row, document in enumerate(chunks.documents.tolist()):
        joined[document] += tokens[row]
    return [" ".join(of_document) for of_document in joined]


def chunk_documents(
    texts: Iterable[str], options: MaskedLMOptions, vocabulary: Vocabulary
) -> ChunkDataset:
    """Documents in chunks, which leave three positions for START and two ENDs."""
    return ChunkDataset.build(
        _encode(iter(texts), vocabulary),
        max_length=options.max_length - 3,
        sentence_ends={number for mark in SENTENCE_ENDS for number in vocabulary.encode(mark)},
    )


def _encode(texts: Iterator[str], vocabulary: Vocabulary) -> Iterator[list[int]]:
    while block := list(islice(texts, ENCODE_ROWS)):
        yield from vocabulary.encode_all(block)


@dataclass(frozen=True, kw_only=True)
class MaskedLMCorpus:
    """Data splits and vocabulary; the training data is read twice, for vocabulary and tokens."""

    vocabularies: TextVocabularies
    train: ChunkDataset
    validation: EvalSplit
    test: EvalSplit
    # Documents of each evaluation split that also occur in training.
    leakage: dict[str, int]
    errors: RowErrors

    @classmethod
    def read(
        cls,
        options: MaskedLMOptions,
        *,
        texts: RowSource[Document],
        vocabularies: TextVocabularies | None = None,
    ) -> Self:
        """Read the files; given `vocabularies` are reused, as when a run is resumed."""
        errors = RowErrors(skip=options.skip_bad_rows)
        train_errors = errors
        if vocabularies is None:
            rows = split_rows(texts, options, "train", errors)
            vocabularies = TextVocabularies.build(
                options, kind=TOKENIZER, texts=(row.text for row in rows)
            )
            train_errors = RowErrors(skip=True)  # reported by the first pass
        if vocabularies.text.kind != TOKENIZER:
            raise RegardError(
                f"A {vocabularies.text.kind} vocabulary has no [MASK] token. Use {TOKENIZER}."
            )
        splits = {
            split: eval_split(
                [row.text for row in _eval_documents(texts, options, split, errors)],
                options,
                vocabularies.text,
            )
            for split in ("validation", "test")
        }
        leakage = Leakage[Any](splits, lowercase=options.lowercase, text_of=lambda row: row.text)
        watched = leakage.watch(split_rows(texts, options, "train", train_errors))
        train = chunk_documents((row.text for row in watched), options, vocabularies.text)
        validate_train_split(train, options, units="documents")
        return cls(
            vocabularies=vocabularies,
            train=train,
            **splits,
            leakage=leakage.counts(),
            errors=errors,
        )

    def facts(self) -> dict[str, Any]:
        """Sizes and fingerprints of the splits, for a run's record."""
        return {
            "train_documents": len(np.unique(self.train.documents)),
            "train_chunks": len(self.train),
            "train_fingerprint": self.train.fingerprint(),
            **split_facts(self.validation, self.test),
            "leakage": self.leakage,
            "row_errors": self.errors.count,
        }

    def describe(self) -> str:
        """Sizes and leakage in one line."""
        facts = self.facts()
        return (
            f"{facts['train_documents']:,} training documents in {len(self.train):,} chunks, "
            f"{len(self.validation):,} validation documents, {len(self.test):,} test documents; "
            f"vocabulary size {self.vocabularies.text.size:,}"
            + leakage_summary(self.leakage, "documents")
        )


def _eval_documents(
    texts: RowSource[Document], options: MaskedLMOptions, split: str, errors: RowErrors
) -> Iterator[Document]:
    file: str | None = getattr(options, f"{split}_file")
    if file:
        return DocumentFile(path=Path(file)).rows(errors=errors)
    return split_rows(texts, options, split, RowErrors(skip=True))


class MaskedLM(TextTask):
    """Masked language modelling; the default metric is the accuracy on masked tokens."""

    options_class = MaskedLMOptions
    metrics: ClassVar[dict[str, bool]] = {
        "masked_accuracy": False,
        "next_sentence_accuracy": False,
        "perplexity": True,
        "loss": True,
    }
    corpus_metrics: ClassVar[dict[str, CorpusMetric]] = {
        "masked_accuracy": CorpusMetric(token_matches, percentage)
    }

    def __init__(self, *, corpus: Any, options: MaskedLMOptions, seed: int, decode: Decode) -> None:
        super().__init__(corpus=corpus, options=options, seed=seed, decode=decode)
        if self.metric == "next_sentence_accuracy" and not options.next_sentence:
            raise RegardError(
                "task.metric='next_sentence_accuracy' needs task.next_sentence=true, but it is false. "
                "Set it to true, or choose another metric, such as masked_accuracy."
            )

    @classmethod
    def read_corpus(
        cls, options: MaskedLMOptions, vocabularies: TextVocabularies | None
    ) -> MaskedLMCorpus:
        """Read the data files that the options name."""
        texts: RowSource[Document] = (
            FilmDocuments()
            if options.train_file is None
            else DocumentFile(path=Path(options.train_file))
        )
        return MaskedLMCorpus.read(options, texts=texts, vocabularies=vocabularies)

    @classmethod
    def read_split(
        cls, file: str, options: MaskedLMOptions, *, vocabularies: Any = None, errors: RowErrors
    ) -> EvalSplit:
        """Read a file of documents to evaluate on.

        Without vocabularies the references are empty; `evaluate_on` computes its own.
        """
        texts = [row.text for row in DocumentFile(path=Path(file)).rows(errors=errors)]
        if vocabularies is None:
            return EvalSplit(inputs=tuple(texts), references=(("",),) * len(texts))
        return eval_split(texts, options, vocabularies.text)

    def epoch(self, number: int) -> TextBatches:
        """The batches of one epoch, by length; pairs and masks are sampled anew."""
        rows = self.corpus.train.examples(
            rng=np.random.default_rng([self.seed, number]), next_sentence=self.options.next_sentence
        )
        vocabulary, seeds = self.corpus.vocabularies.text.size, (self.seed, number)
        return TextBatches(
            index_batches=self.batches(rows.store, epoch=number),
            collate=lambda indices: masked_batch(
                rows, indices, self.options, vocabulary=vocabulary, seeds=seeds
            ),
        )

    def loss(self, model: Any, batch: TextBatch) -> Loss:
        """The sum of both mean losses, times the number of predictions that the loop divides by."""
        # The mean over no rows is not a number; the sum over them is 0.
        tokens, pairs = (
            F.cross_entropy(output.logits, output.targets, reduction="sum")
            / max(1, len(output.targets))
            for output in head_outputs(model, batch)
        )
        return Loss((tokens + pairs) * batch.num_predictions, batch.num_predictions)

    def evaluate_on(self, model: Any, split: EvalSplit) -> EvalResult:
        """Scores on a split, and the predicted tokens of each document."""
        vocabulary = self.corpus.vocabularies.text
        rows, chunks = eval_rows(split.inputs, self.options, vocabulary)
        batches = masked_batches(rows, self.options, vocabulary)
        tokens_of: dict[int, list[str]] = {}
        tokens, pairs = RunningScore(), RunningScore()
        for index in range(len(batches)):
            batch = to_device_of(model, batches[index])
            of_tokens, of_pairs = head_outputs(model, batch)
            predictions = predicted_tokens(of_tokens.logits)
            tokens.add(of_tokens, predictions)
            pairs.add(of_pairs, of_pairs.logits.argmax(dim=-1))
            of_rows = predictions.split(batch.target_mask.sum(dim=1).tolist())
            for row, ids in zip(batches.indices(index), of_rows, strict=True):
                tokens_of[int(row)] = vocabulary.tokens_of(ids.tolist())
        if not tokens.count:
            raise RegardError(
                "No token is masked: the texts have no known token. Give other texts."
            )
        scores = {"masked_accuracy": tokens.accuracy}
        loss = tokens.mean
        if pairs.count:
            scores["next_sentence_accuracy"] = pairs.accuracy
            loss += pairs.mean
        scores |= {"perplexity": perplexity(tokens.mean), "loss": loss}
        return EvalResult(scores, join_by_document(tokens_of, chunks, documents=len(split.inputs)))

    @classmethod
    def predict(
        cls, model: Any, texts: Sequence[str], vocabularies: Any, decode: Decode, *, options: Any
    ) -> list[str]:
        """Each text with every [MASK] replaced by the most probable token."""
        del decode
        vocabulary = vocabularies.text
        encoded = vocabulary.encode_all(texts)
        longest = options.max_length - 2  # START and END
        for text, ids in zip(texts, encoded, strict=True):
            if len(ids) > longest:
                raise RegardError(
                    f"The text '{text[:40]}…' has {len(ids)} tokens, but the model takes at most "
                    f"{longest}. Split it."
                )
        rows, outputs = TextDataset.of_texts(encoded), [""] * len(encoded)
        index_batches = eval_batches(rows.store)
        with torch.inference_mode():
            for index in range(len(index_batches)):
                indices = index_batches.indices(index)
                batch = to_device_of(model, collate_texts(rows, indices))
                hidden = model.hidden(batch.tokens, batch.lengths, batch.segments)
                masked = batch.tokens == MASK_ID
                filled = batch.tokens.clone()
                filled[masked] = predicted_tokens(model.token_logits(hidden[masked]))
                for row, ids in zip(indices, filled.tolist(), strict=True):
                    outputs[row] = vocabulary.decode(ids)
        return outputs
