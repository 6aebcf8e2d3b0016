"""The bar of the hierarchical classifier: documents a second in training, against padding every sentence.

Batches are the first reviews of IMDB, found through REGARD_DATA, as they stand in the file and, once more,
put together by length as the task does. Both rivals are the same model with a step of the same optimiser,
and run in turn; in float64 their logits are compared first.
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

from benchmarks.measuring import Call, Finding, median_seconds
from benchmarks.padded_hierarchy import padded_logits, rectangular
from regard.core.errors import RegardError
from regard.data.readers.labelled import LabelledSource
from regard.data.readers.text_file import BadRows
from regard.data.tokenizers.vocabulary import build_vocabulary
from regard.models.classifiers.hierarchical import HierarchicalClassifier
from regard.tasks.classification.corpus import ClassifyOptions, text_rows
from regard.tasks.text_task import TextVocabularies

REVIEWS, ROWS, BATCHES = 640, 32, 4
REPEATS = 3
TIMES_FASTER = 3.0
APART = 1e-10


class Documents(NamedTuple):
    """A batch and its labels."""

    tokens: Tensor
    lengths: Tensor
    segments: Tensor
    labels: Tensor


def hierarchical() -> Iterator[Finding]:
    """The same logits, then how many more documents a second."""
    torch.manual_seed(0)
    vocabulary, documents = reviews()
    model = HierarchicalClassifier(vocabulary=vocabulary, classes=2)
    as_they_stand = [documents(np.arange(start, start + ROWS)) for start in _starts()]
    yield Finding(
        f"logits apart, float64, {ROWS} documents, / {APART:g}",
        _apart(model, as_they_stand[0]) / APART,
        1.0,
        larger_is_better=False,
    )
    yield _gain(model, as_they_stand, what="as they stand")
    lengths = documents(np.arange(REVIEWS)).lengths.numpy()
    by_length = np.argsort(lengths, kind="stable")
    alike = [documents(by_length[start * 4 : start * 4 + ROWS]) for start in _starts()]
    yield _gain(model, alike, what="of like length")


def reviews() -> tuple[int, Callable[[np.ndarray], Documents]]:
    """The size of their vocabulary, and what makes a batch of some of them."""
    folder = os.environ.get("REGARD_DATA")
    if not folder or not (path := Path(folder, "imdb", "train.tsv.gz")).is_file():
        raise RegardError(
            "The benchmark of hierarchical attention reads imdb/, and REGARD_DATA names no folder that has "
            "it. Set it to the folder of the corpora."
        )
    source = LabelledSource(path=path, text_column=3, label_column=0)
    texts = [row.text for row in islice(source.rows(bad=BadRows(skip=True)), REVIEWS)]
    words = build_vocabulary("running_words", texts, lowercase=True, min_count=2)
    options = ClassifyOptions(tokens="running_words", sentences=True, max_length=400)
    rows = text_rows(texts, TextVocabularies(text=words), options)

    def documents(chosen: np.ndarray) -> Documents:
        tokens, lengths, segments = (torch.from_numpy(array) for array in rows.padded(chosen))
        return Documents(tokens, lengths, segments, torch.from_numpy(chosen % 2))

    return words.size, documents


def _starts() -> range:
    return range(0, REVIEWS // 4, REVIEWS // 4 // BATCHES)


def _apart(model: HierarchicalClassifier, texts: Documents) -> float:
    model = copy.deepcopy(model).double().eval()
    with torch.no_grad():
        ours = model.classified(texts.tokens, texts.lengths, texts.segments).logits
        theirs = padded_logits(model, *rectangular(*texts[:3]))
    return float((ours - theirs).abs().max())


def _gain(model: HierarchicalClassifier, batches: list[Documents], *, what: str) -> Finding:
    ragged, padded = copy.deepcopy(model), copy.deepcopy(model)

    def ours(texts: Documents) -> Tensor:
        return ragged.classified(texts.tokens, texts.lengths, texts.segments).logits

    def theirs(texts: Documents) -> Tensor:
        return padded_logits(padded, *rectangular(*texts[:3]))

    calls = [_steps(ragged, ours, batches), _steps(padded, theirs, batches)]
    seconds = median_seconds(calls, repeats=REPEATS)
    rates = [len(batches) * ROWS / each for each in seconds]
    return Finding(
        f"training, documents a second, times padding, {what}",
        rates[0] / rates[1],
        TIMES_FASTER,
        larger_is_better=True,
        detail=f"({rates[0]:.0f} against {rates[1]:.0f})",
    )


def _steps(
    model: HierarchicalClassifier, said: Callable[[Documents], Tensor], batches: list[Documents]
) -> Call:
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def steps() -> None:
        for texts in batches:
            optimiser.zero_grad()
            F.cross_entropy(said(texts), texts.labels).backward()
            optimiser.step()

    return steps
