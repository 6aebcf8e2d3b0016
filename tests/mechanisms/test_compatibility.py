"""Compatible mechanisms, from their declared capabilities."""

from __future__ import annotations

import pytest
import torch

from regard.core.masks import NO_MASK, Causal
from regard.mechanisms import MECHANISMS, build_mechanism
from regard.mechanisms.compatibility import (
    compatible_mechanisms,
    mechanism_name,
    validate_mechanism,
)
from regard.mechanisms.scores.dot_product import ScaledDotAttention


@pytest.mark.parametrize("name", MECHANISMS)
def test_compatible_mechanisms_pass_validation(name: str) -> None:
    mechanism = build_mechanism(name, query_dim=6, key_dim=6, max_length=5)
    supported = mechanism.capabilities
    assert mechanism_name(mechanism) == name
    assert (name in compatible_mechanisms(role="cross")) == ("cross" in supported.roles)
    assert (name in compatible_mechanisms(role="self", score_bias=True)) == supported.score_bias
    for mask in (NO_MASK, Causal()):
        names = compatible_mechanisms(role="self", causal=mask.causal, masks=mask.kinds)
        assert (name in names) == (mask.causal or not supported.requires_causal)
        if name in names:
            query = torch.zeros(1, 1, 5, 6)
            mechanism.validate_call(query, query, None, mask)
    validate_mechanism(mechanism, role="self", score_bias=False)


def test_any_length_excludes_a_maximum_length() -> None:
    names = compatible_mechanisms(role="self", any_length=True)
    assert "scaled_dot" in names
    assert "location" not in names


def test_a_users_mechanism_has_its_class_name() -> None:
    class Mine(ScaledDotAttention):
        pass

    assert mechanism_name(Mine()) == "Mine"
