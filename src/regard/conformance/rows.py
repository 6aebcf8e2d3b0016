"""What the mechanism declares about its weights holds: rows sum to one, and none is negative."""

from __future__ import annotations

import torch

from regard.conformance.case import Case
from regard.conformance.inputs import weights
from regard.conformance.verdict import SAME, NotApplicable, close


def rows_sum_to_one_or_zero(case: Case) -> None:
    """A row sums to one, or to zero if it may attend to nothing."""
    if not case.promised.rows_sum_to_one:
        raise NotApplicable("it declares rows_sum_to_one=False")
    for query_length in (7, 13):
        inputs = case.draw(query_length=query_length)
        for mask in case.masks(inputs):
            got = weights(case.mechanism, inputs, mask)
            allowed = mask.boolean(query_length, inputs.key_length)
            expected = torch.ones_like(got[..., 0])
            if allowed is not None:
                expected = expected * allowed.any(dim=-1)
            if case.promised.position_aware:
                # Its own sight may end before the mask does: such a row has no weight at all.
                expected = expected * (got != 0).any(dim=-1)
            close(got.sum(dim=-1), expected, f"sums of the rows under {mask}")


def weights_nonnegative(case: Case) -> None:
    """No weight is below zero."""
    if not case.promised.nonnegative:
        raise NotApplicable("it declares nonnegative=False")
    inputs = case.draw(scale=2.0)
    for mask in case.masks(inputs):
        got = weights(case.mechanism, inputs, mask)
        below = got.clamp(max=0.0)
        close(below, torch.zeros_like(below), f"negative weights under {mask}", tolerance=SAME)
