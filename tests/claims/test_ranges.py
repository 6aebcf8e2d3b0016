"""What settings a claim takes: defaults lie within, the least of each is decided, and beyond is refused.

Of the topics of which every setting has been tried; those of `limits` have tests of their own.
"""

from __future__ import annotations

import math

import pytest

from regard.claims import TOPICS, claims_of
from regard.claims.engine import MOST, Claim
from regard.core.errors import RegardError
from regard.core.records.claim import VERDICTS

CLAIMS = [claim for topic in TOPICS if topic != "limits" for claim in claims_of(topic)]
# One takes a step of a large model, whatever its settings.
QUICK = [
    claim
    for claim in CLAIMS
    if not claim.trained and claim.name != "base-transformer-is-untrainable-here"
]


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.name)
def test_defaults_lie_within_the_ranges(claim: Claim) -> None:
    assert set(claim.ranges) <= set(claim.defaults)
    for name, (least, most) in claim.ranges.items():
        value = claim.defaults[name]
        assert isinstance(value, int | float)
        assert least <= value <= most


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.name)
def test_every_number_has_a_range_of_its_own(claim: Claim) -> None:
    """But seeds, and vocabularies of models that are built without their numbers."""
    free = {"seed", "vocabulary"}
    numbers = {
        name
        for name, value in claim.defaults.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    assert numbers - free <= set(claim.ranges)


# The least of these does not go with the usual value of another setting.
APART = {
    ("kl-has-to-be-maximised", "n"),
    ("padded-keys-have-zero-weight", "length"),
    ("zero-scores-hide-padded-keys", "length"),
    ("transformer-parameters-follow", "width"),
    ("self-attention-is-faster-below-d", "d"),
}


@pytest.mark.parametrize("claim", QUICK, ids=lambda claim: claim.name)
def test_the_least_of_each_setting_is_decided(claim: Claim) -> None:
    for name, (least, _) in claim.ranges.items():
        if (claim.name, name) in APART:
            continue
        finding = claim.run(**{name: type(claim.defaults[name])(least)}).finding
        assert finding is not None
        assert finding.verdict in VERDICTS
        numbers = [value for value in finding.figures.values() if isinstance(value, float)]
        assert all(map(math.isfinite, numbers))


@pytest.mark.parametrize(("name", "setting"), sorted(APART))
def test_settings_that_do_not_go_together_are_refused(name: str, setting: str) -> None:
    claim = next(claim for claim in QUICK if claim.name == name)
    with pytest.raises(RegardError):
        claim.run(**{setting: claim.ranges[setting][0]})


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.name)
def test_beyond_the_ranges_is_refused(claim: Claim) -> None:
    for name, (least, most) in claim.ranges.items():
        kind = type(claim.defaults[name])
        for value in (least - 1, most + 1 if most < MOST else 2 * most):
            with pytest.raises(RegardError, match=f"{name}=.* it must be from "):
                claim.run(**{name: kind(value)})
