"""The sizes a layer is priced for, and the costs of the parts that many layers have."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from torch import nn

from regard.core.cost import AttentionShape, Cost, linear_cost
from regard.core.counter import LAYER_NORM_ARITHMETIC
from regard.core.errors import RegardError
from regard.core.mechanism import Mechanism
from regard.layers.validation import require_positive


@dataclass(frozen=True, kw_only=True)
class SequenceShape:
    """The sizes of one layer call; the widths are the layer's own.

    `context_length` is the length of the other sequence, for the layers that read one.
    """

    batch_size: int = 1
    length: int
    context_length: int | None = None
    causal: bool = False

    def __post_init__(self) -> None:
        for field in fields(self):
            size = getattr(self, field.name)
            if size is not None and field.name != "causal":
                require_positive("SequenceShape", **{field.name: size})

    @property
    def rows(self) -> int:
        """How many positions there are in the whole batch."""
        return self.batch_size * self.length


def require_shape(layer: str, shape: object) -> None:
    """Refuse to price anything but a `SequenceShape`."""
    if not isinstance(shape, SequenceShape):
        length = shape if isinstance(shape, int) else "…"
        raise RegardError(
            f"The cost of {layer} was asked for {shape!r}; it is that of a SequenceShape. "
            f"Ask for cost(SequenceShape(batch_size=…, length={length}))."
        )


def norm_cost(*, rows: int, model_dim: int) -> Cost:
    """A layer norm: no products, a gain and a bias for every feature."""
    numbers = rows * model_dim
    return Cost(
        arithmetic=LAYER_NORM_ARITHMETIC * numbers, memory=numbers, parameters=2 * model_dim
    )


def cost_of(linear: nn.Linear, *, rows: int) -> Cost:
    """What a linear layer takes for so many vectors."""
    return linear_cost(
        rows=rows,
        in_features=linear.in_features,
        out_features=linear.out_features,
        bias=linear.bias is not None,
    )


def per_position(cost: Cost, *, length: int) -> Cost:
    """The cost of what treats all positions alike: a step takes one position's share of it."""
    return replace(cost, step_products=cost.products // length)


def read_products(mechanism: Mechanism, shape: AttentionShape) -> int:
    """The products of reading all keys once more with one query a row, the keys taken in before.

    A step with twice the query heads takes in one token all the same and reads twice, so the
    difference is one reading: of the token itself and those before it.
    """
    kv_heads = shape.num_kv_heads or shape.num_heads
    before = replace(shape, key_length=shape.key_length - 1, num_kv_heads=kv_heads)
    once, twice = (
        mechanism.cost(replace(before, num_heads=heads))
        for heads in (shape.num_heads, 2 * shape.num_heads)
    )
    return twice.step_products - once.step_products
