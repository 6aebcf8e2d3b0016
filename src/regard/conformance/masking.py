"""Checks of masks: causal, padding, window and boolean masks; fully masked rows; empty sequences."""

from __future__ import annotations

from itertools import product

import torch
from torch import Tensor

from regard.conformance.case import (
    HEADS,
    KEYS,
    LONG,
    QUERIES,
    Case,
    Inputs,
    NotApplicable,
    assert_close,
    assert_equal,
    assert_zero,
)
from regard.core.masks import Allowed, Causal, Mask, Padding, Window


def masked_pairs_have_zero_weight(case: Case) -> None:
    """Masked weights are exactly zero."""
    for query_length in (7, 13):
        inputs = case.draw(query_length=query_length)
        for mask in case.masks(inputs):
            allowed = mask.boolean(query_length, inputs.key_length)
            if allowed is not None:
                got = case.weights(inputs, mask)
                assert_zero(got.masked_fill(allowed, 0.0), f"weights of pairs that {mask} forbids")


def masking_equals_deleting(case: Case) -> None:
    """Masking keys equals deleting them."""
    if case.capabilities.position_aware:
        raise NotApplicable(
            "position_aware=True: deleting a key changes the positions of the others"
        )
    if case.capabilities.requires_causal:
        raise NotApplicable("it declares requires_causal=True")
    inputs = case.draw(batch_size=2)
    for mask in case.masks(inputs):
        allowed = mask.boolean(inputs.query_length, inputs.key_length)
        if allowed is None:
            continue
        whole = case.forward(inputs, mask)
        visible = allowed.expand(2, -1, -1, -1)
        for row, position, head in product(
            range(2), range(inputs.query_length), range(allowed.shape[1])
        ):
            kept = visible[row, head, position].nonzero()[:, 0]
            alone = (
                inputs.examples(slice(row, row + 1))
                .keys(kept)
                .queries(slice(position, position + 1))
            )
            # A mask shared by all heads is compared for all of them at once.
            heads = slice(None) if allowed.shape[1] == 1 else slice(head, head + 1)
            expected = case.forward(alone)[0, heads, 0]
            what = f"row {row}, query {position} under {mask} against the visible keys alone"
            assert_close(whole[row, heads, position], expected, what)


def window_mask(case: Case) -> None:
    """Window(0) is the query's own position; a window wider than the sequence has no effect."""
    case.need_mask("window")
    inputs = case.draw_tokens(KEYS)
    widest = case.forward(inputs, Window(KEYS) & case.open_mask)
    assert_close(widest, case.forward(inputs, case.open_mask), "a window of the sequence length")
    own = case.weights(inputs, Window(0) & case.open_mask)
    others = ~torch.eye(KEYS, dtype=torch.bool)
    assert_zero(
        own.masked_fill(~others, 0.0), "weights away from a query's own position under Window(0)"
    )
    if case.capabilities.rows_sum_to_one:
        expected = torch.eye(KEYS, dtype=own.dtype).expand_as(own)
        assert_close(own, expected, "weights under Window(0)")
    values = case.like(inputs)
    for radius in (1, 3):
        mask = Window(radius) & case.open_mask
        before = case.forward(inputs, mask)
        for position in (0, KEYS // 2, KEYS - 1):
            outside = ((torch.arange(KEYS) - position).abs() > radius)[:, None]
            after = case.forward(inputs.replaced(values, outside, queries=False), mask)
            what = f"query {position} after changing keys outside its window of radius {radius}"
            assert_equal(after[:, :, position], before[:, :, position], what)


def padding_invariance(case: Case) -> None:
    """Padded keys do not affect the output, whatever they contain."""
    case.need_mask("padding")
    inputs = case.draw_tokens(KEYS)
    lengths = case.lengths(inputs)
    padded = (torch.arange(KEYS) >= lengths[:, None])[:, None, :, None]
    for mask in (Padding(lengths), Causal() & Padding(lengths)):
        if not case.supports(mask):
            continue
        before = case.forward(inputs, mask)
        for scale in (1.0, 1e3, 1e4):
            other = case.like(inputs, scale=scale)
            other = other.with_tensors({"value": other.value * scale})
            after = case.forward(inputs.replaced(other, padded, queries=False), mask)
            assert_equal(
                after, before, f"outputs after changing padded keys (×{scale:g}) under {mask}"
            )
        for row, length in enumerate(lengths.tolist()):
            cut = inputs.examples(slice(row, row + 1)).tokens(slice(0, length))
            expected = case.forward(cut, mask.without("lengths"))
            what = f"row {row} against the same row truncated to its length {length} under {mask}"
            assert_close(before[row, :, :length], expected[0], what)


def fully_masked_rows(case: Case) -> None:
    """A fully masked query has zero output and zero gradient."""
    applied = False
    for inputs, mask, empty in _empty_rows(case):
        if not case.supports(mask):
            continue
        applied = True
        leaves = inputs.leaves()
        output = case.forward(leaves, mask)
        assert_zero(output[empty], f"outputs of fully masked rows under {mask}")
        assert_zero(case.weights(leaves, mask)[empty], f"their weights under {mask}")
        if not output.requires_grad:
            continue
        for name, gradient in case.gradients(output[empty], leaves).items():
            assert_zero(gradient, f"gradient of {name} from empty rows under {mask}")
    if not applied:
        raise NotApplicable("it supports no mask that hides all keys of a query")


def _empty_rows(case: Case) -> list[tuple[Inputs, Mask, tuple[slice | int, ...]]]:
    """Inputs, a mask, and the index of the fully masked outputs."""
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


# Two blocks of 64 and a remainder; radii around a block and around the length.
WINDOWED = 150
RADII = (0, 1, 20, 63, 64, 65, WINDOWED - 1, WINDOWED, 1000)


def boolean_mask_broadcasting(case: Case) -> None:
    """A boolean mask of any broadcastable shape equals the expanded mask."""
    case.need_mask("allowed")
    inputs = case.draw()
    full = (inputs.query.shape[0], case.num_heads, QUERIES, KEYS)
    for bits in range(2 ** len(full)):
        # Each of the four dimensions is full or 1.
        shape = tuple(size if bits >> dim & 1 else 1 for dim, size in enumerate(full))
        _assert_equals_expanded(case, inputs, _pattern(case, shape), full)
    for shape in ((QUERIES, KEYS), (1, KEYS), (QUERIES, 1)):
        _assert_equals_expanded(case, inputs, _pattern(case, shape), full)


def window_radii(case: Case) -> None:
    """Window(r) equals the band as a boolean mask, for radii from 0 to beyond the length."""
    case.need_mask("window")
    case = case.sized(max_length=WINDOWED)
    length = WINDOWED if case.fits(WINDOWED) else KEYS
    inputs = case.draw_tokens(length, batch_size=1)
    distance = (torch.arange(length)[:, None] - torch.arange(length)).abs()
    for radius in RADII:
        mask, band = Window(radius) & case.open_mask, distance <= radius
        attention = case.weights(inputs, mask)
        output = case.forward(inputs, mask)
        assert_zero(attention.masked_fill(band, 0.0), f"weights of pairs more than {radius} apart")
        assert_close(
            output, attention @ inputs.value, f"forward against weights @ value under {mask}"
        )
        expanded = Allowed(band) & case.open_mask
        if case.supports(expanded):
            what = f"forward under {mask} against the same band as a boolean mask"
            assert_close(output, case.forward(inputs, expanded), what)
        if not case.capabilities.position_aware:
            _assert_visible_keys_only(case, inputs, mask, output)


def _pattern(case: Case, shape: tuple[int, ...]) -> Tensor:
    return torch.rand(shape, generator=case.generator) < 0.6


def _assert_equals_expanded(
    case: Case, inputs: Inputs, pattern: Tensor, full: tuple[int, int, int, int]
) -> None:
    short = Allowed(pattern) & case.open_mask
    whole = Allowed(pattern.expand(full).contiguous()) & case.open_mask
    what = f"under a boolean mask of shape {tuple(pattern.shape)} against the expanded mask"
    got, expected = (case.forward(inputs, mask) for mask in (short, whole))
    assert_equal(got, expected, f"forward {what}")
    got, expected = (case.weights(inputs, mask) for mask in (short, whole))
    assert_equal(got, expected, f"weights {what}")


def _assert_visible_keys_only(case: Case, inputs: Inputs, mask: Mask, output: Tensor) -> None:
    """The first, a middle and the last query against a call with the visible keys only."""
    length = inputs.key_length
    allowed = mask.boolean(length, length)
    assert allowed is not None
    for position in (0, length // 2, length - 1):
        kept = allowed[0, 0, position].nonzero()[:, 0]
        alone = inputs.keys(kept).queries(slice(position, position + 1))
        expected = case.forward(alone, case.open_mask)
        what = f"query {position} under {mask} against the visible keys alone"
        assert_close(output[:, :, position : position + 1], expected, what)


# Large enough that a maximum or a sum over all keys would swamp the earlier ones.
SCALES = (1.0, 1e3, 1e4)


def causal_leak_values(case: Case) -> None:
    """Later positions do not affect earlier outputs, however large they are."""
    case.need_mask("causal")
    for length, cuts in _lengths(case):
        inputs = case.draw_tokens(length)
        before = case.forward(inputs, Causal())
        for scale in SCALES:
            other = case.like(inputs, scale=scale)
            for cut in cuts:
                later = torch.arange(length)[:, None] >= cut
                after = case.forward(inputs.replaced(other, later, queries=True), Causal())
                what = f"outputs before position {cut} after changing what follows (×{scale:g})"
                assert_equal(after[:, :, :cut], before[:, :, :cut], what)


def causal_leak_gradients(case: Case) -> None:
    """The gradient of an output with respect to later inputs is exactly zero."""
    case.need_mask("causal")
    for length, cuts in _lengths(case):
        for scale in (1.0, 1e3):
            inputs = _late_and_large(case, length, cuts[-1], scale).leaves()
            output = case.forward(inputs, Causal())
            for cut in cuts:
                early = output[:, :, :cut]
                direction = torch.randn(early.shape, generator=case.generator, dtype=early.dtype)
                gradients = torch.autograd.grad(
                    early, list(inputs.tensors().values()), direction, True, allow_unused=True
                )
                for name, gradient in zip(inputs.tensors(), gradients, strict=True):
                    if gradient is not None:
                        what = f"gradient of outputs before {cut} with respect to later {name}"
                        assert_zero(gradient[:, :, cut:], what)


def causal_alignment(case: Case) -> None:
    """The last query is aligned with the last key, with fewer or more queries than keys."""
    case.need_mask("causal")
    inputs = case.draw_tokens(KEYS)
    whole = case.forward(inputs, Causal())
    whole_weights = case.weights(inputs, Causal())
    for count in (1, 2, QUERIES):
        last = inputs.queries(slice(KEYS - count, None))
        what = f"the last {count} queries alone against the last {count} rows"
        assert_equal(case.forward(last, Causal()), whole[:, :, -count:], f"forward, {what}")
        got = case.weights(last, Causal())
        assert_equal(got, whole_weights[:, :, -count:], f"weights, {what}")
    for count in (1, QUERIES):
        late = inputs.keys(slice(KEYS - count, None))
        got = case.forward(late, Causal())
        assert_zero(got[:, :, :-count], "outputs of queries before the first key")
        got_weights = case.weights(late, Causal())
        assert_zero(got_weights[:, :, :-count], "weights of queries before the first key")
        alone = case.forward(late.queries(slice(KEYS - count, None)), Causal())
        assert_equal(
            got[:, :, -count:], alone, f"outputs where only the last {count} queries have keys"
        )


def _lengths(case: Case) -> list[tuple[int, tuple[int, ...]]]:
    short = (KEYS, (1, 2, 5, KEYS - 1))
    return [short, (LONG, (1, 63, 64, 65, LONG - 2))] if case.fits(LONG) else [short]


def _late_and_large(case: Case, length: int, cut: int, scale: float) -> Inputs:
    inputs = case.draw_tokens(length, batch_size=1)
    later: Tensor = torch.arange(length)[:, None] >= cut
    return inputs.replaced(case.like(inputs, scale=scale), later, queries=True)


def lengths_zero_and_one(case: Case) -> None:
    """Sequences of no keys, no queries, one key and one query."""
    for mask in case.plain_masks:
        for queries, keys in ((7, 0), (0, KEYS), (0, 0), (1, 1), (7, 1), (1, KEYS)):
            inputs = case.draw(query_length=queries, key_length=keys)
            expected = case.weights(inputs, mask) @ inputs.value
            output = case.forward(inputs, mask)
            assert_equal(
                output, expected, f"forward of {queries} queries and {keys} keys under {mask}"
            )
            if keys == 0:
                assert_zero(output, f"outputs without any key under {mask}")
            if keys == queries == 1 and case.capabilities.rows_sum_to_one:
                assert_equal(
                    output, inputs.value.expand(-1, HEADS, -1, -1), f"one key under {mask}"
                )


def decoding_no_tokens(case: Case) -> None:
    """Extending by no tokens changes nothing."""
    inputs, none = case.draw_tokens(5), case.draw_tokens(0)
    state = case.extend(case.start(inputs), inputs)
    output, after = case.step(case.extend(state, none), none)
    assert_equal(output, none.value.expand(-1, HEADS, -1, -1), "the output of a step of no tokens")
    expected = case.mechanism.read(state, inputs.query)
    assert_equal(
        case.mechanism.read(after, inputs.query), expected, "read after extending by no tokens"
    )
    assert_equal(after.position, state.position, "the position after extending by no tokens")
