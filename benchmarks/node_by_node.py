"""The recursive autoencoder as its papers tell it: one text, one pair, one node at a time.

It takes a model's own parameters and gives what `RecursiveAutoencoder.classified` gives, gradients
included. What it saves is saved here too: of every join only the new pairs are computed, and the parent and
the error of the pair that is chosen are those it was chosen by.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.protocols import Classified
from regard.models.autoencoders.recursive import RecursiveAutoencoder
from regard.models.autoencoders.trees import equal_up_to


@dataclass(frozen=True)
class Node:
    """A word, or two nodes joined with some error."""

    vector: Tensor
    words: int = 1
    children: tuple[Node, Node] | None = None
    error: Tensor | None = None
    size: float = 0.0

    def brackets(self) -> str:
        """The shape of the tree: a dot for a word, brackets around a join."""
        if self.children is None:
            return "."
        left, right = self.children
        return f"({left.brackets()}{right.brackets()})"

    def below(self) -> list[Node]:
        """The node itself and all below it."""
        if self.children is None:
            return [self]
        left, right = self.children
        return [*left.below(), *right.below(), self]


def classified(model: RecursiveAutoencoder, tokens: Tensor, lengths: Tensor) -> Classified:
    """The scores and the penalty of each row."""
    logits, penalties = [], []
    # Looked up at once: a gradient as large as the table for every word would be the longest part.
    vectors = model.embedding(tokens)
    for row, length in zip(vectors, lengths.tolist(), strict=True):
        said, penalty = classified_text(model, tree(model, row[:length]))
        logits.append(said)
        penalties.append(penalty)
    return Classified(torch.stack(logits), torch.stack(penalties))


def classified_text(model: RecursiveAutoencoder, root: Node) -> tuple[Tensor, Tensor]:
    """The scores of one text and what is added to its loss."""
    nodes = root.below()
    errors = [node.error for node in nodes if node.error is not None]
    mean = torch.stack(errors).mean() if errors else root.vector.new_zeros(())
    penalty = model.reconstruction_weight * mean
    if model.classify_at == "root":
        return model.class_head(root.vector), penalty
    said = [F.log_softmax(model.class_head(node.vector), dim=0) for node in nodes]
    logits = torch.stack(said).mean(dim=0)
    return logits, penalty - logits.logsumexp(dim=0)


def tree(model: RecursiveAutoencoder, words: Tensor) -> Node:
    """The root of the greedy tree over the words of one text."""
    left = [Node(_normal(model, word)) for word in words.unbind()]
    pairs = [joined(model, *two) for two in pairwise(left)]
    while pairs:
        sizes = [pair.size for pair in pairs]
        most = min(sizes) * equal_up_to(words.dtype)
        chosen = next(place for place, size in enumerate(sizes) if size <= most)
        node = pairs[chosen]
        left[chosen : chosen + 2] = [node]
        pairs.pop(chosen)
        if chosen > 0:
            pairs[chosen - 1] = joined(model, left[chosen - 1], node)
        if chosen < len(pairs):
            pairs[chosen] = joined(model, node, left[chosen + 1])
    return left[0]


def joined(model: RecursiveAutoencoder, left: Node, right: Node) -> Node:
    """The parent of two nodes, and how badly they are told from it."""
    pair = model.pair
    children = torch.cat([left.vector, right.vector])
    parent = _normal(model, torch.tanh(pair.encoder(children)))
    apart = children - pair.decoder(parent)
    if pair.weighted_by_words:
        words = left.words + right.words
        first, second = apart.chunk(2)
        error = left.words / words * first.dot(first) + right.words / words * second.dot(second)
    else:
        error = 0.5 * apart.dot(apart)
    return Node(parent, left.words + right.words, (left, right), error, error.item())


def _normal(model: RecursiveAutoencoder, vector: Tensor) -> Tensor:
    return vector / vector.norm() if model.pair.normalise else vector
