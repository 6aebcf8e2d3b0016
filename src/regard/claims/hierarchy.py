"""Which sentence vectors depend on which sentences in hierarchical attention networks (HAN).

One sentence of a document is changed and the vectors of all sentences are compared. In the plain network
(Yang et al. 2016) only its own vector changes; in context-aware variants (Remy et al. 2019) others change
too. The networks are untrained: the dependence follows from the architecture.
"""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

from regard.claims.engine import claim, matrix_figure
from regard.core.batches import TokenInput
from regard.core.records.claim import Finding, MatrixFigure
from regard.models.classifiers.hierarchical import HierarchicalClassifier

# Sentences of equal length are batched together, so float64 rounding may differ.
TOLERANCE = 1e-12
WORDS = 50
# At least two, to compare one sentence with another.
SENTENCES = {"sentences": (2, 40)}


@claim(
    statement="A hierarchical attention network encodes every sentence independently.",
    formula="∂(vector of sentence j) / ∂(sentence i) = 0 for i ≠ j",
    source="Yang et al. 2016",
    proof="numeric",
    ranges={**SENTENCES, "bigram_buckets": (0, 1_000_000)},
)
def sentences_are_encoded_independently(
    *, context: str = "none", sentences: int = 5, bigram_buckets: int = 0, seed: int = 0
) -> Finding:
    changes = sentence_changes(
        context=context, sentences=sentences, bigram_buckets=bigram_buckets, seed=seed
    )
    off_diagonal = ~np.eye(sentences, dtype=bool)
    others, own = float(changes[off_diagonal].max()), float(np.diagonal(changes).min())
    independent = others <= TOLERANCE < own
    return Finding(
        verdict="holds" if independent else "fails",
        reason=(
            f"Changing each of {sentences} sentences in turn changes its own vector by at least {own:.2g} "
            f"and those of the others by at most {others:.2g} (float64; tolerance {TOLERANCE})."
        ),
        values={"own_min": own, "others_max": others},
        figure=_figure(changes, context=context),
        counter_example=_largest_other(changes),
    )


@claim(
    statement="With left context, a sentence affects its own and later vectors only.",
    formula="∂(vector of sentence j) / ∂(sentence i) ≠ 0 ⇔ i ≤ j",
    source="Remy et al. 2019",
    proof="numeric",
    ranges=SENTENCES,
)
def left_context_reaches_later_sentences(
    *, context: str = "before", gated: bool = False, sentences: int = 5, seed: int = 0
) -> Finding:
    changes = sentence_changes(context=context, gated=gated, sentences=sentences, seed=seed)
    later = np.triu(np.ones_like(changes, dtype=bool))
    after, before = float(changes[later].min()), float(changes[~later].max())
    holds = before <= TOLERANCE < after
    return Finding(
        verdict="holds" if holds else "fails",
        reason=f"A changed sentence changes its own and all later vectors by at least {after:.2g}, "
        f"earlier ones by at most {before:.2g} (float64; tolerance {TOLERANCE}).",
        values={"later_min": after, "earlier_max": before},
        figure=_figure(changes, context=context),
        counter_example=f"Later vectors: {after:.2g}; earlier vectors: {before:.2g}.",
    )


@claim(
    statement="With bidirectional context, every sentence affects all vectors.",
    formula="∂(vector of sentence j) / ∂(sentence i) ≠ 0 for all i, j",
    source="Remy et al. 2019",
    proof="numeric",
    ranges=SENTENCES,
)
def bidirectional_context_reaches_all_sentences(
    *, context: str = "both", gated: bool = False, sentences: int = 5, seed: int = 0
) -> Finding:
    changes = sentence_changes(context=context, gated=gated, sentences=sentences, seed=seed)
    least = float(changes.min())
    return Finding(
        verdict="holds" if least > TOLERANCE else "fails",
        reason=f"Changing any of {sentences} sentences changes every vector by at least {least:.2g} "
        f"(float64; tolerance {TOLERANCE}).",
        values={"min": least},
        figure=_figure(changes, context=context),
        counter_example=f"One vector changes by only {least:.2g}.",
    )


def sentence_changes(
    *, context: str, sentences: int, seed: int, gated: bool = False, bigram_buckets: int = 0
) -> np.ndarray:
    """Row i: largest change of each sentence vector when sentence i changes."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = HierarchicalClassifier(
            source=WORDS,
            outputs=2,
            model_dim=12,
            hidden_dim=8,
            context=context,  # type: ignore[arg-type]  # checked by the constructor
            gated=gated,
            bigram_buckets=bigram_buckets,
        )
    model.double().eval()
    document = _document(sentences, seed=seed)
    before = _vectors(model, document)
    changed = []
    for index in range(sentences):
        # Replace every word and append one, so that later sentences shift as well.
        other = [*document]
        other[index] = [4 + (word - 4 + 1) % (WORDS - 4) for word in document[index]] + [5]
        changed.append((_vectors(model, other) - before).abs().amax(dim=1).numpy())
    return np.stack(changed)


def _document(sentences: int, *, seed: int) -> list[list[int]]:
    generator = torch.Generator().manual_seed(seed)
    return [
        torch.randint(4, WORDS, (3 + index % 3,), generator=generator).tolist()
        for index in range(sentences)
    ]


def _vectors(model: HierarchicalClassifier, document: list[list[int]]) -> Tensor:
    """The sentence vectors of one document."""
    words = [word for sentence in document for word in sentence]
    ends = list(accumulate(len(sentence) for sentence in document))
    segments = [sum(end <= index for end in ends) for index in range(len(words))]
    with torch.inference_mode():
        return model.sentence_vectors(
            TokenInput(torch.tensor([words]), torch.tensor([len(words)]), torch.tensor([segments]))
        )


def _largest_other(changes: np.ndarray) -> str:
    others = changes * ~np.eye(len(changes), dtype=bool)
    changed, affected = np.unravel_index(int(others.argmax()), others.shape)
    return f"Changing sentence {changed} changes the vector of sentence {affected} by {others.max():.3g}."


def _figure(changes: np.ndarray, *, context: str) -> MatrixFigure:
    names = tuple(str(index) for index in range(len(changes)))
    return matrix_figure(
        f"Change of sentence vectors (columns) when one sentence (rows) changes; context: {context}",
        changes.tolist(),
        rows=(f"changed {name}" for name in names),
        columns=names,
    )
