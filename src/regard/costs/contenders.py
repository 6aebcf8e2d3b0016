"""What is compared on one shape: mechanisms, and layers as wide as all heads together.

A contender can be priced at any length, has a declared cost and a formula for it, and can be run. The
making of its work is a plain function with plain arguments, so that another process can do it too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

from torch._subclasses.fake_tensor import FakeTensorMode

from regard.core.construction import known_options
from regard.core.cost import AttentionShape, Cost
from regard.core.errors import RegardError
from regard.costs.attention_workloads import attention_workload, build_for
from regard.costs.calibration import Calibration
from regard.costs.formula import NO_FORMULA, Polynomial, closed_form
from regard.costs.layer_workloads import (
    LAYERS,
    build_layer,
    layer_workload,
    self_attention_workload,
)
from regard.costs.pricing import PriceByLength
from regard.costs.workload import Mode, Workload
from regard.layers.layer_cost import SequenceShape
from regard.layers.multi_head import MultiHead
from regard.mechanisms import MECHANISMS, is_plugged_in, mechanism_class

SELF_ATTENTION = "self-attention"
LAYER_NAMES = (*LAYERS, SELF_ATTENTION)
# The declared figures that make up the products of a mode.
PRODUCTS_OF: dict[Mode, tuple[str, ...]] = {
    "forward": ("products",),
    "train": ("products", "backward_products"),
    "decode": ("step_products",),
}
FORMULA_FIGURES = (
    *("products", "functions", "arithmetic", "backward_products", "step_products"),
    *("memory", "state"),
)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The shape at which all are compared, and what is asked of them."""

    length: int
    num_heads: int
    head_dim: int
    batch_size: int = 1
    causal: bool = False
    mode: Mode = "forward"

    @property
    def model_dim(self) -> int:
        """The width of a layer with these heads."""
        return self.num_heads * self.head_dim

    def attention(self, length: int) -> AttentionShape:
        """The shape of a mechanism's call; whatever decodes reads the past only."""
        return AttentionShape(
            batch_size=self.batch_size,
            num_heads=self.num_heads,
            query_length=length,
            key_length=length,
            key_dim=self.head_dim,
            value_dim=self.head_dim,
            causal=self.causal or self.mode == "decode",
        )

    def sequence(self, length: int) -> SequenceShape:
        """The shape of a layer's call."""
        causal = self.causal or self.mode == "decode"
        return SequenceShape(batch_size=self.batch_size, length=length, causal=causal)


@dataclass(frozen=True, kw_only=True)
class Contender:
    """One mechanism or layer.

    `declared` is its cost as set; `declared_of_one` that of one sequence, and of one head if it is a
    mechanism, at a length and a width. `recipe` makes its work at a length, in any process.
    """

    name: str
    family: str
    prices: PriceByLength
    recipe: Callable[[int], Callable[[], Workload]]
    declared: Callable[[], Cost]
    declared_of_one: Callable[[int, int], Cost]
    width: int
    width_name: str
    multiple_of: int = 1  # what widths of it must be
    forms: dict[tuple[str, ...], Polynomial | None] = field(default_factory=dict)

    def form(self, *figures: str) -> Polynomial | None:
        """The closed form of figures of the declared cost together, of one head or of the layer."""
        if figures not in self.forms:

            def counted(length: int, width: int) -> int:
                cost = self.declared_of_one(length, width)
                return sum(getattr(cost, figure) for figure in figures)

            self.forms[figures] = closed_form(
                counted,
                width=self.width,
                multiple_of=self.multiple_of,
                width_name=self.width_name,
            )
        return self.forms[figures]

    def formula(self, mode: Mode) -> str:
        """The leading terms of the products of a mode."""
        found = self.form(*PRODUCTS_OF[mode])
        return NO_FORMULA if found is None else found.leading().written(most_terms=2)


def mechanism_contender(
    name: str,
    setting: Setting,
    calibration: Calibration | None,
    options: Mapping[str, Any] | None = None,
) -> Contender:
    """A mechanism of the table, or one that was plugged in."""
    bounded = "max_length" in known_options(mechanism_class(name))

    @cache
    def built(longest: int, width: int) -> Any:
        shape = replace(setting.attention(longest), key_dim=width, value_dim=width)
        with FakeTensorMode():
            return build_for(name, replace(shape, num_heads=1), options)

    def declared_of_one(length: int, width: int) -> Cost:
        shape = replace(
            setting.attention(length), key_dim=width, value_dim=width, batch_size=1, num_heads=1
        )
        return built(length if bounded else 1, width).cost(shape)

    def declared() -> Cost:
        shape = setting.attention(setting.length)
        with FakeTensorMode():
            return build_for(name, shape, options).cost(shape)

    def recipe(length: int) -> Callable[[], Workload]:
        shape = setting.attention(length)
        return partial(attention_workload, name, shape, setting.mode, dict(options or {}))

    return Contender(
        name=name,
        family="plug-in" if is_plugged_in(name) else MECHANISMS[name].family,
        prices=PriceByLength(lambda length: recipe(length)(), calibration),
        recipe=recipe,
        declared=declared,
        declared_of_one=declared_of_one,
        width=setting.head_dim,
        width_name="d",
    )


def layer_contender(name: str, setting: Setting, calibration: Calibration | None) -> Contender:
    """A layer of the table, or multi-head self-attention with its projections."""

    def built(width: int) -> Any:
        with FakeTensorMode():
            if name == SELF_ATTENTION:
                return MultiHead(model_dim=width, num_heads=setting.num_heads)
            return build_layer(name, model_dim=width)

    if setting.mode == "decode" and not hasattr(built(setting.model_dim), "step"):
        raise RegardError("it has no step of its own, and would be run over its last positions")

    def recipe(length: int) -> Callable[[], Workload]:
        shape = setting.sequence(length)
        width = setting.model_dim
        if name != SELF_ATTENTION:
            return partial(layer_workload, name, shape, setting.mode, model_dim=width)
        heads = setting.num_heads
        return partial(
            self_attention_workload,
            "scaled_dot",
            shape,
            setting.mode,
            model_dim=width,
            num_heads=heads,
        )

    def declared_of_one(length: int, width: int) -> Cost:
        return built(width).cost(replace(setting.sequence(length), batch_size=1))

    return Contender(
        name=name,
        family="layer",
        prices=PriceByLength(lambda length: recipe(length)(), calibration),
        recipe=recipe,
        declared=lambda: built(setting.model_dim).cost(setting.sequence(setting.length)),
        declared_of_one=cache(declared_of_one),
        width=setting.model_dim,
        width_name="w",
        multiple_of=setting.num_heads,
    )
