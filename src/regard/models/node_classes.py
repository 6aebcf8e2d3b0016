"""From the scores of the classes at every node of a tree to those of its text.

    root    those of the root
    nodes   the mean over all nodes, words included, of log softmax(W₃ p + b₃)

The second is how nodes are held to the class of their text (Socher et al. 2011, section 2.4) by a model
that is never told the class. With m the mean of the logarithms, cross-entropy against the class c is
−m_c + log Σ exp m; a penalty of −log Σ exp m, which is 0 where all nodes agree and more where they do not,
leaves −m_c: the mean of the cross-entropies of all nodes.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.core.text_classifier import Classified
from regard.models.tree_batch import TreeBatch

Head = Callable[[Tensor], Tensor]


def at_root(
    head: Head,
    vectors: Float[Tensor, "nodes width"],
    trees: TreeBatch,
    lengths: Int[Tensor, " texts"],
) -> Classified:
    """What the vector of the whole text says."""
    return Classified(head(vectors[trees.roots]), vectors.new_zeros(len(lengths)))


def at_nodes(
    head: Head,
    vectors: Float[Tensor, "nodes width"],
    trees: TreeBatch,
    lengths: Int[Tensor, " texts"],
) -> Classified:
    """What all nodes say together, and a penalty for disagreeing."""
    rows = torch.arange(len(lengths), device=lengths.device)
    texts = torch.cat([rows.repeat_interleave(lengths), trees.texts])
    said = head(vectors).log_softmax(dim=1)
    summed = said.new_zeros(len(lengths), said.shape[1]).index_add(0, texts, said)
    mean = summed / (2 * lengths - 1)[:, None]
    return Classified(mean, -mean.logsumexp(dim=1))


CLASSIFIED_AT = {"root": at_root, "nodes": at_nodes}
