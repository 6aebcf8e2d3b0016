"""Names that are looked up, and the error when they are not there."""

from __future__ import annotations

import pytest

from regard.core.errors import RegardError
from regard.core.registry import look_up, unknown_name


def test_a_near_name_is_suggested() -> None:
    message = "Unknown mechanism 'adittive'. Did you mean 'additive'? Choose from: additive, dot."
    assert str(unknown_name("mechanism", "adittive", ["dot", "additive"])) == message


def test_a_far_name_only_gets_the_list() -> None:
    assert str(unknown_name("mechanism", "zzz", ["dot"])) == (
        "Unknown mechanism 'zzz'. Choose from: dot."
    )


def test_of_a_long_table_the_nearest_are_named() -> None:
    known = [f"name-{number}" for number in range(100)]
    message = str(unknown_name("claim", "nam-42", known))
    assert message.startswith(
        "Unknown claim 'nam-42'. Did you mean 'name-42'? The nearest of 100: "
    )
    assert message.count(", ") == 4


def test_look_up() -> None:
    assert look_up("thing", "a", {"a": 1}) == 1
    with pytest.raises(RegardError, match="Unknown thing 'b'"):
        look_up("thing", "b", {"a": 1})
