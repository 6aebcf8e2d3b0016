"""What a call takes: the numbers a mechanism or a layer declares for a shape.

All figures are plain counts for one forward call without gradients, padding or score bias, whatever
the number type:

    products          2 for every multiply-add of a matrix product
    functions         evaluations of exp, tanh, 1/x and the like (a softmax is one exp an entry)
    arithmetic        additions, comparisons, choices and the like, one for every number
    backward_products products of the backward pass, recomputation included, all inputs wanting gradients
    step_products     products of one `step` of one token when `key_length` others are in the state
    memory            numbers that forward holds at its peak beyond its inputs, the output included
    parameters        trainable numbers
    state             numbers kept for decoding after `key_length` tokens
    sequential_steps  how many steps must wait for one another when everything else is parallel
    longest_path      layers needed until every position can have reached every position it may see;
                      0 for a part that moves nothing between positions, however many layers

A declared cost is checked against `regard.core.counter`, whose text has the conventions: products,
functions and parameters exactly, all operations together to 2 %.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from regard.core.errors import RegardError


@dataclass(frozen=True, kw_only=True)
class AttentionShape:
    """The sizes of one attention call. `num_kv_heads` and `query_dim` default to the common case."""

    batch_size: int = 1
    num_heads: int = 1
    num_kv_heads: int | None = None
    query_length: int
    key_length: int
    key_dim: int
    value_dim: int
    query_dim: int | None = None
    causal: bool = False

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            least = 0 if field.name in ("query_length", "key_length") else 1
            if value is not None and value is not True and value < least and field.name != "causal":
                raise RegardError(f"Shape has {field.name}={value}; it must be {least} or more.")

    @property
    def rows(self) -> int:
        """Batch times heads: how many independent attention problems there are."""
        return self.batch_size * self.num_heads

    @property
    def kv_rows(self) -> int:
        """Batch times key/value heads."""
        return self.batch_size * (self.num_kv_heads or self.num_heads)

    @property
    def pairs(self) -> int:
        """Query–key pairs of one head, masked ones included."""
        return self.query_length * self.key_length

    @property
    def value_numbers(self) -> int:
        """Numbers in all the values, which is also what a cache of them holds."""
        return self.kv_rows * self.key_length * self.value_dim

    @property
    def output_numbers(self) -> int:
        """Numbers in the output."""
        return self.rows * self.query_length * self.value_dim


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Declared cost of one forward call; `+` adds two parts that run one after the other."""

    products: int = 0
    functions: int = 0
    arithmetic: int = 0
    backward_products: int = 0
    step_products: int = 0
    memory: int = 0
    parameters: int = 0
    state: int = 0
    sequential_steps: int = 0
    longest_path: int = 0

    @property
    def operations(self) -> int:
        """Products, functions and arithmetic together, forward."""
        return self.products + self.functions + self.arithmetic

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            products=self.products + other.products,
            functions=self.functions + other.functions,
            arithmetic=self.arithmetic + other.arithmetic,
            backward_products=self.backward_products + other.backward_products,
            step_products=self.step_products + other.step_products,
            memory=self.memory + other.memory,
            parameters=self.parameters + other.parameters,
            state=self.state + other.state,
            sequential_steps=self.sequential_steps + other.sequential_steps,
            # Two parts of one layer: information takes the shorter of the ways there are.
            longest_path=min(filter(None, (self.longest_path, other.longest_path)), default=0),
        )


def linear_cost(*, rows: int, in_features: int, out_features: int, bias: bool = True) -> Cost:
    """A dense layer applied to `rows` vectors; the backward pass is one product for each factor."""
    products = 2 * rows * in_features * out_features
    return Cost(
        products=products,
        arithmetic=rows * out_features if bias else 0,
        backward_products=2 * products,
        memory=rows * out_features,
        parameters=in_features * out_features + (out_features if bias else 0),
        sequential_steps=1,
    )
