"""The first two faces agree: `forward` is `weights @ value`, whatever the mask and the sizes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.conformance.case import (
    CLOSE,
    HEADS,
    KEY_DIM,
    KEYS,
    KV_HEADS,
    LONG,
    SAME,
    Case,
    Inputs,
    NotApplicable,
    close,
    extend,
    finite,
    forward,
    start,
    step,
    weights,
)
from regard.core.masks import Causal, Mask, Padding
from regard.core.mechanism import Mechanism, ScoreBias, repeat_heads


def forward_equals_weights(case: Case) -> None:
    """For every mask the mechanism takes, with fewer, as many and more queries than keys."""
    for query_length, key_length in ((7, 11), (11, 11), (11, 7)):
        for kv_heads in (HEADS, KV_HEADS):
            inputs = case.draw(
                num_kv_heads=kv_heads, query_length=query_length, key_length=key_length
            )
            for mask in case.masks(inputs):
                _agree(case, inputs, mask)
    if case.fits(LONG):
        inputs = case.draw_tokens(LONG, batch_size=1)
        for mask in case.masks(inputs):
            _agree(case, inputs, mask)


def weights_are_forward_on_one_hot(case: Case) -> None:
    """Values that are one-hot vectors come out as the weights themselves."""
    inputs = case.draw()
    one_hot = torch.eye(inputs.key_length, dtype=torch.float64).expand(
        *inputs.key.shape[:2], -1, -1
    )
    inputs = inputs.with_tensors({"value": one_hot})
    for mask in case.masks(inputs):
        got = weights(case.mechanism, inputs, mask)
        close(got, forward(case.mechanism, inputs, mask), f"weights under {mask}")


def unequal_widths(case: Case) -> None:
    """Queries may be wider than keys, if the constructor asks for the width of both."""
    if not {"query_dim", "key_dim"} <= case.subject.parameters:
        raise NotApplicable(
            "its constructor does not take both query_dim and key_dim, so they must be equal"
        )
    wider = case.sized(query_dim=KEY_DIM + 3)
    _agree(wider, wider.draw(), wider.open_mask)


def grouped_heads(case: Case) -> None:
    """Fewer key/value heads than query heads: the same as repeating each for its group."""
    inputs = case.draw(num_kv_heads=KV_HEADS)
    repeated = inputs.with_tensors(
        {n: repeat_heads(t, HEADS) for n, t in inputs.tensors().items() if n != "query"}
    )
    for mask in case.masks(inputs):
        expected = forward(case.mechanism, repeated, mask)
        close(forward(case.mechanism, inputs, mask), expected, f"forward, grouped, under {mask}")
        expected = weights(case.mechanism, repeated, mask)
        close(weights(case.mechanism, inputs, mask), expected, f"weights, grouped, under {mask}")


def score_bias_in_both_faces(case: Case) -> None:
    """A score bias changes `forward` and `weights` alike, and no bias is a bias of zero."""
    if not case.promised.score_bias:
        raise NotApplicable("it takes no score bias")
    inputs, bias = case.draw(), case.bias()
    for mask in case.masks(inputs):
        _agree(case, inputs, mask, bias)
    bias.slopes = torch.zeros_like(bias.slopes)
    plain = forward(case.mechanism, inputs, case.open_mask)
    close(
        forward(case.mechanism, inputs, case.open_mask, bias), plain, "forward with a bias of zero"
    )


def _agree(case: Case, inputs: Inputs, mask: Mask, bias: ScoreBias | None = None) -> None:
    value = repeat_heads(inputs.value, case.num_heads)
    expected: Tensor = weights(case.mechanism, inputs, mask, bias) @ value
    what = f"forward against weights @ value, {_sizes(inputs)}, under {mask}"
    close(forward(case.mechanism, inputs, mask, bias), expected, what)


def _sizes(inputs: Inputs) -> str:
    return f"{inputs.query_length} queries and {inputs.key_length} keys"


# What the mechanism declares about its weights holds: rows sum to one, and none is negative.


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


# What several checks demand of one set of inputs: that all faces agree, that gradients are numbers.


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


# Faster ways of computing the same thing give the same numbers.


CHUNK_SIZES = (1, 2, 3, 5, 64)
FORMS = ("auto", "quadratic", "linear")


def chunk_size_independence(case: Case) -> None:
    """Where there is an attribute `chunk_size`, its value changes nothing."""
    if not isinstance(getattr(case.mechanism, "chunk_size", None), int):
        raise NotApplicable("it has no attribute `chunk_size`")
    if getattr(case.mechanism, "form", None) in FORMS:
        # The quadratic form, which short sequences would take, has no chunks.
        setattr(case.mechanism, "form", "linear")  # noqa: B010 (not every mechanism has it)
    _vary(case, "chunk_size", CHUNK_SIZES)


def form_independence(case: Case) -> None:
    """Where there is an attribute `form` (auto, quadratic or linear), its value changes nothing."""
    if getattr(case.mechanism, "form", None) not in FORMS:
        raise NotApplicable("it has no attribute `form`")
    _vary(case, "form", FORMS)


def _vary(case: Case, attribute: str, choices: tuple[object, ...]) -> None:
    lengths = [(7, KEYS), (KEYS, KEYS), (13, KEYS), (LONG, LONG)]
    for query_length, key_length in lengths:
        if not case.fits(key_length):
            continue
        inputs = case.draw(query_length=query_length, key_length=key_length)
        padding = Padding(case.lengths(inputs))
        for mask in (case.open_mask, Causal(), padding, Causal() & padding):
            if not case.takes(mask):
                continue
            original = getattr(case.mechanism, attribute)
            expected = forward(case.mechanism, inputs, mask)
            for choice in choices:
                setattr(case.mechanism, attribute, choice)
                got = forward(case.mechanism, inputs, mask)
                what = f"{query_length} queries, {key_length} keys, {mask}: {attribute}={choice!r}"
                close(got, expected, f"{what} against {original!r}")
            setattr(case.mechanism, attribute, original)


# What holds for a hundred tokens holds for several hundred.
#
# The other checks stop at a length a little beyond the usual chunks and blocks. Here a cache has
# grown a few times, and blocks follow one another that are neither the first nor the last.


# A multiple of no chunk size.
LONGEST = 419
# Few and large, so that the state grows as it does for a long prompt, and then token by token.
PIECES = (137, 200, 78)


def forward_when_long(case: Case) -> None:
    """`forward` is `weights @ value` at every place of a long sequence, under every mask."""
    sized = _narrow(case)
    inputs = _tokens(sized)
    for mask in sized.masks(inputs):
        expected = weights(sized.mechanism, inputs, mask) @ inputs.value
        what = f"forward against weights @ value, {LONGEST} tokens, under {mask}"
        close(forward(sized.mechanism, inputs, mask), expected, what)


def decoding_when_long(case: Case) -> None:
    """After a long prompt in large pieces, steps and a read give the last rows of `forward`."""
    sized = _narrow(case)
    inputs = _tokens(sized)
    expected = forward(sized.mechanism, inputs, sized.open_mask)
    state, end = start(sized.mechanism, inputs), 0
    for piece in PIECES:
        state = extend(sized.mechanism, state, inputs.keys(slice(end, end + piece)))
        end += piece
    after = state
    if "causal" in sized.promised.masks:
        causal = forward(sized.mechanism, inputs, Causal())
        for place in range(end, LONGEST):
            token = slice(place, place + 1)
            output, after = step(sized.mechanism, after, inputs.tokens(token))
            close(output, causal[:, :, token], f"position {place} decoded after a long prompt")
    else:
        after = extend(sized.mechanism, after, inputs.keys(slice(end, None)))
    last = inputs.query[:, :, -1:]
    got = sized.mechanism.read(after, last)
    close(got, expected[:, :, -1:], f"a read of {LONGEST} tokens against the last row of forward")


def _narrow(case: Case) -> Case:
    """The same subject, built long and narrow."""
    sized = case.sized(num_heads=2, key_dim=4, query_dim=4, value_dim=3, max_length=LONGEST)
    if not sized.fits(LONGEST):
        raise NotApplicable(f"it takes no more than {sized.promised.max_length} keys")
    return sized


def _tokens(case: Case) -> Inputs:
    return case.draw_tokens(LONGEST, batch_size=1)
