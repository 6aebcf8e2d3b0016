"""Argument checks of layers: sizes, dropout, input shapes, masks and decoding states."""

from __future__ import annotations

from torch import Tensor

from regard.core.errors import RegardError
from regard.core.masks import Mask


def validate_positive(what: str, **sizes: object) -> None:
    """Raise an error unless all sizes are whole numbers, 1 or more.

    >>> validate_positive("MultiHead", model_dim=64, num_heads=4)
    """
    for name, size in sizes.items():
        # bool is a subclass of int.
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise RegardError(f"{what} has {name}={size!r}; it must be a whole number, 1 or more.")


def validate_dropout(what: str, dropout: object) -> None:
    """Raise an error unless a dropout probability is in [0, 1)."""
    if isinstance(dropout, bool) or not isinstance(dropout, int | float) or not 0 <= dropout < 1:
        raise RegardError(
            f"{what} has dropout={dropout!r}; it must be a probability from 0 to below 1."
        )


def validate_sequence(
    layer: str, x: object, *, width: int, name: str = "x", width_name: str = "model_dim"
) -> None:
    """Raise an error unless `x` is a tensor (batch, length, width) of the layer's width."""
    if not isinstance(x, Tensor):
        raise RegardError(
            f"{layer} was given {name} = {_described(x)}; it must be a tensor "
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


def validate_mask(mask: object) -> None:
    """Raise an error unless `mask` is a `Mask` instance."""
    if isinstance(mask, Mask):
        return
    if isinstance(mask, type) and issubclass(mask, Mask):
        raise RegardError(
            f"mask is the class {mask.__name__}; it must be an instance: "
            f"{mask.__name__}{'()' if mask.__name__ in ('Causal', 'Mask') else '(…)'}."
        )
    raise RegardError(
        f"mask is {_described(mask)}; it must be a Mask, such as Causal(), Padding(lengths) or "
        "Allowed(boolean tensor), True where a query may attend. For no mask, omit the argument."
    )


def validate_state(layer: str, state: object, *, batch_size: int) -> None:
    """Raise an error unless `state` is a decoding state with `batch_size` rows."""
    position = getattr(state, "position", None)
    if not isinstance(position, Tensor):
        raise RegardError(
            f"{layer} was given state = {_described(state)}; it must be a decoding state. Begin "
            "with start(…), and continue with the `state` that each step returns."
        )
    if len(position) != batch_size:
        raise RegardError(
            f"{layer} was given a state of {len(position)} rows and tokens of {batch_size}: both "
            f"must have the same batch. Begin with a start for {batch_size} rows, or choose rows "
            "with state.select(index)."
        )


def _described(value: object) -> str:
    """The value if it is short, else its type.

    >>> _described(None), _described("causal"), _described([0] * 99)
    ('None', "'causal'", 'a list')
    """
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if value is None or isinstance(value, str | int | float):
        return repr(value)
    return f"a {type(value).__name__}"


def validate_padding_only(layer: str, mask: Mask) -> None:
    """Raise an error unless `mask` is a padding mask or empty."""
    validate_mask(mask)
    unsupported = mask.kinds - {"padding"}
    if unsupported:
        raise RegardError(
            f"{layer} does not support the mask {mask}: it supports padding, not "
            f"{', '.join(sorted(unsupported))}. Pass Padding(lengths), or no mask."
        )
