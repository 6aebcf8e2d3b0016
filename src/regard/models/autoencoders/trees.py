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
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from regard.core.protocols import Classified
from regard.layers.validation import require_positive

# Binary trees over several texts, as tensors: all joins of a level can be computed at once.
#
# Nodes are numbered: the words of the first text, those of the second and so on, then the joins,
# lower levels first. A join stands one level above the higher of its children, words on level 0.
#
# ((a b) c), (d e)   children [[0, 1], [3, 4], [5, 2]]   levels (2, 1)   roots [7, 6] texts [0, 1,
# 0]   rounds [0, 0, 1]   words [1, 1, 1, 1, 1, 2, 2, 3]


class TreeBatch(NamedTuple):
    """One tree for each text.

    children   the two nodes that each join joins
    levels     how many joins there are on each level, from 1 on
    texts      which text each join is of
    rounds     how many joins of its text were made before it
    words      how many words there are below each node, 1 for a word
    roots      the node above all words of each text; the word itself where there is one
    """

    children: Int[Tensor, "joins 2"]
    levels: tuple[int, ...]
    texts: Int[Tensor, " joins"]
    rounds: Int[Tensor, " joins"]
    words: Int[Tensor, " nodes"]
    roots: Int[Tensor, " texts"]


class Numbered(NamedTuple):
    """Trees, and where their joins, lower levels first, stood among those that were given."""

    trees: TreeBatch
    order: Int[Tensor, " joins"]


def tree_batch(
    joins: Int[Tensor, "joins 2"],
    texts: Int[Tensor, " joins"],
    *,
    rounds: Sequence[int],
    lengths: Int[Tensor, " texts"],
) -> Numbered:
    """The trees of joins that come round after round, so many in each and no text twice in one.

    A join is given by the places in its text of the first words of its two children.
    """
    given, of_texts, counts = (tensor.cpu().numpy() for tensor in (joins, texts, lengths))
    num_words = int(counts.sum())
    begins = np.cumsum(counts) - counts
    given = given + begins[of_texts][:, None]
    num_nodes = num_words + len(given)
    # The node that begins at a word, the largest so far.
    nodes = np.arange(num_words)
    words, levels = np.ones(num_nodes, dtype=np.int64), np.zeros(num_nodes, dtype=np.int64)
    children = np.empty_like(given)
    for start, stop in pairwise(accumulate(rounds, initial=0)):
        new, firsts = slice(num_words + start, num_words + stop), given[start:stop]
        children[start:stop] = below = nodes[firsts]
        nodes[firsts[:, 0]] = np.arange(new.start, new.stop)
        words[new] = words[below].sum(axis=1)
        levels[new] = levels[below].max(axis=1) + 1

    order = np.argsort(levels[num_words:], kind="stable")
    numbers = np.arange(num_nodes)
    numbers[num_words + order] = numbers[num_words:].copy()
    trees = TreeBatch(
        children=_like(joins, numbers[children[order]]),
        levels=tuple(np.bincount(levels)[1:].tolist()),
        texts=texts[_like(joins, order)],
        rounds=_like(joins, np.repeat(np.arange(len(rounds)), rounds)[order]),
        words=_like(joins, words[np.argsort(numbers)]),
        roots=_like(joins, numbers[nodes[begins]]),
    )
    return Numbered(trees, _like(joins, order))


def _like(tensor: Tensor, numbers: np.ndarray) -> Tensor:
    return torch.from_numpy(numbers).to(tensor.device)


# Two vectors become one of the same width, from which both are told again.
#
# parent           p = tanh(W₁[x₁; x₂] + b₁), then p / ‖p‖ reconstruction   [x₁′; x₂′] = W₂ p + b₂
# error            ½‖x₁ − x₁′‖² + ½‖x₂ − x₂′‖²
#
# (Socher et al. 2011, section 2). Parents are as wide as children, so that it applies to its own
# outputs. Without the norm short parents reconstruct short vectors, and everything shrinks towards
# an error of zero. Weighted by words, the halves become n₁/(n₁+n₂) and n₂/(n₁+n₂), nᵢ words below
# child i (the same paper, section 2.3): a long phrase is then worth more than the word beside it.


# Of a vector that is as good as zero, whose direction says nothing.
SHORTEST = 1e-12


class Halves(NamedTuple):
    """Both halves of an encoder, one above the other."""

    weight: Float[Tensor, "both model_dim"]
    bias: Float[Tensor, " both"]

    def of(
        self, x: Float[Tensor, "nodes model_dim"]
    ) -> tuple[Float[Tensor, "nodes model_dim"], Float[Tensor, "nodes model_dim"]]:
        """What the vectors give as left children, and as right ones: the two add up to the sums."""
        left, right = F.linear(x, self.weight, self.bias).chunk(2, dim=1)
        return left, right


class PairAutoencoder(nn.Module):
    """One for all joins of all trees.

    normalise          whether parents have length 1
    weighted_by_words  whether a child counts by the words below it, or both alike
    """

    def __init__(
        self, *, model_dim: int, normalise: bool = True, weighted_by_words: bool = False
    ) -> None:
        super().__init__()
        require_positive("PairAutoencoder", model_dim=model_dim)
        self.model_dim, self.normalise = model_dim, normalise
        self.weighted_by_words = weighted_by_words
        self.encoder = nn.Linear(2 * model_dim, model_dim)
        self.decoder = nn.Linear(model_dim, 2 * model_dim)

    def halves(self) -> Halves:
        """W₁[x₁; x₂] + b₁ taken apart into what a vector gives to it as the left child, and as the right.

        A node meets several neighbours before it is joined: this much is the same for all of them.
        """
        weight, bias = self.encoder.weight, self.encoder.bias
        return Halves(torch.cat(weight.chunk(2, dim=1)), F.pad(bias, (0, len(bias))))

    def activated(self, sums: Float[Tensor, "joins model_dim"]) -> Float[Tensor, "joins model_dim"]:
        """The parents, from W₁[x₁; x₂] + b₁."""
        parents = torch.tanh(sums)
        return unit(parents) if self.normalise else parents

    def errors(
        self,
        parents: Float[Tensor, "joins model_dim"],
        children: Float[Tensor, "joins 2 model_dim"],
        words: Int[Tensor, "joins 2"],
    ) -> Float[Tensor, " joins"]:
        """How badly the children are told from their parents; `words` are those below each child."""
        apart = self.decoder(parents).unflatten(1, (2, -1)) - children
        if not self.weighted_by_words:
            return 0.5 * apart.square().sum(dim=(1, 2))
        squares = apart.square().sum(dim=2)
        words = words.to(squares.dtype)
        return (words * squares).sum(dim=1) / words.sum(dim=1)


def unit(x: Float[Tensor, "vectors width"]) -> Float[Tensor, "vectors width"]:
    """The vectors with length 1."""
    return x * inverse_lengths(x)


def inverse_lengths(x: Float[Tensor, "vectors width"]) -> Float[Tensor, "vectors 1"]:
    """One over the length of each vector."""
    return torch.linalg.vector_norm(x, dim=1, keepdim=True).clamp(min=SHORTEST).reciprocal()


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


# The vectors of all nodes of trees, and the way back through them: a level at a time.
#
# p = tanh(W₁[x₁; x₂] + b₁), then p / ‖p‖ where parents are normalised
#
# Choosing the trees has given the vectors already. What is left for the forward pass is to compute
# them from their children all at once, in one product. Backward, the nodes of a level stand side by
# side and every node has one parent at most, so gradients go down in one product a level; those of
# W₁ and b₁ are one product for all levels. Autograd would go down the same way keeping a copy of
# all nodes for every level.


def tree_vectors(
    leaves: Float[Tensor, "words model_dim"], grown: Grown, pair: PairAutoencoder
) -> Float[Tensor, "nodes model_dim"]:
    """The vectors of words, as they are, and of joins, with gradients for words and the encoder."""
    trees, encoder = grown.trees, pair.encoder
    children = grown.vectors[trees.children].flatten(1)
    vectors: Tensor = _TreeVectors.apply(  # type: ignore[no-untyped-call]
        leaves, encoder.weight, encoder.bias, children, trees.children, trees.levels, pair.normalise
    )
    return vectors


class _TreeVectors(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        leaves: Tensor,
        weight: Tensor,
        bias: Tensor,
        children: Tensor,
        nodes: Tensor,
        levels: tuple[int, ...],
        normalise: bool,
    ) -> Tensor:
        parents = torch.addmm(bias, children, weight.t()).tanh_()
        slopes = 1 - parents.square()
        if normalise:
            inverses = inverse_lengths(parents)
            parents *= inverses
            slopes *= inverses
        ctx.save_for_backward(weight, children, parents, slopes, nodes)
        ctx.levels, ctx.normalise = levels, normalise
        return torch.cat([leaves, parents])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        weight, children, parents, slopes, nodes = ctx.saved_tensors
        gradient = gradient.clone()
        of_words, of_joins = gradient.split([len(gradient) - len(nodes), len(nodes)])
        by_level = zip(
            *(tensor.split(ctx.levels) for tensor in (of_joins, parents, slopes, nodes)),
            strict=True,
        )
        for of_parents, level, slope, below in reversed(list(by_level)):
            # From here on, of the sums that tanh is taken of.
            if ctx.normalise:
                along = (level * of_parents).sum(dim=1, keepdim=True)
                of_parents.addcmul_(along, level, value=-1)
            of_parents.mul_(slope)
            gradient.index_add_(0, below.flatten(), (of_parents @ weight).view(2 * len(below), -1))
        return of_words, of_joins.t() @ children, of_joins.sum(dim=0), None, None, None, None


# From the scores of the classes at every node of a tree to those of its text.
#
# root    those of the root nodes   the mean over all nodes, words included, of log softmax(W₃ p +
# b₃)
#
# The second is how nodes are held to the class of their text (Socher et al. 2011, section 2.4) by a
# model that is never told the class. With m the mean of the logarithms, cross-entropy against the
# class c is −m_c + log Σ exp m; a penalty of −log Σ exp m, which is 0 where all nodes agree and
# more where they do not, leaves −m_c: the mean of the cross-entropies of all nodes.


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
