"""A masked key might as well not be there."""

from __future__ import annotations

from itertools import product

import torch

from regard.conformance.case import KEYS, Case
from regard.conformance.inputs import Inputs, forward, weights
from regard.conformance.verdict import NotApplicable, close, same, zero
from regard.core.masks import Allowed, Causal, Mask, Padding, Window


def masked_pairs_have_no_weight(case: Case) -> None:
    """Where the mask says no, the weight is exactly zero."""
    for query_length in (7, 13):
        inputs = case.draw(query_length=query_length)
        for mask in case.masks(inputs):
            allowed = mask.boolean(query_length, inputs.key_length)
            if allowed is not None:
                got = weights(case.mechanism, inputs, mask)
                zero(got.masked_fill(allowed, 0.0), f"weights of pairs that {mask} forbids")


def masking_is_deleting(case: Case) -> None:
    """A query reads under a mask what it reads without one from only the keys it may see."""
    if case.promised.position_aware:
        raise NotApplicable("it declares position_aware=True: deleting a key would move the others")
    if case.promised.requires_causal:
        raise NotApplicable("it declares requires_causal=True")
    inputs = case.draw(batch_size=2)
    for mask in case.masks(inputs):
        allowed = mask.boolean(inputs.query_length, inputs.key_length)
        if allowed is None:
            continue
        whole = forward(case.mechanism, inputs, mask)
        seen = allowed.expand(2, -1, -1, -1)
        for row, place, head in product(
            range(2), range(inputs.query_length), range(allowed.shape[1])
        ):
            kept = seen[row, head, place].nonzero()[:, 0]
            alone = inputs.rows(slice(row, row + 1)).keys(kept).queries(slice(place, place + 1))
            # A mask that is the same for all heads is compared in all of them at once.
            heads = slice(None) if allowed.shape[1] == 1 else slice(head, head + 1)
            expected = forward(case.mechanism, alone)[0, heads, 0]
            what = f"row {row}, query {place} under {mask} against only the keys it may see"
            close(whole[row, heads, place], expected, what)


def window_mask(case: Case) -> None:
    """A window of radius 0 is a query's own position; one wider than the sequence is no window."""
    case.need_mask("window")
    inputs = case.draw_tokens(KEYS)
    widest = forward(case.mechanism, inputs, Window(KEYS) & case.open_mask)
    close(
        widest, forward(case.mechanism, inputs, case.open_mask), "a window as wide as the sequence"
    )
    own = weights(case.mechanism, inputs, Window(0) & case.open_mask)
    away = ~torch.eye(KEYS, dtype=torch.bool)
    zero(own.masked_fill(~away, 0.0), "weights away from a query's own position under Window(0)")
    if case.promised.rows_sum_to_one:
        expected = torch.eye(KEYS, dtype=own.dtype).expand_as(own)
        close(own, expected, "weights under Window(0)")
    values = case.like(inputs)
    for radius in (1, 3):
        mask = Window(radius) & case.open_mask
        before = forward(case.mechanism, inputs, mask)
        for place in (0, KEYS // 2, KEYS - 1):
            outside = ((torch.arange(KEYS) - place).abs() > radius)[:, None]
            after = forward(case.mechanism, inputs.changed(values, outside, queries=False), mask)
            what = f"query {place} after changing keys outside its window of radius {radius}"
            same(after[:, :, place], before[:, :, place], what)


def padding_invariance(case: Case) -> None:
    """What stands in padded places does not matter, and is as if it were cut off."""
    case.need_mask("padding")
    inputs = case.draw_tokens(KEYS)
    lengths = case.lengths(inputs)
    padded = (torch.arange(KEYS) >= lengths[:, None])[:, None, :, None]
    for mask in (Padding(lengths), Causal() & Padding(lengths)):
        if not case.takes(mask):
            continue
        before = forward(case.mechanism, inputs, mask)
        for scale in (1.0, 1e3, 1e4):
            other = case.like(inputs, scale=scale)
            other = other.with_tensors({"value": other.value * scale})
            after = forward(case.mechanism, inputs.changed(other, padded, queries=False), mask)
            same(after, before, f"outputs after changing padded keys (×{scale:g}) under {mask}")
        for row, length in enumerate(lengths.tolist()):
            cut = inputs.rows(slice(row, row + 1)).tokens(slice(0, length))
            expected = forward(case.mechanism, cut, mask.without("lengths"))
            what = f"row {row} against the same row cut to its length {length} under {mask}"
            close(before[row, :, :length], expected[0], what)


def fully_masked_rows(case: Case) -> None:
    """A query that may attend to nothing gets zeros, and sends back zeros: no NaN, no average."""
    tried = False
    for inputs, mask, empty in _empty_rows(case):
        if not case.takes(mask):
            continue
        tried = True
        leaves = inputs.leaves()
        output = forward(case.mechanism, leaves, mask)
        zero(output[empty], f"outputs with nothing to attend to under {mask}")
        zero(weights(case.mechanism, leaves, mask)[empty], f"their weights under {mask}")
        if not output.requires_grad:
            continue
        named = {**leaves.tensors(), **dict(case.mechanism.named_parameters())}
        learning = {name: tensor for name, tensor in named.items() if tensor.requires_grad}
        gradients = torch.autograd.grad(
            output[empty].sum(), list(learning.values()), allow_unused=True
        )
        for name, gradient in zip(learning, gradients, strict=True):
            if gradient is not None:
                zero(gradient, f"gradient of {name} from empty rows under {mask}")
    if not tried:
        raise NotApplicable("it takes no mask that could leave a query nothing to attend to")


def _empty_rows(case: Case) -> list[tuple[Inputs, Mask, tuple[slice | int, ...]]]:
    """Inputs, a mask, and the index of the outputs that may see nothing."""
    inputs, early = case.draw_tokens(KEYS), case.draw(query_length=13, key_length=KEYS)
    some = torch.tensor([KEYS, 0, 3])
    pattern = torch.ones(KEYS, KEYS, dtype=torch.bool).index_fill(0, torch.tensor([4]), False)
    every: tuple[slice | int, ...] = (slice(None), slice(None))
    return [
        (inputs, Padding(some), (1,)),
        (inputs, Causal() & Padding(some), (1,)),
        (early, Causal(), (*every, slice(0, 2))),
        (early, Window(0), (*every, slice(0, 2))),
        (inputs, Allowed(pattern), (*every, 4)),
    ]
