"""Tensors that do not belong together get an error that says what they must agree on."""

from __future__ import annotations

import pytest
import torch

from regard.core.errors import RegardError
from regard.core.masks import NO_MASK, Mask, Padding
from regard.core.mechanism import refuse_misshapen

GOOD = (2, 4, 5, 3)


@pytest.mark.parametrize(
    ("query", "key", "value", "mask", "message"),
    [
        ((2, 5, 3), GOOD, GOOD, NO_MASK, r"query has shape \(2, 5, 3\); it must be \(batch, heads"),
        (GOOD, (1, 4, 5, 3), GOOD, NO_MASK, "key has 1 rows and query has 2"),
        (GOOD, (2, 3, 5, 3), (2, 3, 5, 3), NO_MASK, "key has 3 heads and query has 4"),
        (GOOD, GOOD, (2, 4, 6, 3), NO_MASK, "length 5 and value 4 of length 6"),
        (GOOD, GOOD, GOOD, Padding(torch.tensor([1, 2, 3])), "Padding has 3 lengths for 2 rows"),
        (GOOD, GOOD, GOOD, torch.ones(5, 5), "mask is a Tensor; it must be a Mask"),
    ],
)
def test_what_is_refused(
    query: tuple[int, ...],
    key: tuple[int, ...],
    value: tuple[int, ...],
    mask: object,
    message: str,
) -> None:
    with pytest.raises(RegardError, match=message):
        refuse_misshapen(torch.zeros(query), torch.zeros(key), torch.zeros(value), mask)


def test_grouped_heads_and_other_widths_belong_together() -> None:
    refuse_misshapen(torch.zeros(GOOD), torch.zeros(2, 2, 7, 9), torch.zeros(2, 2, 7, 1), Mask())
