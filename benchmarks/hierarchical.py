"""Hierarchical classifier: training documents per second, against padding every sentence.

Batches are the first reviews of IMDB (REGARD_DATA), in file order and bucketed by length. Both systems
are the same model with the same optimizer step, alternating; their float64 logits are compared first.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.hierarchical_reference import padded_logits, rectangular
from benchmarks.measurement import Call, Measurement, median_seconds
from regard.core.batches import TokenInput
from regard.core.errors import RegardError
from regard.data.item_preprocessor import ItemPreprocessor
from regard.data.readers.text_file import RowErrors
from regard.data.readers.text_reader import TextReader
from regard.data.tokenizers.vocabulary import build_vocabulary
from regard.models.classifiers.hierarchical import HierarchicalClassifier
from regard.tasks.classification.task import ClassifyOptions

REVIEWS, ROWS, BATCHES = 640, 32, 4
REPEATS = 3
TIMES_FASTER = 3.0
TOLERANCE = 1e-10


class Documents(NamedTuple):
    """A batch and its labels."""

    input: TokenInput
    labels: Tensor

    def rectangular(self) -> tuple[Tensor, Tensor, Tensor]:
        """Every sentence padded to the longest."""
        assert self.input.segments is not None
        return rectangular(self.input.tokens, self.input.lengths, self.input.segments)


def hierarchical() -> Iterator[Measurement]:
    """Equal logits, then documents per second."""
    torch.manual_seed(0)
    vocabulary, documents = reviews()
    model = HierarchicalClassifier(source=vocabulary, outputs=2)
    file_order = [documents(np.arange(start, start + ROWS)) for start in _starts()]
    yield Measurement(
        f"difference of logits, float64, {ROWS} documents, / {TOLERANCE:g}",
        _difference(model, file_order[0]) / TOLERANCE,
        1.0,
        larger_is_better=False,
    )
    yield _speedup(model, file_order, case="in file order")
    lengths = documents(np.arange(REVIEWS)).input.lengths.numpy()
    by_length = np.argsort(lengths, kind="stable")
    bucketed = [documents(by_length[start * 4 : start * 4 + ROWS]) for start in _starts()]
    yield _speedup(model, bucketed, case="bucketed by length")


def reviews() -> tuple[int, Callable[[np.ndarray], Documents]]:
    """The vocabulary size, and a function that makes a batch of some reviews."""
    folder = os.environ.get("REGARD_DATA")
    if not folder or not (path := Path(folder, "imdb", "train.tsv.gz")).is_file():
        raise RegardError(
            "The benchmark 'hierarchical' needs imdb/train.tsv.gz in the folder REGARD_DATA. Set "
            "REGARD_DATA to the data folder."
        )
    source = TextReader(path=path, target="label", source_column=3, target_column=0)
    texts = [row.input for row in islice(source.rows(errors=RowErrors(skip=True)), REVIEWS)]
    words = build_vocabulary("word_punct", texts, lowercase=True, min_count=2)
    options = ClassifyOptions(tokens="word_punct", sentences=True, max_length=400)
    examples = ItemPreprocessor(options, input=words).encode_inputs(texts)

    def documents(selected: np.ndarray) -> Documents:
        found = examples.collate_inputs(selected)
        assert isinstance(found, TokenInput)
        return Documents(found, torch.from_numpy(selected % 2))

    return words.size, documents


def _starts() -> range:
    return range(0, REVIEWS // 4, REVIEWS // 4 // BATCHES)


def _difference(model: HierarchicalClassifier, texts: Documents) -> float:
    model = copy.deepcopy(model).double().eval()
    with torch.no_grad():
        ours = model.classify(texts.input).logits
        theirs = padded_logits(model, *texts.rectangular())
    return float((ours - theirs).abs().max())


def _speedup(model: HierarchicalClassifier, batches: list[Documents], *, case: str) -> Measurement:
    ragged, padded = copy.deepcopy(model), copy.deepcopy(model)

    def ours(texts: Documents) -> Tensor:
        return ragged.classify(texts.input).logits

    def theirs(texts: Documents) -> Tensor:
        return padded_logits(padded, *texts.rectangular())

    calls = [_steps(ragged, ours, batches), _steps(padded, theirs, batches)]
    seconds = median_seconds(calls, repeats=REPEATS)
    rates = [len(batches) * ROWS / each for each in seconds]
    return Measurement(
        f"training, documents/s: ours / padded, {case}",
        rates[0] / rates[1],
        TIMES_FASTER,
        larger_is_better=True,
        detail=f"({rates[0]:.0f} against {rates[1]:.0f})",
    )


def _steps(
    model: HierarchicalClassifier, logits: Callable[[Documents], Tensor], batches: list[Documents]
) -> Call:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def steps() -> None:
        for texts in batches:
            optimizer.zero_grad()
            F.cross_entropy(logits(texts), texts.labels).backward()
            optimizer.step()

    return steps
