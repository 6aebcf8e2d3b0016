"""Argument checks of layers: input shapes, masks and decoding states."""

from __future__ import annotations

from torch import Tensor

from regard.core.errors import RegardError, described
from regard.core.masks import Mask, validate_mask


def validate_sequence(
    layer: str, x: object, *, width: int, name: str = "x", width_name: str = "model_dim"
) -> None:
    """Raise an error unless `x` is a tensor (batch, length, width) of the layer's width."""
    if not isinstance(x, Tensor):
        raise RegardError(
            f"{layer} was given {name} = {described(x)}; it must be a tensor "
            f"(batch, length, {width_name}={width})."
        )
    if x.dim() != 3:
        raise RegardError(
            f"{layer} was given {name} of shape {tuple(x.shape)}; it must be "
            f"(batch, length, {width_name}={width}). A single sequence is a batch of one: "
            f"{name}[None]. Token ids must be embedded first."
        )
    if x.shape[2] != width:
        raise RegardError(
            f"{layer} was given {name} of shape {tuple(x.shape)}; it must be "
            f"(batch, length, {width_name}={width}), and its width is {x.shape[2]}. "
            f"Build the layer with {width_name}={x.shape[2]}, or pass vectors of width {width}."
        )


def validate_state(layer: str, state: object, *, batch_size: int) -> None:
    """Raise an error unless `state` is a decoding state with `batch_size` rows."""
    position = getattr(state, "position", None)
    if not isinstance(position, Tensor):
        raise RegardError(
            f"{layer} was given state = {described(state)}; it must be a decoding state. Begin "
            "with start(…), and continue with the `state` that each step returns."
        )
    if len(position) != batch_size:
        raise RegardError(
            f"{layer} was given a state of {len(position)} rows and tokens of {batch_size}: both "
            f"must have the same batch. Begin with a start for {batch_size} rows, or choose rows "
            "with state.select(index)."
        )


def validate_padding_only(layer: str, mask: Mask, *, batch_size: int) -> None:
    """Raise an error unless `mask` is empty, or a padding mask with one length per row."""
    validate_mask(mask)
    unsupported = mask.kinds - {"padding"}
    if unsupported:
        raise RegardError(
            f"{layer} does not support the mask {mask}: it supports padding, not "
            f"{', '.join(sorted(unsupported))}. Pass Padding(lengths), or no mask."
        )
    if mask.lengths is not None and len(mask.lengths) != batch_size:
        raise RegardError(
            f"{layer} was given Padding with {len(mask.lengths)} lengths for {batch_size} rows: give one "
            "per row."
        )
