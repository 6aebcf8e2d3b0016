"""The sizes a layer is priced for."""

from __future__ import annotations

import pytest

from regard.core.errors import RegardError
from regard.layers.cost import SequenceShape


def test_rows_are_all_positions() -> None:
    assert SequenceShape(batch_size=3, length=7).rows == 21


def test_nothing_is_refused() -> None:
    with pytest.raises(RegardError, match="SequenceShape has length=0; it must be a whole number"):
        SequenceShape(length=0)
