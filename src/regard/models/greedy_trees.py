"""Greedy trees: the two neighbours whose join has the smallest reconstruction error are joined, again.

    a b c d    errors .4 .1 .3   →   a (b c) d    errors .6 .5   →   a ((b c) d)   →   (a ((b c) d))

(Socher et al. 2011, section 2.3). All texts of a batch are joined side by side, one pair of each a round,
and only the pairs of the new node with its neighbours are computed anew. The longest text comes first, so
that those still at work are always the first rows. The choice takes no gradients: those of the tree, once
chosen, are another pass (`tree_vectors.py`).

Errors that differ by rounding alone count as equal, and of equal ones the leftmost is joined. Otherwise a
pair of words that stands twice in a text would be joined first here or there depending on the padding.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.models.pair_autoencoder import PairAutoencoder
from regard.models.tree_batch import TreeBatch, tree_batch

# In units of the last place of the number type.
ROUNDING = 1024


class Grown(NamedTuple):
    """The trees, and the vectors of their nodes, which choosing them has given."""

    trees: TreeBatch
    vectors: Float[Tensor, "nodes model_dim"]


def greedy_trees(
    leaves: Float[Tensor, "words model_dim"],
    lengths: Int[Tensor, " texts"],
    pair: PairAutoencoder,
) -> Grown:
    """The trees of texts of so many words each, whose vectors stand one after the other."""
    longest_first = lengths.argsort(descending=True, stable=True)
    longest = int(lengths.max()) if len(lengths) else 0
    # How many texts have two nodes left, round by round; 0 after the last.
    gone = torch.arange(1, longest + 1, device=lengths.device)
    at_work: list[int] = (lengths[:, None] > gone).sum(dim=0).tolist()
    none = lengths[:0]
    made = [Chosen(none, none, none, leaves.detach()[:0])]
    # Nothing of what is made inside is part of a backward pass.
    with torch.inference_mode():
        chains = _Chains(leaves, lengths, longest_first, pair) if longest > 1 else None
        for count, next_count in pairwise(at_work):
            assert chains is not None
            made.append(chains.join(count))
            if next_count:
                chains.score_around(Chosen(*(part[:next_count] for part in made[-1])))
    left, right, _, parents = (torch.cat(parts) for parts in zip(*made, strict=True))
    places = torch.stack([left, right], dim=1) % (longest + 1)
    texts = torch.cat([longest_first[:count] for count in [0, *at_work]])
    trees, order = tree_batch(places, texts, rounds=at_work, lengths=lengths)
    return Grown(trees, torch.cat([leaves.detach(), parents.index_select(0, order)]))


def equal_up_to(dtype: torch.dtype) -> float:
    """An error at most this many times the smallest is equal to it."""
    return 1 + ROUNDING * torch.finfo(dtype).eps


class Chosen(NamedTuple):
    """A pair of each of the first rows: the slots of its nodes and of the node after it, and its parent."""

    left: Int[Tensor, " rows"]
    right: Int[Tensor, " rows"]
    after: Int[Tensor, " rows"]
    parents: Float[Tensor, "rows model_dim"]


class _Chains:
    """What is left of each text is a chain of slots, the longest text in the first row.

    A row has a slot a word, and a join takes that of its left child. One more slot, the last, is where
    chains begin and end: its vector is infinite, so a pair with it is infinitely wrong and never chosen.
    Rows are laid end to end. What belongs to a pair stands in the slot of its left node.
    """

    def __init__(
        self, leaves: Tensor, lengths: Tensor, longest_first: Tensor, pair: PairAutoencoder
    ) -> None:
        self.pair = pair
        begins = (lengths.cumsum(0) - lengths)[longest_first, None]
        lengths = lengths[longest_first, None]
        in_row = torch.arange(int(lengths.max()) + 1, device=leaves.device)
        self.width = len(in_row)
        slots = torch.arange(len(lengths) * self.width, device=leaves.device)
        self.begins = slots[:: self.width].clone()
        ends = (self.begins + self.width - 1)[:, None]
        slots = slots.view(-1, self.width)
        self.after = (slots + 1).where(in_row + 1 < lengths, ends).flatten()
        self.before = (slots - 1).where(in_row > 0, ends).flatten()

        is_word = (in_row < lengths).flatten()
        given = (begins + in_row).flatten()[is_word]
        self.vectors = leaves.new_full((slots.numel(), leaves.shape[1]), math.inf)
        self.vectors[is_word] = leaves[given]
        self.halves = pair.halves()
        self.left_halves = leaves.new_zeros(self.vectors.shape)
        self.right_halves = torch.zeros_like(self.left_halves)
        left, right = self.halves.of(leaves)
        self.left_halves[is_word], self.right_halves[is_word] = left[given], right[given]
        self.words = torch.ones_like(self.after)
        self.errors = leaves.new_full((slots.numel(),), math.inf)
        self.parents = torch.empty_like(self.vectors)
        paired = slots[in_row + 1 < lengths]
        self._score(torch.stack([paired, paired + 1], dim=1))

    def join(self, count: int) -> Chosen:
        """The best pair of each of the first rows becomes one node."""
        errors = self.errors[: count * self.width].view(count, self.width)
        most = errors.amin(dim=1, keepdim=True).mul_(equal_up_to(errors.dtype))
        # Of several that are largest, argmax gives the first.
        left = (errors <= most).view(torch.uint8).argmax(dim=1).add_(self.begins[:count])
        right = self.after.index_select(0, left)
        after = self.after.index_select(0, right)
        self.after.index_copy_(0, left, after)
        self.before.index_copy_(0, after, left)
        self.errors.index_fill_(0, right, math.inf)
        if self.pair.weighted_by_words:
            self.words.index_add_(0, left, self.words.index_select(0, right))
        return Chosen(left, right, after, self.parents.index_select(0, left))

    def score_around(self, chosen: Chosen) -> None:
        """The pairs of each new node with the node before it and the node after it."""
        slots = chosen.left
        self.vectors.index_copy_(0, slots, chosen.parents)
        left, right = self.halves.of(chosen.parents)
        self.left_halves.index_copy_(0, slots, left)
        self.right_halves.index_copy_(0, slots, right)
        before = self.before.index_select(0, slots)
        self._score(torch.stack([before, slots, slots, chosen.after], dim=1).view(-1, 2))

    def _score(self, pairs: Tensor) -> None:
        """Parents and errors of pairs of slots."""
        left, right = pairs.unbind(dim=1)
        sums = self.left_halves.index_select(0, left)
        parents = self.pair.activated(sums.add_(self.right_halves.index_select(0, right)))
        children = self.vectors.index_select(0, pairs.flatten()).unflatten(0, (-1, 2))
        errors = self.pair.errors(parents, children, self.words[pairs])
        self.parents.index_copy_(0, left, parents)
        self.errors.index_copy_(0, left, errors)
