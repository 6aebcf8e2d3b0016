"""Name lookup and its errors."""

from __future__ import annotations

import pytest

from regard.core.errors import RegardError
from regard.core.registry import lookup, unknown_name


def test_a_close_match_is_suggested() -> None:
    message = "Unknown mechanism 'adittive'. Did you mean 'additive'? Choose from: additive, dot."
    assert str(unknown_name("mechanism", "adittive", ["dot", "additive"])) == message


def test_without_a_close_match() -> None:
    assert str(unknown_name("mechanism", "zzz", ["dot"])) == (
        "Unknown mechanism 'zzz'. Choose from: dot."
    )


def test_of_many_names_the_nearest_are_listed() -> None:
    known = [f"name-{number}" for number in range(100)]
    message = str(unknown_name("claim", "nam-42", known))
    assert message.startswith(
        "Unknown claim 'nam-42'. Did you mean 'name-42'? The nearest of 100: "
    )
    assert message.count(", ") == 4


def test_lookup() -> None:
    assert lookup("thing", "a", {"a": 1}) == 1
    with pytest.raises(RegardError, match="Unknown thing 'b'"):
        lookup("thing", "b", {"a": 1})
