"""The rules for the numbers a layer is built with."""

from __future__ import annotations

from torch import Tensor

from regard.core.errors import RegardError
from regard.core.masks import Mask


def require_positive(what: str, **sizes: object) -> None:
    """Refuse sizes that are not whole numbers, 1 or more.

    >>> require_positive("MultiHead", model_dim=64, num_heads=4)
    """
    for name, size in sizes.items():
        # True is an integer to Python, and never a size.
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise RegardError(f"{what} has {name}={size!r}; it must be a whole number, 1 or more.")


def require_dropout(what: str, dropout: object) -> None:
    """Refuse a share of dropped features that is none, or that leaves nothing."""
    if isinstance(dropout, bool) or not isinstance(dropout, int | float) or not 0 <= dropout < 1:
        raise RegardError(
            f"{what} has dropout={dropout!r}; it must be a number from 0 (none) to below 1 (all)."
        )


# What a layer is called with: a sequence of its own width, a mask, a state of the same rows.
#
# The checks are a few comparisons when all is well; they spend their time only on the message.


def require_sequence(
    layer: str, x: object, *, width: int, name: str = "x", width_name: str = "model_dim"
) -> None:
    """Refuse anything but a tensor (batch, length, width) of the layer's width."""
    if not isinstance(x, Tensor):
        raise RegardError(
            f"{layer} was given {name} = {_described(x)}; it must be a tensor "
            f"(batch, length, {width_name}={width})."
        )
    if x.dim() != 3:
        raise RegardError(
            f"{layer} was given {name} of shape {tuple(x.shape)}; it must be "
            f"(batch, length, {width_name}={width}). A single sequence is a batch of one: "
            f"{name}[None]. Tokens that are numbers are embedded first."
        )
    if x.shape[2] != width:
        raise RegardError(
            f"{layer} was given {name} of shape {tuple(x.shape)}; it must be "
            f"(batch, length, {width_name}={width}), and its width is {x.shape[2]}. "
            f"Build the layer with {width_name}={x.shape[2]}, or give it vectors of width {width}."
        )


def require_mask(mask: object) -> None:
    """Refuse a mask that is not one of ours, such as a bare tensor or a class not yet built."""
    if isinstance(mask, Mask):
        return
    if isinstance(mask, type) and issubclass(mask, Mask):
        raise RegardError(
            f"mask is the class {mask.__name__}; it must be a Mask that is built: "
            f"{mask.__name__}{'()' if mask.__name__ in ('Causal', 'Mask') else '(…)'}."
        )
    raise RegardError(
        f"mask is {_described(mask)}; it must be a Mask, such as Causal(), Padding(lengths) or "
        "Allowed(boolean tensor), True where a query may attend. Without one, leave mask out."
    )


def require_state(layer: str, state: object, *, batch_size: int) -> None:
    """Refuse what is no decoding state, or one of another number of rows than the tokens."""
    position = getattr(state, "position", None)
    if not isinstance(position, Tensor):
        raise RegardError(
            f"{layer} was given state = {_described(state)}; it must be a decoding state. Begin "
            "with start(…), and go on with the `state` of what each step gives back."
        )
    if len(position) != batch_size:
        raise RegardError(
            f"{layer} was given a state of {len(position)} rows and tokens of {batch_size}: both "
            f"must have the same batch. Begin with a start for {batch_size} rows, or choose rows "
            "with state.select(index)."
        )


def _described(given: object) -> str:
    """The value if it is short, else what kind of thing it is.

    >>> _described(None), _described("causal"), _described([0] * 99)
    ('None', "'causal'", 'a list')
    """
    if isinstance(given, type):
        return f"the class {given.__name__}"
    if given is None or isinstance(given, str | int | float):
        return repr(given)
    return f"a {type(given).__name__}"


# The check of layers to which only padding means something: they have an order of their own.


def refuse_all_but_padding(layer: str, mask: Mask) -> None:
    """Refuse what is no mask, and a mask with anything but `Padding(lengths)` in it."""
    require_mask(mask)
    foreign = mask.kinds - {"padding"}
    if foreign:
        raise RegardError(
            f"{layer} does not take the mask {mask}: of the kinds of mask it takes padding, not "
            f"{', '.join(sorted(foreign))}. Pass Padding(lengths), or no mask."
        )
