"""Which mechanisms fit, read from what they promise."""

from __future__ import annotations

import pytest

from regard.core.masks import NO_MASK, Causal
from regard.mechanisms import MECHANISMS, build_mechanism
from regard.mechanisms.compatibility import (
    fitting_mechanisms,
    known_as,
    require_call_fit,
    require_fit,
)
from regard.mechanisms.scores.dot_product import ScaledDotAttention


@pytest.mark.parametrize("name", MECHANISMS)
def test_who_fits_is_not_refused_and_who_does_not_is(name: str) -> None:
    mechanism = build_mechanism(name, query_dim=6, key_dim=6, max_length=5)
    promised = mechanism.capabilities
    assert known_as(mechanism) == name
    assert (name in fitting_mechanisms(role="cross")) == ("cross" in promised.roles)
    assert (name in fitting_mechanisms(role="self", score_bias=True)) == promised.score_bias
    for mask in (NO_MASK, Causal()):
        names = fitting_mechanisms(role="self", causal=mask.causal, masks=mask.kinds)
        assert (name in names) == (mask.causal or not promised.requires_causal)
        if name in names:
            require_call_fit(mechanism, role="self", mask=mask, key_length=5)
    require_fit(mechanism, role="self", score_bias=False)


def test_the_long_fit_is_without_end() -> None:
    names = fitting_mechanisms(role="self", any_length=True)
    assert "scaled_dot" in names
    assert "location" not in names


def test_a_users_mechanism_is_called_by_its_own_name() -> None:
    class Mine(ScaledDotAttention):
        pass

    assert known_as(Mine()) == "Mine"
