"""Reference implementation of the recursive autoencoder: one text, one pair, one node at a time.

It uses the parameters of a `RecursiveAutoencoder` and returns the same as its `classify`, gradients
included. As there, only the pairs with the new node are scored after a merge.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.batches import TokenInput
from regard.core.protocols import ClassifierOutput
from regard.models.autoencoders.recursive import RecursiveAutoencoder
from regard.models.autoencoders.trees import tie_tolerance


@dataclass(frozen=True)
class Node:
    """A word, or a merge of two nodes with its reconstruction error."""

    vector: Tensor
    words: int = 1
    children: tuple[Node, Node] | None = None
    error: Tensor | None = None
    size: float = 0.0

    def brackets(self) -> str:
        """The shape of the tree: a dot for a word, brackets around a merge."""
        if self.children is None:
            return "."
        left, right = self.children
        return f"({left.brackets()}{right.brackets()})"

    def below(self) -> list[Node]:
        """The node and all its descendants."""
        if self.children is None:
            return [self]
        left, right = self.children
        return [*left.below(), *right.below(), self]


def classify(model: RecursiveAutoencoder, input: TokenInput) -> ClassifierOutput:
    """Class scores and penalty of each row."""
    logits, penalties = [], []
    # One lookup: a gradient of the size of the table per word would dominate the time.
    vectors = model.embedding(input).frames
    for row, length in zip(vectors, input.lengths.tolist(), strict=True):
        scores, penalty = classify_text(model, tree(model, row[:length]))
        logits.append(scores)
        penalties.append(penalty)
    return ClassifierOutput(torch.stack(logits), torch.stack(penalties))


def classify_text(model: RecursiveAutoencoder, root: Node) -> tuple[Tensor, Tensor]:
    """Class scores and penalty of one text."""
    nodes = root.below()
    errors = [node.error for node in nodes if node.error is not None]
    mean = torch.stack(errors).mean() if errors else root.vector.new_zeros(())
    penalty = model.reconstruction_weight * mean
    if model.classify_at == "root":
        return model.head(root.vector), penalty
    node_scores = [F.log_softmax(model.head(node.vector), dim=0) for node in nodes]
    logits = torch.stack(node_scores).mean(dim=0)
    return logits, penalty - logits.logsumexp(dim=0)


def tree(model: RecursiveAutoencoder, words: Tensor) -> Node:
    """The root of the greedy tree over the words of one text."""
    nodes = [Node(_normal(model, word)) for word in words.unbind()]
    pairs = [merged(model, *two) for two in pairwise(nodes)]
    while pairs:
        sizes = [pair.size for pair in pairs]
        threshold = min(sizes) * tie_tolerance(words.dtype)
        best = next(index for index, size in enumerate(sizes) if size <= threshold)
        node = pairs[best]
        nodes[best : best + 2] = [node]
        pairs.pop(best)
        if best > 0:
            pairs[best - 1] = merged(model, nodes[best - 1], node)
        if best < len(pairs):
            pairs[best] = merged(model, node, nodes[best + 1])
    return nodes[0]


def merged(model: RecursiveAutoencoder, left: Node, right: Node) -> Node:
    """The parent of two nodes, with its reconstruction error."""
    pair = model.pair
    children = torch.cat([left.vector, right.vector])
    parent = _normal(model, torch.tanh(pair.encoder(children)))
    difference = children - pair.decoder(parent)
    if pair.weighted_by_words:
        words = left.words + right.words
        first, second = difference.chunk(2)
        error = left.words / words * first.dot(first) + right.words / words * second.dot(second)
    else:
        error = 0.5 * difference.dot(difference)
    return Node(parent, left.words + right.words, (left, right), error, error.item())


def _normal(model: RecursiveAutoencoder, vector: Tensor) -> Tensor:
    return vector / vector.norm() if model.pair.normalise else vector
