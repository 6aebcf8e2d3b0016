"""Mechanisms and layers side by side on one shape: what each takes, and from where on one is ahead."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

from torch._subclasses.fake_tensor import FakeTensorMode

from regard.core.cost import AttentionShape, Cost
from regard.core.errors import RegardError
from regard.core.records.cost import CostRow, Crossing, Curve, Formulas, NotPriced
from regard.core.registry import known_options
from regard.costs.calibration import Calibration
from regard.costs.formula import NO_FORMULA, Polynomial, closed_form
from regard.costs.predict import LENGTHS, Price, PriceByLength, crossover
from regard.costs.trace import Mode, Workload
from regard.costs.workloads import (
    LAYERS,
    attention_workload,
    build_for,
    build_layer,
    layer_workload,
    self_attention_workload,
)
from regard.layers.cost import SequenceShape
from regard.layers.multi_head import MultiHead
from regard.mechanisms import MECHANISMS, is_plugged_in, mechanism_class

# What is compared on one shape: mechanisms, and layers as wide as all heads together.
#
# A contender can be priced at any length, has a declared cost and a formula for it, and can be run.
# The making of its work is a plain function with plain arguments, so that another process can do it
# too.


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


SOFTMAX = "scaled_dot"
# Those whose crossing with softmax attention is told unless others are asked for.
USUAL_RIVALS = ("elu", "taylor", "polynomial")


class Comparison:
    """Prices contenders one by one; `tell` hears the name of each before it is begun."""

    def __init__(
        self,
        setting: Setting,
        calibration: Calibration | None,
        tell: Callable[[str], None] = lambda _name: None,
    ) -> None:
        self.setting = setting
        self.calibration = calibration
        self.tell = tell
        self.contenders: dict[str, Contender] = {}
        self.not_priced: list[NotPriced] = []

    def mechanisms(
        self, names: Iterable[str], options: Mapping[str, Any] | None = None
    ) -> list[CostRow]:
        """A row for each that does this shape, the quickest first."""
        return self._rows(
            names,
            lambda name: mechanism_contender(name, self.setting, self.calibration, options),
        )

    def layers(self) -> list[CostRow]:
        """The same for the layers that attention is compared with."""
        return self._rows(
            LAYER_NAMES, lambda name: layer_contender(name, self.setting, self.calibration)
        )

    def price(self, name: str) -> None:
        """Have a mechanism at hand that is not shown, so that others can be compared with it."""
        contender = mechanism_contender(name, self.setting, self.calibration)
        self.contenders[name] = contender

    def formulas(self, name: str) -> Formulas:
        """All closed forms of a mechanism that was priced, for one head of one sequence."""
        contender, length = self.contenders[name], self.setting.length
        here = contender.declared_of_one(length, contender.width)
        found = {figure: contender.form(figure) for figure in FORMULA_FIGURES}
        elsewhere = [
            figure
            for figure, form in found.items()
            if form is not None and form.at(length, contender.width) != getattr(here, figure)
        ]
        return Formulas(
            name=name,
            by_figure=tuple(
                (
                    figure,
                    NO_FORMULA if form is None else form.written(),
                    int(getattr(here, figure)),
                )
                for figure, form in found.items()
            ),
            at_this_length=_other_form(elsewhere, length),
        )

    def crossings(self, rivals: Sequence[str]) -> list[Crossing]:
        """From where on each rival is ahead of softmax attention, and an LSTM of self-attention."""
        pairs = [(SOFTMAX, rival) for rival in rivals if rival != SOFTMAX]
        found = []
        for before, then in [*pairs, (SELF_ATTENTION, "lstm")]:
            if before in self.contenders and then in self.contenders:
                self.tell(f"{then} and {before}")
                found.append(self._crossing(before, then))
        return found

    def curves(self, names: Iterable[str]) -> list[Curve]:
        """Times by length of those that were priced; operations where no times are known."""
        found = []
        for name in names:
            if name not in self.contenders:
                continue
            self.tell(name)
            # Every octave is enough for a line.
            drawn = dict.fromkeys([*LENGTHS[::2], LENGTHS[-1]])
            points = tuple((length, self._height(name, length)) for length in drawn)
            family = self.contenders[name].family
            found.append(Curve(name=name, family=family, points=points))
        return found

    def _rows(self, names: Iterable[str], make: Callable[[str], Contender]) -> list[CostRow]:
        rows = []
        for name in names:
            self.tell(name)
            try:
                contender = make(name)
                rows.append(self._row(contender))
            except RegardError as error:
                self.not_priced.append(NotPriced(name=name, reason=str(error)))
            except Exception as error:
                # A user's own mechanism may fail in any way; ours would be a mistake of ours.
                if not is_plugged_in(name):
                    raise
                reason = f"it failed: {type(error).__name__}: {error}"
                self.not_priced.append(NotPriced(name=name, reason=reason))
            else:
                self.contenders[name] = contender
        return sorted(rows, key=lambda row: (row.seconds or 0.0, row.operations))

    def _row(self, contender: Contender) -> CostRow:
        price = contender.prices.at(self.setting.length)
        cost = contender.declared()
        return CostRow(
            name=contender.name,
            family=contender.family,
            formula=contender.formula(self.setting.mode),
            operations=round(price.operations),
            peak_bytes=round(price.peak_bytes),
            moved_bytes=round(price.moved_bytes),
            state=cost.state,
            parameters=cost.parameters,
            sequential_steps=cost.sequential_steps,
            longest_path=cost.longest_path,
            seconds=price.seconds,
            note=self._note(contender.name, cost),
        )

    def _note(self, name: str, cost: Cost) -> str:
        setting = self.setting
        usual = MECHANISMS[name].head_dim if name in MECHANISMS else setting.head_dim
        remembered = 2 * setting.batch_size * setting.length * setting.model_dim
        if setting.head_dim <= usual or cost.state <= remembered:
            return ""
        return (
            f"made for heads of width {usual}: at {setting.head_dim} its state is "
            f"{cost.state / remembered:.1f} times the keys and values themselves"
        )

    def _height(self, name: str, length: int) -> float:
        return height(self.contenders[name].prices.at(length))

    def _crossing(self, before: str, then: str) -> Crossing:
        length = crossover(
            lambda n: self._height(before, n), lambda n: self._height(then, n), LENGTHS
        )
        return Crossing(
            before=before,
            then=then,
            length=length,
            height=None if length is None else self._height(then, length),
            sentence=self._sentence(before, then, length),
        )

    def _sentence(self, before: str, then: str, length: int | None) -> str:
        beats = "beats" if self.calibration is not None else "takes fewer operations than"
        if then == "lstm":
            attention, layer = "self-attention", "an LSTM layer"
            if length is None:
                return f"{attention} {beats} {layer} at every length up to n = {LENGTHS[-1]}"
            if length == LENGTHS[0]:
                return f"{layer} {beats} {attention} at every length from n = {length}"
            return f"{attention} {beats} {layer} below n = {length}"
        if length is None:
            return f"{then} never {beats} {before}, up to n = {LENGTHS[-1]}"
        if length == LENGTHS[0]:
            return f"{then} {beats} {before} at every length from n = {length}"
        return f"{then} {beats} {before} from n = {length}"


def height(price: Price) -> float:
    """What is compared: time, or operations where no times are known."""
    return price.operations if price.seconds is None else price.seconds


def _other_form(figures: Sequence[str], length: int) -> str:
    if not figures:
        return ""
    return (
        f"At n = {length} another form is taken, or the sequence is cut otherwise: "
        f"{', '.join(figures)} there {'is' if len(figures) == 1 else 'are'} not the formula's."
    )
