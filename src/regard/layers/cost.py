"""`SequenceShape`, the sizes that a layer's cost depends on, and the cost of a layer, counted at it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.core.cost import Cost
from regard.core.counting import Example, counted_cost
from regard.core.errors import RegardError
from regard.core.masks import NO_MASK, Causal, Mask
from regard.core.mechanism import Mechanism


@dataclass(frozen=True, kw_only=True)
class SequenceShape:
    """The sizes of one layer call; widths are the layer's own.

    `context_length` is the length of the other sequence, for cross-attention.
    """

    batch_size: int = 1
    length: int
    context_length: int | None = None
    causal: bool = False

    def __post_init__(self) -> None:
        for name in ("batch_size", "length", "context_length"):
            size = getattr(self, name)
            if size is not None and (type(size) is not int or size < 1):
                raise RegardError(
                    f"SequenceShape.{name}={size!r}: it must be an integer, 1 or more."
                )

    @property
    def positions(self) -> int:
        """The number of positions in the batch: batch size × length."""
        return self.batch_size * self.length

    def vectors(self, width: int) -> Float[Tensor, "batch length {width}"]:
        """A random input of this shape."""
        return torch.randn(self.batch_size, self.length, width)

    def context(self, width: int) -> Float[Tensor, "batch context_length {width}"]:
        """A random input for the other sequence."""
        if self.context_length is None:
            raise RegardError(
                "The cost of cross-attention needs a SequenceShape with context_length. "
                "Call cost(SequenceShape(length=…, context_length=…))."
            )
        return torch.randn(self.batch_size, self.context_length, width)

    def mask(self, layer: Any) -> Mask:
        """The causal mask if the shape is causal, or if a mechanism in the layer needs one."""
        mechanisms = (part for part in layer.modules() if isinstance(part, Mechanism))
        needed = any(mechanism.capabilities.requires_causal for mechanism in mechanisms)
        return Causal() if self.causal or needed else NO_MASK


def layer_cost(
    layer: nn.Module,
    shape: SequenceShape,
    prepare: Callable[[Any], Example],
    *,
    max_path_length: Callable[[], int] = lambda: 0,
) -> Cost:
    """The cost of a layer in evaluation mode, counted on fake tensors and remembered by shape.

    `prepare(a copy of the layer)` returns the calls to count.
    """
    validate_sequence_shape(type(layer).__name__, shape)
    return counted_cost(
        layer,
        prepare,
        key=shape,
        numbers=8 * shape.positions * max(shape.length, shape.context_length or 0),
        max_path_length=max_path_length,
    )


def forward_cost(
    layer: nn.Module, shape: SequenceShape, *, width: int, max_path_length: int = 0
) -> Cost:
    """The cost of a layer that maps vectors of this width and has no decoding step."""

    def prepare(copied: Callable[[Tensor], Any]) -> Example:
        x = shape.vectors(width)
        return Example(partial(copied, x), (x,))

    return layer_cost(layer, shape, prepare, max_path_length=lambda: max_path_length)


def validate_sequence_shape(layer: str, shape: object) -> None:
    """Raise an error unless `shape` is a `SequenceShape`."""
    if not isinstance(shape, SequenceShape):
        length = shape if isinstance(shape, int) else "…"
        raise RegardError(
            f"{layer}.cost was called with {shape!r}; it must be a SequenceShape. "
            f"Call cost(SequenceShape(batch_size=…, length={length}))."
        )
