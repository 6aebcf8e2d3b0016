"""Nothing depends on what comes later, and the last query stands where the last key stands."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.conformance.case import KEYS, LONG, QUERIES, Case
from regard.conformance.inputs import Inputs, forward, weights
from regard.conformance.verdict import same, zero
from regard.core.masks import Causal

# Large enough that a maximum or a sum taken over all keys would drown the earlier ones.
HUGE = (1.0, 1e3, 1e4)


def causal_leak_values(case: Case) -> None:
    """Later queries, keys, values and extras leave earlier outputs as they are, however large."""
    case.need_mask("causal")
    for length, cuts in _lengths(case):
        inputs = case.draw_tokens(length)
        before = forward(case.mechanism, inputs, Causal())
        for scale in HUGE:
            other = case.like(inputs, scale=scale)
            for cut in cuts:
                later = torch.arange(length)[:, None] >= cut
                after = forward(
                    case.mechanism, inputs.changed(other, later, queries=True), Causal()
                )
                what = f"outputs before position {cut} after changing what follows (×{scale:g})"
                same(after[:, :, :cut], before[:, :, :cut], what)


def causal_leak_gradients(case: Case) -> None:
    """The gradient of an output with respect to anything later is exactly zero."""
    case.need_mask("causal")
    for length, cuts in _lengths(case):
        for scale in (1.0, 1e3):
            inputs = _late_and_large(case, length, cuts[-1], scale).leaves()
            output = forward(case.mechanism, inputs, Causal())
            for cut in cuts:
                early = output[:, :, :cut]
                direction = torch.randn(early.shape, generator=case.generator, dtype=early.dtype)
                gradients = torch.autograd.grad(
                    early, list(inputs.tensors().values()), direction, True, allow_unused=True
                )
                for name, gradient in zip(inputs.tensors(), gradients, strict=True):
                    if gradient is not None:
                        what = f"gradient of outputs before {cut} with respect to later {name}"
                        zero(gradient[:, :, cut:], what)


def causal_alignment(case: Case) -> None:
    """The last m queries alone give the last m rows; queries before the first key give zeros."""
    case.need_mask("causal")
    inputs = case.draw_tokens(KEYS)
    whole = forward(case.mechanism, inputs, Causal())
    whole_weights = weights(case.mechanism, inputs, Causal())
    for count in (1, 2, QUERIES):
        last = inputs.queries(slice(KEYS - count, None))
        what = f"the last {count} queries alone against the last {count} rows"
        same(forward(case.mechanism, last, Causal()), whole[:, :, -count:], f"forward, {what}")
        got = weights(case.mechanism, last, Causal())
        same(got, whole_weights[:, :, -count:], f"weights, {what}")
    for count in (1, QUERIES):
        late = inputs.keys(slice(KEYS - count, None))
        got = forward(case.mechanism, late, Causal())
        zero(got[:, :, :-count], "outputs of queries that stand before the first key")
        got_weights = weights(case.mechanism, late, Causal())
        zero(got_weights[:, :, :-count], "weights of queries that stand before the first key")
        alone = forward(case.mechanism, late.queries(slice(KEYS - count, None)), Causal())
        same(got[:, :, -count:], alone, f"outputs where only the last {count} queries have keys")


def _lengths(case: Case) -> list[tuple[int, tuple[int, ...]]]:
    short = (KEYS, (1, 2, 5, KEYS - 1))
    return [short, (LONG, (1, 63, 64, 65, LONG - 2))] if case.fits(LONG) else [short]


def _late_and_large(case: Case, length: int, cut: int, scale: float) -> Inputs:
    inputs = case.draw_tokens(length, batch_size=1)
    later: Tensor = torch.arange(length)[:, None] >= cut
    return inputs.changed(case.like(inputs, scale=scale), later, queries=True)
