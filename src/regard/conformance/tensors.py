"""What a tensor is besides its numbers: its layout in memory, its type, and whose it is."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.conformance.case import KEYS, KV_HEADS, Case
from regard.conformance.inputs import extend, forward, start, step, weights
from regard.conformance.verdict import close, demand, same
from regard.core.masks import NO_MASK, Mask


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
