"""Tree vectors: values of the search, gradients of autograd."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from regard.models.autoencoders.trees import PairAutoencoder, greedy_trees, tree_vectors

LENGTHS = torch.tensor([5, 1, 3, 6])


@pytest.mark.parametrize("normalise", [False, True])
def test_gradients(normalise: bool) -> None:
    torch.manual_seed(0)
    pair = PairAutoencoder(model_dim=3, normalise=normalise).double()
    leaves = torch.randn(int(LENGTHS.sum()), 3, dtype=torch.float64, requires_grad=True)
    greedy = greedy_trees(leaves, LENGTHS, pair)
    torch.testing.assert_close(tree_vectors(leaves, greedy, pair).detach(), greedy.vectors)

    gradient = torch.randn_like(greedy.vectors)
    inputs = (leaves, pair.encoder.weight, pair.encoder.bias)
    ours = torch.autograd.grad(tree_vectors(leaves, greedy, pair), inputs, gradient)
    theirs = torch.autograd.grad(
        _autograd_reference(leaves, greedy.trees.children, pair), inputs, gradient
    )
    for our, their in zip(ours, theirs, strict=True):
        torch.testing.assert_close(our, their, rtol=1e-12, atol=1e-12)


def _autograd_reference(leaves: Tensor, children: Tensor, pair: PairAutoencoder) -> Tensor:
    """One merge at a time, with autograd."""
    vectors = leaves
    for two in children:
        parent = pair.activate(pair.encoder(vectors[two].flatten()[None]))
        vectors = torch.cat([vectors, parent])
    return vectors


def test_second_derivatives_raise() -> None:
    torch.manual_seed(0)
    pair = PairAutoencoder(model_dim=3)
    leaves = torch.randn(int(LENGTHS.sum()), 3, requires_grad=True)
    vectors = tree_vectors(leaves, greedy_trees(leaves, LENGTHS, pair), pair)
    (first,) = torch.autograd.grad(vectors.square().sum(), leaves, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()
