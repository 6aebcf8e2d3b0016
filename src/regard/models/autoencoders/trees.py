"""Greedy binary trees of a recursive autoencoder (Socher et al. 2011), for a batch of texts.

    a b c d    errors .4 .1 .3   →   a (b c) d    errors .6 .5   →   a ((b c) d)   →   (a ((b c) d))

The two adjacent nodes whose merge has the smallest reconstruction error are merged, until one is left
(section 2.3). All texts of a batch take a merge per round, and only the pairs of the new node with its
neighbours are scored again. The search runs without gradients; `tree_vectors` recomputes the chosen trees
with them.

Errors that differ by rounding only count as equal, and the leftmost of equal ones is merged. Otherwise
the tree of a text with a repeated pair of words could depend on the padding.
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

from regard.core.options import PositiveInt, validated
from regard.core.protocols import ClassifierOutput


class TreeBatch(NamedTuple):
    """Binary trees over a batch of texts, one per text; all merges of a level are computed at once.

    Nodes are numbered: the words of all texts, then the merges, lower levels first. A merge is one level
    above the higher of its children; words are on level 0.

        ((a b) c), (d e)   children [[0, 1], [3, 4], [5, 2]]   levels (2, 1)   roots [7, 6]
                           texts [0, 1, 0]   rounds [0, 0, 1]   words [1, 1, 1, 1, 1, 2, 2, 3]

    children   the two nodes of each merge
    levels     number of merges per level, from level 1
    texts      text of each merge
    rounds     number of earlier merges of the same text
    words      number of words below each node, 1 for a word
    roots      root node of each text; a text of one word is its own root
    """

    children: Int[Tensor, "merges 2"]
    levels: tuple[int, ...]
    texts: Int[Tensor, " merges"]
    rounds: Int[Tensor, " merges"]
    words: Int[Tensor, " nodes"]
    roots: Int[Tensor, " texts"]


class OrderedTrees(NamedTuple):
    """Trees, and the index of each of their merges in the input of `tree_batch`."""

    trees: TreeBatch
    order: Int[Tensor, " merges"]


def tree_batch(
    merges: Int[Tensor, "merges 2"],
    texts: Int[Tensor, " merges"],
    *,
    rounds: Sequence[int],
    lengths: Int[Tensor, " texts"],
) -> OrderedTrees:
    """Build trees from merges in order of rounds, at most one merge per text and round.

    A merge is a pair of positions in its text: the first words of its two children.
    """
    firsts, of_texts, counts = (tensor.cpu().numpy() for tensor in (merges, texts, lengths))
    num_words = int(counts.sum())
    begins = np.cumsum(counts) - counts
    firsts = firsts + begins[of_texts][:, None]
    num_nodes = num_words + len(firsts)
    # The largest node so far that begins at each word.
    nodes = np.arange(num_words)
    words, levels = np.ones(num_nodes, dtype=np.int64), np.zeros(num_nodes, dtype=np.int64)
    children = np.empty_like(firsts)
    for start, stop in pairwise(accumulate(rounds, initial=0)):
        new, words_of = slice(num_words + start, num_words + stop), firsts[start:stop]
        children[start:stop] = below = nodes[words_of]
        nodes[words_of[:, 0]] = np.arange(new.start, new.stop)
        words[new] = words[below].sum(axis=1)
        levels[new] = levels[below].max(axis=1) + 1

    order = np.argsort(levels[num_words:], kind="stable")
    numbers = np.arange(num_nodes)
    numbers[num_words + order] = numbers[num_words:].copy()
    trees = TreeBatch(
        children=_like(merges, numbers[children[order]]),
        levels=tuple(np.bincount(levels)[1:].tolist()),
        texts=texts[_like(merges, order)],
        rounds=_like(merges, np.repeat(np.arange(len(rounds)), rounds)[order]),
        words=_like(merges, words[np.argsort(numbers)]),
        roots=_like(merges, numbers[nodes[begins]]),
    )
    return OrderedTrees(trees, _like(merges, order))


def _like(tensor: Tensor, numbers: np.ndarray) -> Tensor:
    return torch.from_numpy(numbers).to(tensor.device)


# Below this norm a vector has no direction.
MIN_NORM = 1e-12


class Halves(NamedTuple):
    """The left and right halves of the encoder, stacked."""

    weight: Float[Tensor, "both model_dim"]
    bias: Float[Tensor, " both"]

    def of(
        self, x: Float[Tensor, "nodes model_dim"]
    ) -> tuple[Float[Tensor, "nodes model_dim"], Float[Tensor, "nodes model_dim"]]:
        """Contributions of the vectors as left and as right children; a parent sums one of each."""
        left, right = F.linear(x, self.weight, self.bias).chunk(2, dim=1)
        return left, right


class PairAutoencoder(nn.Module):
    """Autoencoder of two child vectors, shared by all merges (Socher et al. 2011, section 2).

        parent           p = tanh(W₁[x₁; x₂] + b₁), then p / ‖p‖
        reconstruction   [x₁′; x₂′] = W₂ p + b₂
        error            ½‖x₁ − x₁′‖² + ½‖x₂ − x₂′‖²

    normalise          whether parents are normalised to length 1; otherwise the error can be reduced by
                       shrinking all vectors
    weighted_by_words  weigh the two errors by n₁/(n₁+n₂) and n₂/(n₁+n₂) for nᵢ words below child i
                       (section 2.3), instead of ½ each
    """

    @validated
    def __init__(
        self, *, model_dim: PositiveInt, normalise: bool = True, weighted_by_words: bool = False
    ) -> None:
        super().__init__()
        self.model_dim, self.normalise = model_dim, normalise
        self.weighted_by_words = weighted_by_words
        self.encoder = nn.Linear(2 * model_dim, model_dim)
        self.decoder = nn.Linear(model_dim, 2 * model_dim)

    def halves(self) -> Halves:
        """W₁[x₁; x₂] + b₁ split into contributions of the left and the right child.

        A node is scored with several neighbours; its contribution is computed once.
        """
        weight, bias = self.encoder.weight, self.encoder.bias
        return Halves(torch.cat(weight.chunk(2, dim=1)), F.pad(bias, (0, len(bias))))

    def activate(
        self, sums: Float[Tensor, "merges model_dim"]
    ) -> Float[Tensor, "merges model_dim"]:
        """Parent vectors from the sums W₁[x₁; x₂] + b₁."""
        parents = torch.tanh(sums)
        return unit_vectors(parents) if self.normalise else parents

    def errors(
        self,
        parents: Float[Tensor, "merges model_dim"],
        children: Float[Tensor, "merges 2 model_dim"],
        words: Int[Tensor, "merges 2"],
    ) -> Float[Tensor, " merges"]:
        """Reconstruction errors; `words` is the number of words below each child."""
        difference = self.decoder(parents).unflatten(1, (2, -1)) - children
        if not self.weighted_by_words:
            return 0.5 * difference.square().sum(dim=(1, 2))
        squares = difference.square().sum(dim=2)
        words = words.to(squares.dtype)
        return (words * squares).sum(dim=1) / words.sum(dim=1)


def unit_vectors(x: Float[Tensor, "vectors width"]) -> Float[Tensor, "vectors width"]:
    """The vectors normalised to length 1."""
    return x * inverse_norms(x)


def inverse_norms(x: Float[Tensor, "vectors width"]) -> Float[Tensor, "vectors 1"]:
    """One over the norm of each vector."""
    return torch.linalg.vector_norm(x, dim=1, keepdim=True).clamp(min=MIN_NORM).reciprocal()


# Relative rounding error, in units of the machine epsilon.
ROUNDING = 1024


class GreedyTrees(NamedTuple):
    """Trees, and the vectors of their nodes, without gradients."""

    trees: TreeBatch
    vectors: Float[Tensor, "nodes model_dim"]


def greedy_trees(
    leaves: Float[Tensor, "words model_dim"],
    lengths: Int[Tensor, " texts"],
    pair: PairAutoencoder,
) -> GreedyTrees:
    """Greedy trees of texts with these lengths, whose word vectors are concatenated."""
    longest_first = lengths.argsort(descending=True, stable=True)
    longest = int(lengths.max()) if len(lengths) else 0
    # Number of texts with two or more nodes left, per round; 0 after the last.
    done = torch.arange(1, longest + 1, device=lengths.device)
    active: list[int] = (lengths[:, None] > done).sum(dim=0).tolist()
    empty = lengths[:0]
    made = [Merged(empty, empty, empty, leaves.detach()[:0])]
    # The search is not part of the backward pass.
    with torch.inference_mode():
        chains = _Chains(leaves, lengths, longest_first, pair) if longest > 1 else None
        for count, next_count in pairwise(active):
            assert chains is not None
            made.append(chains.merge(count))
            if next_count:
                chains.score_around(Merged(*(part[:next_count] for part in made[-1])))
    left, right, _, parents = (torch.cat(parts) for parts in zip(*made, strict=True))
    positions = torch.stack([left, right], dim=1) % (longest + 1)
    texts = torch.cat([longest_first[:count] for count in [0, *active]])
    trees, order = tree_batch(positions, texts, rounds=active, lengths=lengths)
    return GreedyTrees(trees, torch.cat([leaves.detach(), parents.index_select(0, order)]))


def tie_tolerance(dtype: torch.dtype) -> float:
    """Errors up to this multiple of the smallest count as equal to it."""
    return 1 + ROUNDING * torch.finfo(dtype).eps


class Merged(NamedTuple):
    """One merge per row: the slots of its children and of the node after them, and its parent vector."""

    left: Int[Tensor, " rows"]
    right: Int[Tensor, " rows"]
    after: Int[Tensor, " rows"]
    parents: Float[Tensor, "rows model_dim"]


class _Chains:
    """Linked lists of the remaining nodes of each text, the longest text in the first row.

    A row has one slot per word; a merge takes the slot of its left child. The last slot is a sentinel
    that begins and ends the list: its vector is infinite, so no pair with it is ever merged. Rows are
    concatenated. The data of a pair is stored in the slot of its left node.
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
        word = (begins + in_row).flatten()[is_word]
        self.vectors = leaves.new_full((slots.numel(), leaves.shape[1]), math.inf)
        self.vectors[is_word] = leaves[word]
        self.halves = pair.halves()
        self.left_halves = leaves.new_zeros(self.vectors.shape)
        self.right_halves = torch.zeros_like(self.left_halves)
        left, right = self.halves.of(leaves)
        self.left_halves[is_word], self.right_halves[is_word] = left[word], right[word]
        self.words = torch.ones_like(self.after)
        self.errors = leaves.new_full((slots.numel(),), math.inf)
        self.parents = torch.empty_like(self.vectors)
        paired = slots[in_row + 1 < lengths]
        self._score(torch.stack([paired, paired + 1], dim=1))

    def merge(self, count: int) -> Merged:
        """Merge the best pair of each of the first `count` rows."""
        errors = self.errors[: count * self.width].view(count, self.width)
        threshold = errors.amin(dim=1, keepdim=True).mul_(tie_tolerance(errors.dtype))
        # argmax returns the first maximum: the leftmost pair.
        left = (errors <= threshold).view(torch.uint8).argmax(dim=1).add_(self.begins[:count])
        right = self.after.index_select(0, left)
        after = self.after.index_select(0, right)
        self.after.index_copy_(0, left, after)
        self.before.index_copy_(0, after, left)
        self.errors.index_fill_(0, right, math.inf)
        if self.pair.weighted_by_words:
            self.words.index_add_(0, left, self.words.index_select(0, right))
        return Merged(left, right, after, self.parents.index_select(0, left))

    def score_around(self, merged: Merged) -> None:
        """Score the pairs of each new node with its two neighbours."""
        slots = merged.left
        self.vectors.index_copy_(0, slots, merged.parents)
        left, right = self.halves.of(merged.parents)
        self.left_halves.index_copy_(0, slots, left)
        self.right_halves.index_copy_(0, slots, right)
        before = self.before.index_select(0, slots)
        self._score(torch.stack([before, slots, slots, merged.after], dim=1).view(-1, 2))

    def _score(self, pairs: Tensor) -> None:
        """Compute the parents and errors of pairs of slots."""
        left, right = pairs.unbind(dim=1)
        sums = self.left_halves.index_select(0, left)
        parents = self.pair.activate(sums.add_(self.right_halves.index_select(0, right)))
        children = self.vectors.index_select(0, pairs.flatten()).unflatten(0, (-1, 2))
        errors = self.pair.errors(parents, children, self.words[pairs])
        self.parents.index_copy_(0, left, parents)
        self.errors.index_copy_(0, left, errors)


def tree_vectors(
    leaves: Float[Tensor, "words model_dim"], greedy: GreedyTrees, pair: PairAutoencoder
) -> Float[Tensor, "nodes model_dim"]:
    """Vectors of all nodes, with gradients for the words and the encoder.

    The search has computed the vectors already, so the forward pass is one product over all merges. The
    backward pass goes down level by level, one product each: a node has at most one parent. The gradients
    of the encoder are one product over all levels. Autograd would keep a copy of all nodes for every
    level.
    """
    trees, encoder = greedy.trees, pair.encoder
    children = greedy.vectors[trees.children].flatten(1)
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
            inverses = inverse_norms(parents)
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
        of_words, of_merges = gradient.split([len(gradient) - len(nodes), len(nodes)])
        by_level = zip(
            *(tensor.split(ctx.levels) for tensor in (of_merges, parents, slopes, nodes)),
            strict=True,
        )
        for of_parents, level, slope, below in reversed(list(by_level)):
            # From here on: gradients of the pre-activations.
            if ctx.normalise:
                along = (level * of_parents).sum(dim=1, keepdim=True)
                of_parents.addcmul_(along, level, value=-1)
            of_parents.mul_(slope)
            gradient.index_add_(0, below.flatten(), (of_parents @ weight).view(2 * len(below), -1))
        return of_words, of_merges.t() @ children, of_merges.sum(dim=0), None, None, None, None


Head = Callable[[Tensor], Tensor]


def classify_at_root(
    head: Head,
    vectors: Float[Tensor, "nodes width"],
    trees: TreeBatch,
    lengths: Int[Tensor, " texts"],
) -> ClassifierOutput:
    """Class scores at the root; no penalty."""
    return ClassifierOutput(head(vectors[trees.roots]), vectors.new_zeros(len(lengths)))


def classify_at_nodes(
    head: Head,
    vectors: Float[Tensor, "nodes width"],
    trees: TreeBatch,
    lengths: Int[Tensor, " texts"],
) -> ClassifierOutput:
    """Mean log-probabilities m of all nodes, and a penalty −log Σ exp m for disagreement.

    Cross-entropy on m is −m_c + log Σ exp m for class c; with the penalty it is the mean cross-entropy of
    all nodes (Socher et al. 2011, section 2.4). The penalty is 0 where all nodes agree.
    """
    rows = torch.arange(len(lengths), device=lengths.device)
    texts = torch.cat([rows.repeat_interleave(lengths), trees.texts])
    node_scores = head(vectors).log_softmax(dim=1)
    summed = node_scores.new_zeros(len(lengths), node_scores.shape[1])
    summed = summed.index_add(0, texts, node_scores)
    mean = summed / (2 * lengths - 1)[:, None]
    return ClassifierOutput(mean, -mean.logsumexp(dim=1))


CLASSIFY_AT = {"root": classify_at_root, "nodes": classify_at_nodes}
