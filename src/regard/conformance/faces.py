"""The first two faces agree: `forward` is `weights @ value`, whatever the mask and the sizes."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.conformance.case import HEADS, KEY_DIM, KV_HEADS, LONG, Case
from regard.conformance.inputs import Inputs, forward, weights
from regard.conformance.verdict import NotApplicable, close
from regard.core.masks import Mask
from regard.core.mechanism import ScoreBias, repeat_heads


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
