"""A second derivative of a written-out backward pass is refused, not silently left out."""

from __future__ import annotations

import pytest
import torch

from regard.core.errors import RegardError
from regard.core.masks import Causal
from regard.mechanisms import build_mechanism


@pytest.mark.parametrize("name", ["window", "elu", "taylor", "retention", "additive"])
def test_second_derivatives_are_refused(name: str) -> None:
    mechanism = build_mechanism(name, query_dim=4, key_dim=4).double()
    query = torch.randn(1, 1, 300, 4, dtype=torch.float64, requires_grad=True)
    output = mechanism(query, query, query, Causal()) + query
    with pytest.raises(RegardError, match="Second derivatives"):
        torch.autograd.grad(output.square().sum(), query, create_graph=True)
