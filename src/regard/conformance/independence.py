"""Rows of the batch and heads do not meet; the order of the keys matters only where declared."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.conformance.case import KEYS, LONG, Case
from regard.conformance.inputs import forward
from regard.conformance.verdict import CLOSE, CheckFailed, close, same
from regard.core.masks import Padding


def batch_independence(case: Case) -> None:
    """A row alone gives what it gives in a batch, and the other rows may hold anything."""
    inputs = case.draw_tokens(KEYS, batch_size=5)
    rows = inputs.key.shape[0]
    for mask in case.masks(inputs):
        if mask.allowed is not None:
            continue
        whole = forward(case.mechanism, inputs, mask)
        for row in range(rows):
            own = slice(row, row + 1)
            own_mask = mask
            if mask.lengths is not None:
                own_mask = mask.without("lengths") & Padding(mask.lengths[own])
            alone = forward(case.mechanism, inputs.rows(own), own_mask)
            close(whole[own], alone, f"row {row} in the batch against alone under {mask}")
    whole = forward(case.mechanism, inputs, case.open_mask)
    for scale in (1.0, 1e3):
        other = case.like(inputs, scale=scale)
        for row in range(rows):
            others = (torch.arange(rows) != row)[:, None, None, None]
            after = forward(
                case.mechanism, inputs.changed(other, others, queries=True), case.open_mask
            )
            same(after[row], whole[row], f"row {row} after changing the other rows (×{scale:g})")


def head_independence(case: Case) -> None:
    """What one head is given leaves the others as they are."""
    inputs = case.draw_tokens(KEYS)
    whole = forward(case.mechanism, inputs, case.open_mask)
    for scale in (1.0, 1e3):
        other = case.like(inputs, scale=scale)
        for head in range(case.num_heads):
            others = (torch.arange(case.num_heads) != head)[None, :, None, None]
            after = forward(
                case.mechanism, inputs.changed(other, others, queries=True), case.open_mask
            )
            what = f"head {head} after changing the other heads (×{scale:g})"
            same(after[:, head], whole[:, head], what)


def permutation_behaviour(case: Case) -> None:
    """Reordering keys with their values changes nothing, or something if so declared."""
    changed = False
    for length in (KEYS, LONG):
        if not case.fits(length):
            continue
        # The last query sees every key, so that a mechanism which must be causal has its say too.
        inputs = case.draw(query_length=1, key_length=length)
        before = forward(case.mechanism, inputs, case.open_mask)
        for order in (torch.arange(length).flip(0), _shuffled(case, length)):
            after = forward(case.mechanism, inputs.keys(order), case.open_mask)
            if case.promised.position_aware:
                changed |= bool((after - before).abs().max() > CLOSE)
            else:
                what = f"the output after reordering {length} keys, declared position_aware=False"
                close(after, before, what)
    if case.promised.position_aware and not changed:
        raise CheckFailed(
            "it declares position_aware=True but the order of the keys changes nothing"
        )


def _shuffled(case: Case, length: int) -> Tensor:
    return torch.randperm(length, generator=case.generator)
