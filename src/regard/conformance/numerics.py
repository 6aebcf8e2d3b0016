"""Checks of numerics: overflow, float32, determinism, memory layout, dtype, batch and head independence."""

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
    assert_close,
    assert_equal,
    assert_finite,
    require,
)
from regard.conformance.equivalence import assert_finite_gradients, assert_methods_agree
from regard.core.masks import NO_MASK, Mask, Padding

# Scores of 10⁴ and more, far beyond where exp overflows float32.
LARGE = 100.0
# float32 has seven digits; sums over a hundred terms and a quotient lose three.
SINGLE = 1e-4
# Largest scores q·k/√d: their exp, or that of their differences, is near the float32 limit.
SCORES = (30.0, 44.0, 60.0)
# 60 rounded to float32 is off by 4·10⁻⁶, and so is its exponential; sums lose more.
LARGE_SCORE_TOLERANCE = 1e-3


def finite_at_large_scores(case: Case) -> None:
    """Outputs and gradients stay finite in float32 with inputs 100 times too large."""
    case.mechanism.float()
    for mask in case.plain_masks:
        for scales in ((LARGE, 1.0), (1.0, LARGE), (LARGE, LARGE)):
            inputs = case.draw_tokens(KEYS).float()
            query, key = inputs.query * scales[0], inputs.key * scales[1]
            inputs = inputs.with_tensors({"query": query, "key": key})
            output = case.forward(inputs, mask)
            when = f"with queries ×{scales[0]:g} and keys ×{scales[1]:g} under {mask}"
            assert_finite(case.weights(inputs, mask), f"weights {when}")
            if case.capabilities.nonnegative and case.capabilities.rows_sum_to_one:
                largest = inputs.value.abs().max()
                excess = (output.abs() - largest).clamp(min=0.0)
                what = f"outputs {when}, beyond the largest value"
                assert_close(excess, torch.zeros_like(excess), what, tolerance=SINGLE)
            assert_finite_gradients(case, inputs, mask, when)


def methods_agree_at_large_scores(case: Case) -> None:
    """With scores up to ±60, all methods agree in float32 to three digits, and rows sum to one."""
    single = case.with_mechanism(copy.deepcopy(case.mechanism).float())
    for size in SCORES:
        for direction, inputs in _with_scores(case, size).items():
            when = f"with scores {direction} {size:g}"
            assert_methods_agree(single, inputs.float(), when, tolerance=LARGE_SCORE_TOLERANCE)
            if not case.capabilities.rows_sum_to_one:
                continue
            for mask in case.plain_masks:
                attention = single.weights(inputs.float(), mask)
                expected = torch.ones_like(attention[..., 0])
                if case.capabilities.position_aware:
                    # Its own window may end before the mask does: such a row has no weight.
                    expected = expected * (case.weights(inputs, mask) != 0).any(dim=-1)
                what = f"sums of the rows {when} under {mask}"
                assert_close(attention.sum(dim=-1), expected, what, tolerance=LARGE_SCORE_TOLERANCE)


def _with_scores(case: Case, size: float) -> dict[str, Inputs]:
    """Inputs whose scores spread to ±size, are all near −size, or all near +size."""
    inputs = case.draw_tokens(LONG if case.fits(LONG) else KEYS, batch_size=1)
    root = inputs.key.shape[-1] ** 0.5
    pairs = (inputs.query @ inputs.key.mT).abs().max() / root
    spread = (size / pairs).sqrt()
    # One direction, with 10 % variation from token to token.
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
    """Float32 matches the float64 output to four digits."""
    single = case.with_mechanism(copy.deepcopy(case.mechanism).float())
    length = LONG if case.fits(LONG) else KEYS
    inputs = case.draw_tokens(length, batch_size=2)
    for mask in case.masks(inputs):
        expected = case.forward(inputs, mask)
        got = single.forward(inputs.float(), mask)
        assert_close(got, expected, f"float32 against float64 under {mask}", tolerance=SINGLE)


def deterministic_in_eval(case: Case) -> None:
    """Repeated calls are bit-identical, in training mode too."""
    inputs = case.draw_tokens(KEYS)
    for mask in case.masks(inputs):
        case.mechanism.eval()
        first, again = case.forward(inputs, mask), case.forward(inputs, mask)
        assert_close(again, first, f"the same call a second time under {mask}", tolerance=0.0)
        attention, again = case.weights(inputs, mask), case.weights(inputs, mask)
        what = f"the same weights a second time under {mask}"
        assert_close(again, attention, what, tolerance=0.0)
        case.mechanism.train()
        what = f"training against evaluation mode under {mask}"
        assert_close(case.forward(inputs, mask), first, what, tolerance=0.0)
        require(not first.isnan().any(), f"the output is NaN under {mask}")


# Gate inputs fifty times too large: every activation is saturated.
SATURATED = 50.0


def saturated_gates(case: Case) -> None:
    """With saturated gates, all methods agree and float32 stays finite."""
    if not case.mechanism.gates:
        raise NotApplicable("it declares no gates")
    length = LONG if case.fits(LONG) else KEYS
    for when, inputs in _saturated(case, length):
        assert_methods_agree(case, inputs, when)
        single = case.with_mechanism(case.build().float())
        attention = single.weights(inputs.float(), case.open_mask)
        assert_finite(attention, f"weights in float32 {when}")
        assert_finite_gradients(single, inputs.float(), case.open_mask, f"in float32 {when}")


def zero_and_repeated_inputs(case: Case) -> None:
    """With zero queries or keys, and repeated keys, all methods agree and are finite."""
    for when, inputs in _degenerate(case):
        assert_finite(case.forward(inputs, case.open_mask), f"outputs {when}")
        assert_methods_agree(case, inputs, when)
        assert_finite_gradients(case, inputs, case.open_mask, when)


def _saturated(case: Case, length: int) -> Iterator[tuple[str, Inputs]]:
    inputs = case.draw_tokens(length, batch_size=1)
    signs: dict[str, Callable[[Tensor], Tensor]] = {
        "all at +50": torch.ones_like,
        "all at −50": lambda raw: -torch.ones_like(raw),
        "at +50 or −50 at random": torch.sign,
    }
    for name, sign in signs.items():
        raw: dict[str, Tensor] = {
            gate.name: torch.randn(
                inputs.gates[gate.name].shape, generator=case.generator, dtype=torch.float64
            )
            for gate in case.mechanism.gates
        }
        gates = {
            gate.name: gate.activation(SATURATED * sign(raw[gate.name]))
            for gate in case.mechanism.gates
        }
        yield f"with gate activations of inputs {name}", inputs.with_tensors(gates)


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


def memory_layout(case: Case) -> None:
    """Transposed, strided and expanded inputs give the same output."""
    inputs = case.draw_tokens(KEYS, num_kv_heads=KV_HEADS)
    layouts = {
        "heads stored inside positions": inputs.map(_heads_inside),
        "width stored outside positions": inputs.map(_width_outside),
        "every second number of a wider tensor": inputs.map(_strided),
    }
    for layout, other in layouts.items():
        for mask in case.masks(inputs):
            expected, got = (case.forward(inputs, mask), case.forward(other, mask))
            assert_close(got, expected, f"forward with {layout} under {mask}")
            assert_close(
                case.weights(other, mask),
                case.weights(inputs, mask),
                f"weights with {layout} under {mask}",
            )
        expected, _ = case.step(case.start(inputs), inputs)
        got, _ = case.step(case.start(other), other)
        assert_close(got, expected, f"decoding with {layout}")
    shared = inputs.examples(slice(0, 1)).map(lambda tensor: tensor.expand(3, -1, -1, -1))
    whole = case.forward(shared, case.open_mask)
    assert_equal(whole, whole[:1].expand_as(whole), "one example expanded to a batch")


def inputs_not_mutated(case: Case) -> None:
    """No method modifies its inputs."""
    inputs = case.draw_tokens(KEYS)
    for mask in case.masks(inputs):
        tensors = {**inputs.tensors(), **_tensors_of(mask)}
        kept = {name: tensor.clone() for name, tensor in tensors.items()}
        with torch.no_grad():
            case.forward(inputs, mask)
            case.weights(inputs, mask)
            padding = Mask(lengths=mask.lengths) if mask.lengths is not None else NO_MASK
            state = case.extend(case.start(inputs), inputs, padding)
            case.mechanism.read(state, inputs.query)
        for name, tensor in tensors.items():
            require(
                torch.equal(tensor, kept[name]), f"a call under {mask} modified its input {name}"
            )


def dtype_preserved(case: Case) -> None:
    """The output has the dtype of the input."""
    for dtype in (torch.float32, torch.float64):
        inputs = case.draw_tokens(KEYS).map(lambda tensor, to=dtype: tensor.to(to))  # type: ignore[misc]
        case.mechanism.to(dtype)
        state = case.extend(case.start(inputs), inputs)
        outputs: dict[str, Any] = {
            "forward": case.forward(inputs, case.open_mask),
            "weights": case.weights(inputs, case.open_mask),
            "read": case.mechanism.read(state, inputs.query),
        }
        for method, output in outputs.items():
            require(output.dtype == dtype, f"{method} returns {output.dtype} for {dtype}")


def _heads_inside(tensor: Tensor) -> Tensor:
    return tensor.transpose(1, 2).contiguous().transpose(1, 2)


def _width_outside(tensor: Tensor) -> Tensor:
    return tensor.transpose(2, 3).contiguous().transpose(2, 3)


def _strided(tensor: Tensor) -> Tensor:
    return torch.stack([tensor, torch.full_like(tensor, 1e3)], dim=-1).flatten(-2)[..., ::2]


def _tensors_of(mask: Mask) -> dict[str, Tensor]:
    found = {"lengths": mask.lengths, "allowed": mask.allowed}
    return {name: tensor for name, tensor in found.items() if tensor is not None}


def batch_independence(case: Case) -> None:
    """The output of an example does not depend on the rest of the batch."""
    inputs = case.draw_tokens(KEYS, batch_size=5)
    rows = inputs.key.shape[0]
    for mask in case.masks(inputs):
        if mask.allowed is not None:
            continue
        whole = case.forward(inputs, mask)
        for row in range(rows):
            own = slice(row, row + 1)
            own_mask = mask
            if mask.lengths is not None:
                own_mask = mask.without("lengths") & Padding(mask.lengths[own])
            alone = case.forward(inputs.examples(own), own_mask)
            assert_close(whole[own], alone, f"row {row} in the batch against alone under {mask}")
    whole = case.forward(inputs, case.open_mask)
    for scale in (1.0, 1e3):
        other = case.like(inputs, scale=scale)
        for row in range(rows):
            others = (torch.arange(rows) != row)[:, None, None, None]
            after = case.forward(inputs.replaced(other, others, queries=True), case.open_mask)
            assert_equal(
                after[row], whole[row], f"row {row} after changing the other rows (×{scale:g})"
            )


def head_independence(case: Case) -> None:
    """The output of a head does not depend on the inputs of other heads."""
    inputs = case.draw_tokens(KEYS)
    whole = case.forward(inputs, case.open_mask)
    for scale in (1.0, 1e3):
        other = case.like(inputs, scale=scale)
        for head in range(case.num_heads):
            others = (torch.arange(case.num_heads) != head)[None, :, None, None]
            after = case.forward(inputs.replaced(other, others, queries=True), case.open_mask)
            what = f"head {head} after changing the other heads (×{scale:g})"
            assert_equal(after[:, head], whole[:, head], what)


def permutation_behaviour(case: Case) -> None:
    """The order of the keys changes the output if and only if position_aware is declared."""
    changed = False
    for length in (KEYS, LONG):
        if not case.fits(length):
            continue
        # The last query sees every key, so this covers causal-only mechanisms too.
        inputs = case.draw(query_length=1, key_length=length)
        before = case.forward(inputs, case.open_mask)
        for order in (
            torch.arange(length).flip(0),
            torch.randperm(length, generator=case.generator),
        ):
            after = case.forward(inputs.keys(order), case.open_mask)
            if case.capabilities.position_aware:
                changed |= bool((after - before).abs().max() > CLOSE)
            else:
                what = f"the output after reordering {length} keys, declared position_aware=False"
                assert_close(after, before, what)
    if case.capabilities.position_aware and not changed:
        raise CheckFailed(
            "it declares position_aware=True but the order of the keys does not change the output"
        )
