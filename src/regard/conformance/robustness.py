"""Numbers stay numbers: at large scores, in single precision, and the second time as the first."""

from __future__ import annotations

import copy

import torch

from regard.conformance.agreement import three_faces
from regard.conformance.case import KEYS, LONG, Case
from regard.conformance.inputs import Inputs, forward, weights
from regard.conformance.verdict import close, demand, finite

# Queries and keys of this size score 10⁴ and more, far beyond where exp overflows single precision.
LARGE = 100.0
# Single precision holds seven digits; sums over a hundred terms and a quotient cost three of them.
SINGLE = 1e-4
# The largest scores, as q·k/√d: exp of them, or of their differences, is near the end of float32.
SCORES = (30.0, 44.0, 60.0)
# Sixty, rounded to seven digits, is off by 4·10⁻⁶, and so is its exponential; sums cost more.
AGREED = 1e-3


def finite_at_large_scores(case: Case) -> None:
    """In single precision, with queries and keys a hundred times too large, nothing overflows."""
    mechanism = case.mechanism.float()
    for mask in case.plain_masks:
        for scales in ((LARGE, 1.0), (1.0, LARGE), (LARGE, LARGE)):
            inputs = case.draw_tokens(KEYS).each(lambda tensor: tensor.float())
            query, key = inputs.query * scales[0], inputs.key * scales[1]
            inputs = inputs.with_tensors({"query": query, "key": key}).leaves()
            output = forward(mechanism, inputs, mask)
            when = f"with queries ×{scales[0]:g} and keys ×{scales[1]:g} under {mask}"
            finite(output, f"outputs {when}")
            finite(weights(mechanism, inputs, mask), f"weights {when}")
            if case.promised.nonnegative and case.promised.rows_sum_to_one:
                largest = inputs.value.abs().max()
                beyond = (output.abs() - largest).clamp(min=0.0)
                what = f"outputs {when}, beyond the largest value they average"
                close(beyond, torch.zeros_like(beyond), what, tolerance=SINGLE)
            named = {**inputs.tensors(), **dict(mechanism.named_parameters())}
            gradients = torch.autograd.grad(output.sum(), list(named.values()), allow_unused=True)
            for name, gradient in zip(named, gradients, strict=True):
                if gradient is not None:
                    finite(gradient, f"gradient of {name} {when}")


def faces_agree_at_large_scores(case: Case) -> None:
    """In float32, with scores up to ±60, all faces give the same, and rows sum to one."""
    mechanism = copy.deepcopy(case.mechanism).float()
    for size in SCORES:
        for toward, inputs in _scored(case, size).items():
            when = f"with scores {toward} {size:g}"
            single = inputs.each(lambda tensor: tensor.float())
            three_faces(case, single, when, mechanism=mechanism, tolerance=AGREED)
            if not case.promised.rows_sum_to_one:
                continue
            for mask in case.plain_masks:
                shown = weights(mechanism, single, mask)
                expected = torch.ones_like(shown[..., 0])
                if case.promised.position_aware:
                    # Its own sight may end before the mask does: such a row has no weight at all.
                    expected = expected * (weights(case.mechanism, inputs, mask) != 0).any(dim=-1)
                what = f"sums of the rows {when} under {mask}"
                close(shown.sum(dim=-1), expected, what, tolerance=AGREED)


def _scored(case: Case, size: float) -> dict[str, Inputs]:
    """Inputs whose scores spread to ±size, are all near −size, and are all near +size."""
    inputs = case.draw_tokens(LONG if case.fits(LONG) else KEYS, batch_size=1)
    root = inputs.key.shape[-1] ** 0.5
    pairs = (inputs.query @ inputs.key.mT).abs().max() / root
    spread = (size / pairs).sqrt()
    # One direction, a tenth of it different from token to token.
    common = torch.nn.functional.normalize(inputs.key[:, :, :1], dim=-1) * (size * root) ** 0.5
    key = common * (1 + 0.1 * torch.tanh(inputs.key)) / 1.1
    return {
        "up to ±": inputs.with_tensors(
            {"query": inputs.query * spread, "key": inputs.key * spread}
        ),
        "all near −": inputs.with_tensors({"query": -common.expand_as(inputs.query), "key": key}),
        "all near +": inputs.with_tensors({"query": common.expand_as(inputs.query), "key": key}),
    }


def float32_matches_float64(case: Case) -> None:
    """Single precision gives the double-precision output to about four digits."""
    single = copy.deepcopy(case.mechanism).float()
    length = LONG if case.fits(LONG) else KEYS
    inputs = case.draw_tokens(length, batch_size=2)
    for mask in case.masks(inputs):
        expected = forward(case.mechanism, inputs, mask)
        got = forward(single, inputs.each(lambda tensor: tensor.float()), mask)
        close(got, expected, f"float32 against float64 under {mask}", tolerance=SINGLE)


def deterministic_in_eval(case: Case) -> None:
    """The same call twice gives the same bits, and training mode gives them too."""
    inputs = case.draw_tokens(KEYS)
    for mask in case.masks(inputs):
        first = forward(case.mechanism.eval(), inputs, mask)
        again = forward(case.mechanism.eval(), inputs, mask)
        close(again, first, f"the same call a second time under {mask}", tolerance=0.0)
        shown = weights(case.mechanism, inputs, mask)
        again = weights(case.mechanism, inputs, mask)
        close(again, shown, f"the same weights a second time under {mask}", tolerance=0.0)
        training = forward(case.mechanism.train(), inputs, mask)
        close(training, first, f"training against evaluation mode under {mask}", tolerance=0.0)
        demand(not first.isnan().any(), f"the output is not a number under {mask}")
