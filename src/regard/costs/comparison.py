"""Mechanisms and layers side by side on one shape: what each takes, and from where on one is ahead."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from regard.core.cost import Cost
from regard.core.cost_report import CostRow, Crossing, Curve, Formulas, NotPriced
from regard.core.errors import RegardError
from regard.costs.calibration import Calibration
from regard.costs.contenders import (
    FORMULA_FIGURES,
    LAYER_NAMES,
    SELF_ATTENTION,
    Contender,
    Setting,
    layer_contender,
    mechanism_contender,
)
from regard.costs.crossover import LENGTHS, crossover
from regard.costs.formula import NO_FORMULA
from regard.costs.pricing import Price
from regard.mechanisms import MECHANISMS, is_plugged_in

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
