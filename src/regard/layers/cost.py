"""`SequenceShape`, the sizes a layer's cost depends on, and the costs of common parts."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from torch import nn

from regard.core.cost import AttentionShape, Cost, linear_cost
from regard.core.counter import LAYER_NORM_OPS
from regard.core.errors import RegardError
from regard.core.mechanism import Mechanism
from regard.layers.validation import validate_positive


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
        for field in fields(self):
            size = getattr(self, field.name)
            if size is not None and field.name != "causal":
                validate_positive("SequenceShape", **{field.name: size})

    @property
    def positions(self) -> int:
        """The number of positions in the batch: batch size × length."""
        return self.batch_size * self.length


def validate_sequence_shape(layer: str, shape: object) -> None:
    """Raise an error unless `shape` is a `SequenceShape`."""
    if not isinstance(shape, SequenceShape):
        length = shape if isinstance(shape, int) else "…"
        raise RegardError(
            f"{layer}.cost was called with {shape!r}; it must be a SequenceShape. "
            f"Call cost(SequenceShape(batch_size=…, length={length}))."
        )


def norm_cost(*, rows: int, model_dim: int) -> Cost:
    """The cost of a layer norm with weight and bias."""
    numbers = rows * model_dim
    return Cost(elementwise_ops=LAYER_NORM_OPS * numbers, memory=numbers, parameters=2 * model_dim)


def cost_of(linear: nn.Linear, *, rows: int) -> Cost:
    """The cost of a linear layer applied to `rows` vectors."""
    return linear_cost(
        rows=rows,
        in_features=linear.in_features,
        out_features=linear.out_features,
        bias=linear.bias is not None,
    )


def per_position(cost: Cost, *, length: int) -> Cost:
    """The cost of a position-wise layer: a decoding step costs one position's share."""
    return replace(cost, step_matmul_flops=cost.matmul_flops // length)


def read_matmul_flops(mechanism: Mechanism, shape: AttentionShape) -> int:
    """The matmul FLOPs of one `read` with one query per row, as in a step of cross-attention.

    A step with twice the query heads extends the state once and reads twice, so the difference between
    the two steps is one read.
    """
    kv_heads = shape.num_kv_heads or shape.num_heads
    before = replace(shape, key_length=shape.key_length - 1, num_kv_heads=kv_heads)
    once, twice = (
        mechanism.cost(replace(before, num_heads=heads))
        for heads in (shape.num_heads, 2 * shape.num_heads)
    )
    return twice.step_matmul_flops - once.step_matmul_flops
