"""What several checks demand of one set of inputs: that all faces agree, that gradients are numbers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.conformance.case import Case
from regard.conformance.inputs import Inputs, extend, forward, start, step, weights
from regard.conformance.verdict import CLOSE, close, finite
from regard.core.masks import Mask
from regard.core.mechanism import Mechanism, repeat_heads

# So many tokens at either end are decoded one by one.
ENDS = 8


def three_faces(
    case: Case,
    inputs: Inputs,
    when: str,
    *,
    mechanism: Mechanism | None = None,
    tolerance: float = CLOSE,
) -> None:
    """Demand that `forward`, `weights @ value` and `step` agree, under no mask and the causal one.

    `mechanism` is the case's own unless another, in another precision, is given.
    """
    examined = case.mechanism if mechanism is None else mechanism
    value = repeat_heads(inputs.value, case.num_heads)
    for mask in case.plain_masks:
        output = forward(examined, inputs, mask)
        expected = weights(examined, inputs, mask) @ value
        what = f"forward against weights @ value {when} under {mask}"
        close(output, expected, what, tolerance=tolerance)
        if mask.causal:
            _decode(examined, inputs, output, when, tolerance)


def _decode(
    mechanism: Mechanism, inputs: Inputs, expected: Tensor, when: str, tolerance: float
) -> None:
    """The first and the last tokens one by one; those between, if many, at once, to save time."""
    state: Any = start(mechanism, inputs)
    length, ends = inputs.key_length, min(ENDS, inputs.key_length // 2)
    for piece in (slice(0, ends), slice(ends, length - ends), slice(length - ends, length)):
        if piece.stop - piece.start > 2 * ENDS:
            state = extend(mechanism, state, inputs.keys(piece))
            continue
        decoded, state = step(mechanism, state, inputs.tokens(piece))
        what = f"positions from {piece.start} decoded against the causal forward {when}"
        close(decoded, expected[:, :, piece], what, tolerance=tolerance)


def finite_gradients(mechanism: Mechanism, inputs: Inputs, mask: Mask, when: str) -> None:
    """Demand that the output, and what it sends back to inputs and parameters, are numbers."""
    leaves = inputs.leaves()
    output = forward(mechanism, leaves, mask)
    finite(output, f"outputs {when}")
    named = {**leaves.tensors(), **dict(mechanism.named_parameters())}
    learning = {name: tensor for name, tensor in named.items() if tensor.requires_grad}
    gradients = torch.autograd.grad(output.sum(), list(learning.values()), allow_unused=True)
    for name, gradient in zip(learning, gradients, strict=True):
        if gradient is not None:
            finite(gradient, f"gradient of {name} {when}")
