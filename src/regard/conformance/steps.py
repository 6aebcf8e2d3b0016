"""Sequential steps and longest path: what must wait for what, within a layer and across layers."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from regard.conformance.case import LONG, Case
from regard.conformance.inputs import forward, weights
from regard.conformance.verdict import CheckFailed, NotApplicable, demand
from regard.core.cost import AttentionShape
from regard.core.counter import Counter
from regard.core.masks import Mask

LENGTHS = (LONG, 521, 1031)


def declared_sequential_steps(case: Case) -> None:
    """`sequential_steps` grows with the length exactly where the chain of operators does."""
    sized = case.sized(max_length=max(LENGTHS), num_heads=1)
    lengths = [length for length in LENGTHS if sized.fits(length)]
    if len(lengths) < 2:
        raise NotApplicable(
            f"it takes no more than {sized.promised.max_length} keys: too few to grow"
        )
    for mask in sized.plain_masks:
        declared, walked = [], []
        for length in lengths:
            inputs = sized.draw_tokens(length, batch_size=1)
            with torch.no_grad(), Counter() as counter:
                forward(sized.mechanism, inputs, mask)
            walked.append(counter.depth)
            declared.append(sized.mechanism.cost(_shape(sized, length, mask)).sequential_steps)
        demand(
            min(declared) >= 1, f"cost declares {declared} sequential steps; it takes at least 1"
        )
        demand(
            _grows(declared) == _grows(walked),
            f"for {lengths} keys under {mask} cost declares {declared} sequential steps, and the "
            f"longest chain of dependent operators is {walked}: one grows and the other does not",
        )


def declared_longest_path(case: Case) -> None:
    """Stack the pattern of nonzero weights until every position is reached: that many layers."""
    if "self" not in case.promised.roles:
        raise NotApplicable("it is not for self-attention, so it is not stacked")
    for length in (13, LONG):
        if not case.fits(length):
            continue
        for mask in case.plain_masks:
            inputs = case.draw(batch_size=1, query_length=length, key_length=length, scale=0.5)
            connected = (weights(case.mechanism, inputs, mask) != 0).any(dim=1).any(dim=0)
            declared = case.mechanism.cost(_shape(case, length, mask)).longest_path
            walked = _layers(connected, _visible(length, mask))
            if declared != walked:
                raise CheckFailed(
                    f"cost declares longest_path={declared}, and walking along the nonzero weights "
                    f"of {length} positions under {mask} takes {walked or 'forever, which is 0'}"
                )


def _grows(counts: list[int]) -> bool:
    # Every time: a change to another form of the computation makes the chain longer just once.
    return all(later > earlier for earlier, later in pairwise(counts))


def _shape(case: Case, length: int, mask: Mask) -> AttentionShape:
    return AttentionShape(
        num_heads=case.num_heads,
        query_length=length,
        key_length=length,
        key_dim=case.key_dim,
        value_dim=case.value_dim,
        query_dim=case.query_dim,
        causal=mask.causal,
    )


def _visible(length: int, mask: Mask) -> Tensor:
    every = torch.ones(length, length, dtype=torch.bool)
    return every.tril() if mask.causal else every


def _layers(connected: Tensor, visible: Tensor) -> int:
    """The smallest number of layers after which every visible pair is connected; 0 if none is."""
    length = len(connected)
    # A position keeps what it has, as the residual connection around every layer does.
    one_layer = connected.float() + torch.eye(length)
    reached = torch.eye(length)
    for layers in range(1, length + 1):
        reached = (reached @ one_layer).clamp(max=1.0)
        if bool((reached[visible] > 0).all()):
            return layers
    return 0
