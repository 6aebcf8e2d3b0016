"""Checks that `forward` equals `weights @ value`, for all masks, sizes, chunk sizes and forms."""

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
    assert_close,
    assert_finite,
)
from regard.core.masks import Causal, Mask, Padding
from regard.core.mechanism import ScoreBias, repeat_heads


def forward_equals_weights(case: Case) -> None:
    """Forward equals weights @ value under every supported mask, alone and combined."""
    for query_length, key_length in ((7, 11), (11, 11), (11, 7)):
        for kv_heads in (HEADS, KV_HEADS):
            inputs = case.draw(
                num_kv_heads=kv_heads, query_length=query_length, key_length=key_length
            )
            for mask in case.masks(inputs):
                _assert_agree(case, inputs, mask)
    if case.fits(LONG):
        inputs = case.draw_tokens(LONG, batch_size=1)
        for mask in case.masks(inputs):
            _assert_agree(case, inputs, mask)


def weights_are_forward_on_one_hot(case: Case) -> None:
    """Forward on one-hot values equals weights."""
    inputs = case.draw()
    one_hot = torch.eye(inputs.key_length, dtype=torch.float64).expand(
        *inputs.key.shape[:2], -1, -1
    )
    inputs = inputs.with_tensors({"value": one_hot})
    for mask in case.masks(inputs):
        got = case.weights(inputs, mask)
        assert_close(got, case.forward(inputs, mask), f"weights under {mask}")


def unequal_widths(case: Case) -> None:
    """Queries may be wider than keys if the constructor takes both widths."""
    if not {"query_dim", "key_dim"} <= case.subject.parameters:
        raise NotApplicable(
            "its constructor does not take both query_dim and key_dim, so they must be equal"
        )
    wider = case.sized(query_dim=KEY_DIM + 3)
    _assert_agree(wider, wider.draw(), wider.open_mask)


def grouped_heads(case: Case) -> None:
    """Grouped-query attention equals repeating each key/value head for its group."""
    inputs = case.draw(num_kv_heads=KV_HEADS)
    repeated = inputs.with_tensors(
        {n: repeat_heads(t, HEADS) for n, t in inputs.tensors().items() if n != "query"}
    )
    for mask in case.masks(inputs):
        expected = case.forward(repeated, mask)
        assert_close(case.forward(inputs, mask), expected, f"forward, grouped, under {mask}")
        expected = case.weights(repeated, mask)
        assert_close(case.weights(inputs, mask), expected, f"weights, grouped, under {mask}")


def score_bias_in_forward_and_weights(case: Case) -> None:
    """A score bias affects forward and weights alike; a zero bias changes nothing."""
    case.need_score_bias()
    inputs, bias = case.draw(), case.bias()
    for mask in case.masks(inputs):
        _assert_agree(case, inputs, mask, bias)
    bias.slopes = torch.zeros_like(bias.slopes)
    plain = case.forward(inputs, case.open_mask)
    assert_close(case.forward(inputs, case.open_mask, bias), plain, "forward with a bias of zero")


def _assert_agree(case: Case, inputs: Inputs, mask: Mask, bias: ScoreBias | None = None) -> None:
    value = repeat_heads(inputs.value, case.num_heads)
    expected: Tensor = case.weights(inputs, mask, bias) @ value
    what = f"forward against weights @ value, {_sizes(inputs)}, under {mask}"
    assert_close(case.forward(inputs, mask, bias), expected, what)


def _sizes(inputs: Inputs) -> str:
    return f"{inputs.query_length} queries and {inputs.key_length} keys"


def rows_sum_to_one_or_zero(case: Case) -> None:
    """A row of weights sums to one, or to zero if it is fully masked."""
    if not case.capabilities.rows_sum_to_one:
        raise NotApplicable("it declares rows_sum_to_one=False")
    for query_length in (7, 13):
        inputs = case.draw(query_length=query_length)
        for mask in case.masks(inputs):
            got = case.weights(inputs, mask)
            allowed = mask.boolean(query_length, inputs.key_length)
            expected = torch.ones_like(got[..., 0])
            if allowed is not None:
                expected = expected * allowed.any(dim=-1)
            if case.capabilities.position_aware:
                # Its own window may end before the mask does: such a row has no weight.
                expected = expected * (got != 0).any(dim=-1)
            assert_close(got.sum(dim=-1), expected, f"sums of the rows under {mask}")


def weights_nonnegative(case: Case) -> None:
    """No weight is negative."""
    if not case.capabilities.nonnegative:
        raise NotApplicable("it declares nonnegative=False")
    inputs = case.draw(scale=2.0)
    for mask in case.masks(inputs):
        got = case.weights(inputs, mask)
        negative = got.clamp(max=0.0)
        assert_close(
            negative, torch.zeros_like(negative), f"negative weights under {mask}", tolerance=SAME
        )


# Tokens at either end that are decoded one by one.
ENDS = 8


def assert_methods_agree(
    case: Case, inputs: Inputs, when: str, *, tolerance: float = CLOSE
) -> None:
    """Assert that `forward`, `weights @ value` and `step` agree, without a mask and causally."""
    value = repeat_heads(inputs.value, case.num_heads)
    for mask in case.plain_masks:
        output = case.forward(inputs, mask)
        expected = case.weights(inputs, mask) @ value
        what = f"forward against weights @ value {when} under {mask}"
        assert_close(output, expected, what, tolerance=tolerance)
        if mask.causal:
            _decode(case, inputs, output, when, tolerance)


def _decode(case: Case, inputs: Inputs, expected: Tensor, when: str, tolerance: float) -> None:
    """Decode the first and last tokens one by one; those between at once if there are many."""
    state: Any = case.start(inputs)
    length, ends = inputs.key_length, min(ENDS, inputs.key_length // 2)
    for chunk in (slice(0, ends), slice(ends, length - ends), slice(length - ends, length)):
        if chunk.stop - chunk.start > 2 * ENDS:
            state = case.extend(state, inputs.keys(chunk))
            continue
        decoded, state = case.step(state, inputs.tokens(chunk))
        what = f"positions from {chunk.start} decoded against the causal forward {when}"
        assert_close(decoded, expected[:, :, chunk], what, tolerance=tolerance)


def assert_finite_gradients(case: Case, inputs: Inputs, mask: Mask, when: str) -> None:
    """Assert that the output and all gradients are finite."""
    leaves = inputs.leaves()
    output = case.forward(leaves, mask)
    assert_finite(output, f"outputs {when}")
    for name, gradient in case.gradients(output, leaves).items():
        assert_finite(gradient, f"gradient of {name} {when}")


CHUNK_SIZES = (1, 2, 3, 5, 64)
FORMS = ("auto", "quadratic", "linear")


def chunk_size_independence(case: Case) -> None:
    """The attribute chunk_size does not change the output."""
    if not isinstance(getattr(case.mechanism, "chunk_size", None), int):
        raise NotApplicable("it has no attribute `chunk_size`")
    if getattr(case.mechanism, "form", None) in FORMS:
        # Short sequences would use the quadratic form, which has no chunks.
        setattr(case.mechanism, "form", "linear")  # noqa: B010 (not every mechanism has it)
    _vary(case, "chunk_size", CHUNK_SIZES)


def form_independence(case: Case) -> None:
    """The attribute form does not change the output."""
    if getattr(case.mechanism, "form", None) not in FORMS:
        raise NotApplicable("it has no attribute `form`")
    _vary(case, "form", FORMS)


def _vary(case: Case, attribute: str, choices: tuple[object, ...]) -> None:
    for query_length, key_length in ((7, KEYS), (KEYS, KEYS), (13, KEYS), (LONG, LONG)):
        if not case.fits(key_length):
            continue
        inputs = case.draw(query_length=query_length, key_length=key_length)
        padding = Padding(case.lengths(inputs))
        for mask in (case.open_mask, Causal(), padding, Causal() & padding):
            if not case.supports(mask):
                continue
            original = getattr(case.mechanism, attribute)
            expected = case.forward(inputs, mask)
            for choice in choices:
                setattr(case.mechanism, attribute, choice)
                got = case.forward(inputs, mask)
                what = f"{query_length} queries, {key_length} keys, {mask}: {attribute}={choice!r}"
                assert_close(got, expected, f"{what} against {original!r}")
            setattr(case.mechanism, attribute, original)


# Several chunks and several growths of the KV cache; a multiple of no chunk size.
LONGEST = 419
# Chunks of a long prompt; the rest is decoded token by token.
CHUNKS = (137, 200, 78)


def forward_on_long_sequences(case: Case) -> None:
    """Forward equals weights @ value at every position of 419 tokens, under every mask."""
    sized = _long_case(case)
    inputs = sized.draw_tokens(LONGEST, batch_size=1)
    for mask in sized.masks(inputs):
        expected = sized.weights(inputs, mask) @ inputs.value
        what = f"forward against weights @ value, {LONGEST} tokens, under {mask}"
        assert_close(sized.forward(inputs, mask), expected, what)


def decoding_long_sequences(case: Case) -> None:
    """After a long prompt in large chunks, step and read equal the last rows of forward."""
    sized = _long_case(case)
    inputs = sized.draw_tokens(LONGEST, batch_size=1)
    expected = sized.forward(inputs, sized.open_mask)
    state, end = sized.start(inputs), 0
    for chunk in CHUNKS:
        state = sized.extend(state, inputs.keys(slice(end, end + chunk)))
        end += chunk
    after = state
    if "causal" in sized.capabilities.masks:
        causal = sized.forward(inputs, Causal())
        for position in range(end, LONGEST):
            token = slice(position, position + 1)
            output, after = sized.step(after, inputs.tokens(token))
            assert_close(
                output, causal[:, :, token], f"position {position} decoded after a long prompt"
            )
    else:
        after = sized.extend(after, inputs.keys(slice(end, None)))
    last = inputs.query[:, :, -1:]
    got = sized.mechanism.read(after, last)
    assert_close(
        got, expected[:, :, -1:], f"read of {LONGEST} tokens against the last row of forward"
    )


def _long_case(case: Case) -> Case:
    """The mechanism for long sequences and narrow heads."""
    sized = case.sized(num_heads=2, key_dim=4, query_dim=4, value_dim=3, max_length=LONGEST)
    if not sized.fits(LONGEST):
        raise NotApplicable(f"it supports at most {sized.capabilities.max_length} keys")
    return sized
