"""Which sentences of a document know of which, in hierarchical attention networks.

A sentence of a document is changed, and the vectors of all its sentences are compared with what they were:
in the plain network (Yang et al. 2016) only its own changes, in the context-aware forms (Remy et al. 2019)
those of others too. The networks are not trained: it is a matter of how they are wired.
"""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

from regard.claims.engine import claim
from regard.core.records.claim import Finding, MatrixPicture
from regard.models.classifiers.hierarchical import HierarchicalClassifier

# Sentences of one length are read together, so that rounding may differ in the last bits of float64.
TOLERANCE = 1e-12
WORDS = 50
# It takes two to see one hear of another.
SENTENCES = {"sentences": (2, 40)}


@claim(
    statement="A hierarchical attention network encodes every sentence in isolation.",
    formula="∂(vector of sentence j) / ∂(sentence i) = 0 for i ≠ j",
    source="seed 000; Yang et al. 2016",
    proof="numeric",
    ranges={**SENTENCES, "pair_table": (0, 1_000_000)},
)
def sentences_are_read_in_isolation(
    *, context: str = "none", sentences: int = 5, pair_table: int = 0, seed: int = 0
) -> Finding:
    changes = changes_of(context=context, sentences=sentences, pair_table=pair_table, seed=seed)
    off_diagonal = ~np.eye(sentences, dtype=bool)
    others, own = float(changes[off_diagonal].max()), float(np.diagonal(changes).min())
    alone = others <= TOLERANCE < own
    return Finding(
        verdict="holds" if alone else "fails",
        because=(
            f"Each of {sentences} sentences was changed in turn: its own vector changes by {own:.2g} "
            f"at least, those of the others by {others:.2g} at most (float64; tolerance {TOLERANCE})."
        ),
        figures={"own_least": own, "others_most": others},
        picture=_picture(changes, context=context),
        counter_example="" if alone else _first_other(changes),
    )


@claim(
    statement="With the sentences before as context, a change is heard by later sentences and no others.",
    formula="∂(vector of sentence j) / ∂(sentence i) ≠ 0 ⇔ i ≤ j",
    source="seed 000; Remy et al. 2019",
    proof="numeric",
    ranges=SENTENCES,
)
def context_before_is_heard_later(
    *, context: str = "before", gated: bool = False, sentences: int = 5, seed: int = 0
) -> Finding:
    changes = changes_of(context=context, gated=gated, sentences=sentences, seed=seed)
    later = np.triu(np.ones_like(changes, dtype=bool))
    heard, unheard = float(changes[later].min()), float(changes[~later].max())
    as_said = unheard <= TOLERANCE < heard
    return Finding(
        verdict="holds" if as_said else "fails",
        because=(
            f"A changed sentence changes its own vector and all later ones by {heard:.2g} at least, "
            f"the earlier ones by {unheard:.2g} at most (float64; tolerance {TOLERANCE})."
        ),
        figures={"later_least": heard, "earlier_most": unheard},
        picture=_picture(changes, context=context),
        counter_example="" if as_said else f"Later ones: {heard:.2g}; earlier ones: {unheard:.2g}.",
    )


@claim(
    statement="With context from both sides, a changed sentence is heard by all the others.",
    formula="∂(vector of sentence j) / ∂(sentence i) ≠ 0 for all i, j",
    source="seed 000; Remy et al. 2019",
    proof="numeric",
    ranges=SENTENCES,
)
def context_of_both_sides_is_heard_by_all(
    *, context: str = "both", gated: bool = False, sentences: int = 5, seed: int = 0
) -> Finding:
    changes = changes_of(context=context, gated=gated, sentences=sentences, seed=seed)
    least = float(changes.min())
    return Finding(
        verdict="holds" if least > TOLERANCE else "fails",
        because=(
            f"Whichever of {sentences} sentences is changed, every vector changes by {least:.2g} at least "
            f"(float64; tolerance {TOLERANCE})."
        ),
        figures={"least": least},
        picture=_picture(changes, context=context),
        counter_example="" if least > TOLERANCE else f"A vector changes by {least:.2g} only.",
    )


def changes_of(
    *, context: str, sentences: int, seed: int, gated: bool = False, pair_table: int = 0
) -> np.ndarray:
    """Row i: by how much each sentence's vector changes, at most in any feature, if sentence i does."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = HierarchicalClassifier(
            vocabulary=WORDS,
            classes=2,
            model_dim=12,
            hidden_dim=8,
            context=context,
            gated=gated,
            pair_table=pair_table,
        )
    model.double().eval()
    document = _document(sentences, seed=seed)
    before = _vectors(model, document)
    changed = []
    for place in range(sentences):
        # Every word another one, and one word more: what follows it in the row moves too.
        longer = [*document]
        longer[place] = [4 + (word - 4 + 1) % (WORDS - 4) for word in document[place]] + [5]
        changed.append((_vectors(model, longer) - before).abs().amax(dim=1).numpy())
    return np.stack(changed)


def _document(sentences: int, *, seed: int) -> list[list[int]]:
    drawn = torch.Generator().manual_seed(seed)
    return [
        torch.randint(4, WORDS, (3 + place % 3,), generator=drawn).tolist()
        for place in range(sentences)
    ]


def _vectors(model: HierarchicalClassifier, document: list[list[int]]) -> Tensor:
    """The vectors of the sentences of one document."""
    words = [word for sentence in document for word in sentence]
    ends = list(accumulate(len(sentence) for sentence in document))
    segments = [sum(end <= place for end in ends) for place in range(len(words))]
    with torch.inference_mode():
        return model.sentence_vectors(
            torch.tensor([words]), torch.tensor([len(words)]), torch.tensor([segments])
        )


def _first_other(changes: np.ndarray) -> str:
    apart = changes * ~np.eye(len(changes), dtype=bool)
    changed, heard = np.unravel_index(int(apart.argmax()), apart.shape)
    return (
        f"Changing sentence {changed} changes the vector of sentence {heard} by {apart.max():.3g}."
    )


def _picture(changes: np.ndarray, *, context: str) -> MatrixPicture:
    names = tuple(str(place) for place in range(len(changes)))
    return MatrixPicture(
        title=f"Change of each sentence's vector (columns) by one that is changed; context: {context}",
        values=tuple(tuple(row) for row in changes.tolist()),
        row_labels=tuple(f"changed {name}" for name in names),
        column_labels=names,
    )
