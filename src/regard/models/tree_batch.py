"""Binary trees over several texts, as tensors: all joins of a level can be computed at once.

Nodes are numbered: the words of the first text, those of the second and so on, then the joins, lower
levels first. A join stands one level above the higher of its children, words on level 0.

    ((a b) c), (d e)   children [[0, 1], [3, 4], [5, 2]]   levels (2, 1)   roots [7, 6]
                       texts [0, 1, 0]   rounds [0, 0, 1]   words [1, 1, 1, 1, 1, 2, 2, 3]
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor


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
