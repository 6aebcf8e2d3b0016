"""A masked key might as well not be there."""

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
    close,
    extend,
    forward,
    same,
    start,
    step,
    weights,
    zero,
)
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


# Masks in every shape they may have: patterns that broadcast, windows narrow and wide.


# Long enough for two blocks of 64 and a rest; radii on both sides of such a block, and of the length.
WINDOWED = 150
RADII = (0, 1, 20, 63, 64, 65, WINDOWED - 1, WINDOWED, 1000)


def allowed_in_every_shape(case: Case) -> None:
    """A pattern of any shape that broadcasts gives what the same pattern spelled out gives."""
    case.need_mask("allowed")
    inputs = case.draw()
    full = (inputs.query.shape[0], case.num_heads, QUERIES, KEYS)
    for bits in range(2 ** len(full)):
        # Each of the four dimensions is there in full, or is one.
        shape = tuple(size if bits >> place & 1 else 1 for place, size in enumerate(full))
        _as_spelled_out(case, inputs, _pattern(case, shape), full)
    for shape in ((QUERIES, KEYS), (1, KEYS), (QUERIES, 1)):
        _as_spelled_out(case, inputs, _pattern(case, shape), full)


def window_radii(case: Case) -> None:
    """`Window(r)` is the band of pairs at most r apart, whatever r is."""
    case.need_mask("window")
    case = case.sized(max_length=WINDOWED)
    length = WINDOWED if case.fits(WINDOWED) else KEYS
    inputs = case.draw_tokens(length, batch_size=1)
    apart = (torch.arange(length)[:, None] - torch.arange(length)).abs()
    for radius in RADII:
        mask, band = Window(radius) & case.open_mask, apart <= radius
        shown = weights(case.mechanism, inputs, mask)
        output = forward(case.mechanism, inputs, mask)
        zero(shown.masked_fill(band, 0.0), f"weights of pairs more than {radius} apart")
        close(output, shown @ inputs.value, f"forward against weights @ value under {mask}")
        spelled_out = Allowed(band) & case.open_mask
        if case.takes(spelled_out):
            what = f"forward under {mask} against the same band as a boolean mask"
            close(output, forward(case.mechanism, inputs, spelled_out), what)
        if not case.promised.position_aware:
            _only_the_band(case, inputs, mask, output)


def _pattern(case: Case, shape: tuple[int, ...]) -> Tensor:
    return torch.rand(shape, generator=case.generator) < 0.6


def _as_spelled_out(
    case: Case, inputs: Inputs, pattern: Tensor, full: tuple[int, int, int, int]
) -> None:
    short = Allowed(pattern) & case.open_mask
    whole = Allowed(pattern.expand(full).contiguous()) & case.open_mask
    what = f"under a pattern of shape {tuple(pattern.shape)} against the same spelled out"
    got, expected = (forward(case.mechanism, inputs, mask) for mask in (short, whole))
    same(got, expected, f"forward {what}")
    got, expected = (weights(case.mechanism, inputs, mask) for mask in (short, whole))
    same(got, expected, f"weights {what}")


def _only_the_band(case: Case, inputs: Inputs, mask: Mask, output: Tensor) -> None:
    """The first, a middle and the last query against a call that has only the keys they may see."""
    length = inputs.key_length
    allowed = mask.boolean(length, length)
    assert allowed is not None
    for place in (0, length // 2, length - 1):
        kept = allowed[0, 0, place].nonzero()[:, 0]
        alone = inputs.keys(kept).queries(slice(place, place + 1))
        expected = forward(case.mechanism, alone, case.open_mask)
        what = f"query {place} under {mask} against only the keys it may see"
        close(output[:, :, place : place + 1], expected, what)


# Nothing depends on what comes later, and the last query stands where the last key stands.


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


# The shortest sequences: nothing to read, nobody to read it, one of each.


def lengths_zero_and_one(case: Case) -> None:
    """No keys give zeros, no queries give nothing, one key is read whole where rows sum to one."""
    for mask in case.plain_masks:
        for queries, keys in ((7, 0), (0, KEYS), (0, 0), (1, 1), (7, 1), (1, KEYS)):
            inputs = case.draw(query_length=queries, key_length=keys)
            expected = weights(case.mechanism, inputs, mask) @ inputs.value
            output = forward(case.mechanism, inputs, mask)
            same(output, expected, f"forward of {queries} queries and {keys} keys under {mask}")
            if keys == 0:
                zero(output, f"outputs without any key under {mask}")
            if keys == queries == 1 and case.promised.rows_sum_to_one:
                same(output, inputs.value.expand(-1, HEADS, -1, -1), f"one key read under {mask}")


def decoding_nothing(case: Case) -> None:
    """Taking in no tokens changes nothing; a step of no tokens gives no outputs."""
    inputs, none = case.draw_tokens(5), case.draw_tokens(0)
    state = extend(case.mechanism, start(case.mechanism, inputs), inputs)
    output, after = step(case.mechanism, extend(case.mechanism, state, none), none)
    same(output, none.value.expand(-1, HEADS, -1, -1), "the output of a step of no tokens")
    expected = case.mechanism.read(state, inputs.query)
    same(case.mechanism.read(after, inputs.query), expected, "a read after taking in no tokens")
    same(after.position, state.position, "the position after taking in no tokens")
