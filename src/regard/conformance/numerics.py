"""Numbers stay numbers: at large scores, in single precision, and the second time as the first."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from regard.conformance.case import (
    CLOSE,
    KEYS,
    KV_HEADS,
    LONG,
    Case,
    CheckFailed,
    Inputs,
    NotApplicable,
    close,
    demand,
    extend,
    finite,
    forward,
    same,
    start,
    step,
    weights,
)
from regard.conformance.equivalence import finite_gradients, three_faces
from regard.core.masks import NO_MASK, Mask, Padding

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


# Inputs at the ends of what is legal: saturated extras, zeros, keys that are all the same.


# A layer whose input is fifty times too large: every squashing function is saturated.
SATURATED = 50.0


def extras_at_their_extremes(case: Case) -> None:
    """With every extra at either end of its range: faces agree, and float32 stays finite."""
    if not case.mechanism.extras:
        raise NotApplicable("it declares no extras")
    length = LONG if case.fits(LONG) else KEYS
    for when, inputs in _saturated(case, length):
        three_faces(case, inputs, when)
        single = inputs.each(lambda tensor: tensor.float())
        mechanism = case.build().float()
        finite(weights(mechanism, single, case.open_mask), f"weights in float32 {when}")
        finite_gradients(mechanism, single, case.open_mask, f"in float32 {when}")


def zero_and_repeated_inputs(case: Case) -> None:
    """Queries and keys of zero, and keys that repeat, are inputs like any other."""
    for when, inputs in _degenerate(case):
        finite(forward(case.mechanism, inputs, case.open_mask), f"outputs {when}")
        three_faces(case, inputs, when)
        finite_gradients(case.mechanism, inputs, case.open_mask, when)


def _saturated(case: Case, length: int) -> Iterator[tuple[str, Inputs]]:
    inputs = case.draw_tokens(length, batch_size=1)
    signs: dict[str, Callable[[Tensor], Tensor]] = {
        "all at +50": torch.ones_like,
        "all at −50": lambda raw: -torch.ones_like(raw),
        "at +50 or −50 by chance": torch.sign,
    }
    for name, sign in signs.items():
        raw: dict[str, Tensor] = {
            extra.name: torch.randn(
                inputs.extras[extra.name].shape, generator=case.generator, dtype=torch.float64
            )
            for extra in case.mechanism.extras
        }
        squashed = {
            extra.name: extra.squash(SATURATED * sign(raw[extra.name]))
            for extra in case.mechanism.extras
        }
        yield f"with extras squashed from inputs {name}", inputs.with_tensors(squashed)


def _degenerate(case: Case) -> Iterator[tuple[str, Inputs]]:
    inputs = case.draw_tokens(KEYS)
    no_query, no_key = torch.zeros_like(inputs.query), torch.zeros_like(inputs.key)
    some = inputs.key.index_fill(2, torch.tensor([0, 4]), 0.0)
    one = inputs.key[:, :, :1].expand_as(inputs.key).contiguous()
    pairs = inputs.key[:, :, torch.arange(KEYS) // 2]
    changes: dict[str, dict[str, Tensor]] = {
        "with queries of zero": {"query": no_query},
        "with keys of zero": {"key": no_key},
        "with queries and keys of zero": {"query": no_query, "key": no_key},
        "with two keys of zero among others": {"key": some},
        "with one key repeated": {"key": one},
        "with every key twice": {"key": pairs},
    }
    for when, tensors in changes.items():
        yield when, inputs.with_tensors(tensors)


# What a tensor is besides its numbers: its layout in memory, its type, and whose it is.


def memory_layout(case: Case) -> None:
    """Transposed, strided and expanded tensors give what contiguous ones give."""
    inputs = case.draw_tokens(KEYS, num_kv_heads=KV_HEADS)
    layouts = {
        "heads stored inside positions": inputs.each(_heads_inside),
        "width stored outside positions": inputs.each(_width_outside),
        "every second number of a wider tensor": inputs.each(_strided),
    }
    for layout, other in layouts.items():
        for mask in case.masks(inputs):
            expected, got = (
                forward(case.mechanism, inputs, mask),
                forward(case.mechanism, other, mask),
            )
            close(got, expected, f"forward with {layout} under {mask}")
            close(
                weights(case.mechanism, other, mask),
                weights(case.mechanism, inputs, mask),
                f"weights with {layout} under {mask}",
            )
        expected, _ = step(case.mechanism, start(case.mechanism, inputs), inputs)
        got, _ = step(case.mechanism, start(case.mechanism, other), other)
        close(got, expected, f"decoding with {layout}")
    shared = inputs.rows(slice(0, 1)).each(lambda tensor: tensor.expand(3, -1, -1, -1))
    whole = forward(case.mechanism, shared, case.open_mask)
    same(whole, whole[:1].expand_as(whole), "rows of one row expanded to a batch")


def inputs_not_mutated(case: Case) -> None:
    """No face writes into a tensor it was given, nor into the mask."""
    inputs = case.draw_tokens(KEYS)
    for mask in case.masks(inputs):
        tensors = {**inputs.tensors(), **_tensors_of(mask)}
        kept = {name: tensor.clone() for name, tensor in tensors.items()}
        with torch.no_grad():
            forward(case.mechanism, inputs, mask)
            weights(case.mechanism, inputs, mask)
            padding = Mask(lengths=mask.lengths) if mask.lengths is not None else NO_MASK
            state = extend(case.mechanism, start(case.mechanism, inputs), inputs, padding)
            case.mechanism.read(state, inputs.query)
        for name, tensor in tensors.items():
            demand(
                torch.equal(tensor, kept[name]),
                f"a call under {mask} has written into its {name}",
            )


def dtype_preserved(case: Case) -> None:
    """The output has the type of the input, in every face."""
    for dtype in (torch.float32, torch.float64):
        inputs = case.draw_tokens(KEYS).each(lambda tensor, to=dtype: tensor.to(to))  # type: ignore[misc]
        mechanism = case.mechanism.to(dtype)
        state = extend(mechanism, start(mechanism, inputs), inputs)
        outputs: dict[str, Any] = {
            "forward": forward(mechanism, inputs, case.open_mask),
            "weights": weights(mechanism, inputs, case.open_mask),
            "read": mechanism.read(state, inputs.query),
        }
        for face, output in outputs.items():
            demand(output.dtype == dtype, f"{face} gives {output.dtype} for {dtype}")


def _heads_inside(tensor: Tensor) -> Tensor:
    return tensor.transpose(1, 2).contiguous().transpose(1, 2)


def _width_outside(tensor: Tensor) -> Tensor:
    return tensor.transpose(2, 3).contiguous().transpose(2, 3)


def _strided(tensor: Tensor) -> Tensor:
    return torch.stack([tensor, torch.full_like(tensor, 1e3)], dim=-1).flatten(-2)[..., ::2]


def _tensors_of(mask: Mask) -> dict[str, Tensor]:
    found = {"lengths": mask.lengths, "allowed": mask.allowed}
    return {name: tensor for name, tensor in found.items() if tensor is not None}


# Rows of the batch and heads do not meet; the order of the keys matters only where declared.


def batch_independence(case: Case) -> None:
    """A row alone gives what it gives in a batch, and the other rows may hold anything."""
    inputs = case.draw_tokens(KEYS, batch_size=5)
    rows = inputs.key.shape[0]
    for mask in case.masks(inputs):
        if mask.allowed is not None:
            continue
        whole = forward(case.mechanism, inputs, mask)
        for row in range(rows):
            own = slice(row, row + 1)
            own_mask = mask
            if mask.lengths is not None:
                own_mask = mask.without("lengths") & Padding(mask.lengths[own])
            alone = forward(case.mechanism, inputs.rows(own), own_mask)
            close(whole[own], alone, f"row {row} in the batch against alone under {mask}")
    whole = forward(case.mechanism, inputs, case.open_mask)
    for scale in (1.0, 1e3):
        other = case.like(inputs, scale=scale)
        for row in range(rows):
            others = (torch.arange(rows) != row)[:, None, None, None]
            after = forward(
                case.mechanism, inputs.changed(other, others, queries=True), case.open_mask
            )
            same(after[row], whole[row], f"row {row} after changing the other rows (×{scale:g})")


def head_independence(case: Case) -> None:
    """What one head is given leaves the others as they are."""
    inputs = case.draw_tokens(KEYS)
    whole = forward(case.mechanism, inputs, case.open_mask)
    for scale in (1.0, 1e3):
        other = case.like(inputs, scale=scale)
        for head in range(case.num_heads):
            others = (torch.arange(case.num_heads) != head)[None, :, None, None]
            after = forward(
                case.mechanism, inputs.changed(other, others, queries=True), case.open_mask
            )
            what = f"head {head} after changing the other heads (×{scale:g})"
            same(after[:, head], whole[:, head], what)


def permutation_behaviour(case: Case) -> None:
    """Reordering keys with their values changes nothing, or something if so declared."""
    changed = False
    for length in (KEYS, LONG):
        if not case.fits(length):
            continue
        # The last query sees every key, so that a mechanism which must be causal has its say too.
        inputs = case.draw(query_length=1, key_length=length)
        before = forward(case.mechanism, inputs, case.open_mask)
        for order in (torch.arange(length).flip(0), _shuffled(case, length)):
            after = forward(case.mechanism, inputs.keys(order), case.open_mask)
            if case.promised.position_aware:
                changed |= bool((after - before).abs().max() > CLOSE)
            else:
                what = f"the output after reordering {length} keys, declared position_aware=False"
                close(after, before, what)
    if case.promised.position_aware and not changed:
        raise CheckFailed(
            "it declares position_aware=True but the order of the keys changes nothing"
        )


def _shuffled(case: Case, length: int) -> Tensor:
    return torch.randperm(length, generator=case.generator)
