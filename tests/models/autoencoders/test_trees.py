"""Greedy trees: small examples, against the node-by-node reference, ties, single words, empty batches."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from benchmarks.recursive_reference import Node, tree
from torch import Tensor

from regard.models.autoencoders.recursive import RecursiveAutoencoder
from regard.models.autoencoders.trees import greedy_trees

DOUBLE = torch.float64


def brackets(trees: Any, lengths: Tensor) -> list[str]:
    """The shape of each tree: a dot for a word, brackets around a merge."""
    shapes = ["."] * int(lengths.sum())
    for left, right in trees.children.tolist():
        shapes.append(f"({shapes[left]}{shapes[right]})")
    return [shapes[root] for root in trees.roots.tolist()]


def model_of(**options: Any) -> RecursiveAutoencoder:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"source": 23, "outputs": 3, "model_dim": 6}
    model = RecursiveAutoencoder(**(sizes | options)).double()
    with torch.no_grad():
        # Larger parameters spread the errors, so that trees branch.
        for parameter in model.parameters():
            parameter.mul_(2.0)
    return model


def difference_model() -> RecursiveAutoencoder:
    """A parent is tanh of the difference of its children, and the reconstruction is zero.

    The error is then ½(x₁² + x₂²): the two smallest neighbours are merged first.
    """
    model = RecursiveAutoencoder(source=5, outputs=2, model_dim=1, normalise=False).double()
    with torch.no_grad():
        model.pair.encoder.weight.copy_(torch.tensor([[1.0, -1.0]]))
        for parameter in (model.pair.encoder.bias, *model.pair.decoder.parameters()):
            parameter.zero_()
    return model


def test_one_tree() -> None:
    """4 1 2 9: errors 8.5, 2.5, 42.5, so (1 2) → tanh(−1); then with 4, then with 9."""
    leaves = torch.tensor([[4.0], [1.0], [2.0], [9.0]], dtype=DOUBLE)
    greedy = greedy_trees(leaves, torch.tensor([4]), difference_model().pair)
    assert brackets(greedy.trees, torch.tensor([4])) == ["((.(..)).)"]
    inner = torch.tensor(-1.0, dtype=DOUBLE).tanh()
    outer = (4 - inner).tanh()
    expected = torch.stack([inner, outer, (outer - 9).tanh()])
    torch.testing.assert_close(greedy.vectors[4:, 0], expected)


def test_texts_of_a_batch_are_independent() -> None:
    """4 1 2 9 as above; 2 3 1 merges its end first; a single word stays a leaf."""
    leaves = torch.tensor([5.0, 4, 1, 2, 9, 2, 3, 1], dtype=DOUBLE)[:, None]
    lengths = torch.tensor([1, 4, 3])
    greedy = greedy_trees(leaves, lengths, difference_model().pair)
    assert brackets(greedy.trees, lengths) == [".", "((.(..)).)", "(.(..))"]
    assert greedy.trees.texts.tolist() == [1, 2, 1, 2, 1]


def test_first_of_equal_pairs_is_merged() -> None:
    """Two ones become tanh(0) = 0, so the pair with it has the smaller error."""
    leaves = torch.ones(5, 1, dtype=DOUBLE)
    for lengths, expected in (([5], ["((((..).).).)"]), ([2, 3], ["(..)", "((..).)"])):
        greedy = greedy_trees(leaves, torch.tensor(lengths), difference_model().pair)
        assert brackets(greedy.trees, torch.tensor(lengths)) == expected


def test_first_of_repeated_pairs_is_merged() -> None:
    """Rounding depends on the row of a matrix product; the tree must not."""
    model = model_of(model_dim=61).float()
    torch.manual_seed(1)
    words = torch.randint(4, 23, (40, 4)).repeat(1, 4)
    lengths = torch.full((40,), 16)
    leaves = model.embedding.embed(words).flatten(0, 1)
    trees = greedy_trees(leaves, lengths, model.pair).trees
    together = brackets(trees, lengths)
    alone = [
        brackets(greedy_trees(row, lengths[:1], model.pair).trees, lengths[:1])[0]
        for row in leaves.view(40, 16, -1)
    ]
    assert together == alone
    first = trees.children[trees.rounds == 0][:, 0] - 16 * trees.texts[trees.rounds == 0]
    assert (first < 4).all()


@pytest.mark.parametrize("weighted_by_words", [False, True])
@pytest.mark.parametrize("normalise", [False, True])
def test_trees_equal_the_reference(normalise: bool, weighted_by_words: bool) -> None:
    model = model_of(normalise=normalise, weighted_by_words=weighted_by_words)
    torch.manual_seed(2)
    lengths = torch.randint(1, 20, (50,))
    leaves = torch.randn(int(lengths.sum()), 6, dtype=DOUBLE)
    leaves = leaves / leaves.norm(dim=1, keepdim=True)
    greedy = greedy_trees(leaves, lengths, model.pair)
    with torch.no_grad():
        roots: list[Node] = [tree(model, words) for words in leaves.split(lengths.tolist())]
    found = brackets(greedy.trees, lengths)
    assert found == [root.brackets() for root in roots]
    # The trees are not all chains to one side.
    assert len({shape.replace(".", "")[:6] for shape in found}) > 3
    torch.testing.assert_close(
        greedy.vectors[greedy.trees.roots], torch.stack([root.vector for root in roots])
    )


def test_single_words_and_empty_batch() -> None:
    pair = model_of().pair
    leaves = torch.randn(3, 6, dtype=DOUBLE)
    greedy = greedy_trees(leaves, torch.tensor([1, 1, 1]), pair)
    assert torch.equal(greedy.vectors, leaves)
    assert greedy.trees.roots.tolist() == [0, 1, 2]
    none = greedy_trees(leaves[:0], torch.empty(0, dtype=torch.long), pair)
    assert none.vectors.shape == (0, 6)
    assert none.trees.roots.numel() == 0


def test_nan_vectors() -> None:
    leaves = torch.full((7, 6), torch.nan, dtype=DOUBLE)
    lengths = torch.tensor([4, 3])
    greedy = greedy_trees(leaves, lengths, model_of().pair)
    assert greedy.trees.words[greedy.trees.roots].tolist() == [4, 3]
