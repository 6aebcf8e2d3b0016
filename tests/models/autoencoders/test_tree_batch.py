"""Batched trees: the example of `TreeBatch`, and random trees."""

from __future__ import annotations

import torch
from hypothesis import given, settings, strategies as st

from regard.models.autoencoders.trees import tree_batch


def test_example() -> None:
    """((a b) c) and (d e): in the first round a and b merge, and d and e."""
    found = tree_batch(
        torch.tensor([[0, 1], [0, 1], [0, 2]]),
        torch.tensor([0, 1, 0]),
        rounds=[2, 1],
        lengths=torch.tensor([3, 2]),
    )
    trees = found.trees
    assert trees.children.tolist() == [[0, 1], [3, 4], [5, 2]]
    assert trees.levels == (2, 1)
    assert trees.roots.tolist() == [7, 6]
    assert trees.texts.tolist() == [0, 1, 0]
    assert trees.rounds.tolist() == [0, 0, 1]
    assert trees.words.tolist() == [1, 1, 1, 1, 1, 2, 2, 3]
    assert found.order.tolist() == [0, 1, 2]


def test_single_words_have_no_merges() -> None:
    empty = torch.empty(0, 2, dtype=torch.long)
    trees, order = tree_batch(empty, empty[:, 0], rounds=[], lengths=torch.tensor([1, 1]))
    assert trees.children.shape == (0, 2)
    assert trees.levels == ()
    assert trees.roots.tolist() == [0, 1]
    assert order.numel() == 0


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_random_trees(lengths: list[int], random: object) -> None:
    """Every node but a root has one parent, children are on lower levels, words add up."""
    starts = [list(range(length)) for length in lengths]
    merges, texts, rounds = [], [], []
    while any(len(chain) > 1 for chain in starts):
        made = 0
        for text, chain in enumerate(starts):
            if len(chain) > 1:
                index = random.randrange(len(chain) - 1)  # type: ignore[attr-defined]
                merges.append([chain[index], chain.pop(index + 1)])
                texts.append(text)
                made += 1
        rounds.append(made)
    trees, order = tree_batch(
        torch.tensor(merges, dtype=torch.long).view(-1, 2),
        torch.tensor(texts, dtype=torch.long),
        rounds=rounds,
        lengths=torch.tensor(lengths),
    )
    nodes = 2 * sum(lengths) - len(lengths)
    below = trees.children.flatten().tolist()
    assert sorted([*below, *trees.roots.tolist()]) == list(range(nodes))
    assert trees.words[trees.roots].tolist() == lengths
    merged = sum(lengths)
    assert torch.equal(trees.words[merged:], trees.words[trees.children].sum(dim=1))
    assert trees.texts.tolist() == [texts[index] for index in order.tolist()]
    start = 0
    for count in trees.levels:
        # Children are on lower levels.
        assert (trees.children[start : start + count] < merged + start).all()
        start += count
    assert start == len(merges)
