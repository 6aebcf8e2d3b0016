"""Compare the cost of mechanisms and layers on one shape: FLOPs, memory, time, formulas, crossovers.

A `Candidate` is one mechanism or layer: its estimates at any length, its declared cost with a closed form,
and a picklable factory of its workload. The width of a layer is that of all heads together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

from torch._subclasses.fake_tensor import FakeTensorMode

from regard.core.cost import AttentionShape, Cost
from regard.core.errors import RegardError
from regard.core.records.cost import CostRow, Crossover, Curve, Formulas, Unsupported
from regard.core.registry import known_options
from regard.costs.calibration import Calibration
from regard.costs.formula import LONG, NO_FORMULA, SHORTER, Polynomial, closed_form
from regard.costs.predict import LENGTHS, TRACED_LENGTH, Estimate, EstimateByLength, crossover
from regard.costs.trace import Mode, Workload
from regard.costs.workloads import (
    LAYERS,
    SELF_ATTENTION,
    attention_workload,
    build_for_shape,
    build_layer,
    layer_workload,
)
from regard.layers.cost import SequenceShape
from regard.mechanisms import MECHANISMS, is_plugin, mechanism_class

LAYER_NAMES = tuple(LAYERS)
# The fields of the declared cost that make up the matmul FLOPs of a mode.
MATMUL_FIELDS: dict[Mode, tuple[str, ...]] = {
    "forward": ("matmul_flops",),
    "train": ("matmul_flops", "backward_matmul_flops"),
    "decode": ("step_matmul_flops",),
}
FORMULA_FIELDS = (
    *("matmul_flops", "transcendental_ops", "elementwise_ops"),
    *("backward_matmul_flops", "step_matmul_flops", "memory", "state"),
)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The shape and mode of a comparison."""

    length: int
    num_heads: int
    head_dim: int
    batch_size: int = 1
    causal: bool = False
    mode: Mode = "forward"

    @property
    def model_dim(self) -> int:
        """The width of all heads together."""
        return self.num_heads * self.head_dim

    def attention(self, length: int) -> AttentionShape:
        """The shape of a mechanism's call; decoding is causal."""
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
class Candidate:
    """One mechanism or layer.

    `declared` is its declared or counted cost in this setting; `declared_single` that of one sequence, and
    of one head for a mechanism, at a length and a width. `workload_factory` returns a picklable factory
    for a length.
    """

    name: str
    family: str
    estimates: EstimateByLength
    workload_factory: Callable[[int], Callable[[], Workload]]
    declared: Callable[[], Cost]
    declared_single: Callable[[int, int], Cost]
    width: int
    width_name: str
    multiple_of: int = 1  # of which widths must be a multiple
    shortest: int = LONG  # from which length on the closed form is fitted
    closed_forms: dict[tuple[str, ...], Polynomial | None] = field(default_factory=dict)

    def closed_form(self, *fields: str) -> Polynomial | None:
        """The closed form of the sum of these fields of `declared_single`."""
        if fields not in self.closed_forms:

            def count(length: int, width: int) -> int:
                cost = self.declared_single(length, width)
                return sum(getattr(cost, name) for name in fields)

            self.closed_forms[fields] = closed_form(
                count,
                width=self.width,
                multiple_of=self.multiple_of,
                width_name=self.width_name,
                length=self.shortest,
            )
        return self.closed_forms[fields]

    def formula(self, mode: Mode) -> str:
        """The leading terms of the matmul FLOPs of a mode."""
        found = self.closed_form(*MATMUL_FIELDS[mode])
        return NO_FORMULA if found is None else found.leading().as_text(most_terms=2)


def mechanism_candidate(
    name: str,
    setting: Setting,
    calibration: Calibration | None,
    options: Mapping[str, Any] | None = None,
) -> Candidate:
    """A built-in mechanism or a plug-in."""
    bounded = "max_length" in known_options(mechanism_class(name))

    @cache
    def built(longest: int, width: int) -> Any:
        shape = replace(setting.attention(longest), key_dim=width, value_dim=width)
        with FakeTensorMode():
            return build_for_shape(name, replace(shape, num_heads=1), options)

    def declared_single(length: int, width: int) -> Cost:
        shape = replace(
            setting.attention(length), key_dim=width, value_dim=width, batch_size=1, num_heads=1
        )
        return built(length if bounded else 1, width).cost(shape)

    def declared() -> Cost:
        shape = setting.attention(setting.length)
        with FakeTensorMode():
            mechanism = build_for_shape(name, shape, options)
        if not mechanism.declares_cost:  # its path length is measured, which needs values
            mechanism = build_for_shape(name, shape, options)
        return mechanism.cost(shape)

    def workload_factory(length: int) -> Callable[[], Workload]:
        shape = setting.attention(length)
        return partial(attention_workload, name, shape, setting.mode, dict(options or {}))

    return Candidate(
        name=name,
        family="plug-in" if is_plugin(name) else MECHANISMS[name].family,
        estimates=EstimateByLength(lambda length: workload_factory(length)(), calibration),
        workload_factory=workload_factory,
        declared=declared,
        declared_single=declared_single,
        width=setting.head_dim,
        width_name="d",
        shortest=LONG if built(1, setting.head_dim).declares_cost else SHORTER,
    )


def layer_candidate(name: str, setting: Setting, calibration: Calibration | None) -> Candidate:
    """A layer of `LAYERS`."""

    @cache
    def built(width: int) -> Any:
        with FakeTensorMode():
            return build_layer(name, model_dim=width, num_heads=setting.num_heads)

    if setting.mode == "decode" and not hasattr(built(setting.model_dim), "step"):
        raise RegardError("it has no decoding step")

    def workload_factory(length: int) -> Callable[[], Workload]:
        shape, width, heads = setting.sequence(length), setting.model_dim, setting.num_heads
        return partial(layer_workload, name, shape, setting.mode, model_dim=width, num_heads=heads)

    def declared_single(length: int, width: int) -> Cost:
        if name == SELF_ATTENTION:
            return _self_attention_matmuls(setting, length=length, width=width)
        return built(width).cost(replace(setting.sequence(length), batch_size=1))

    return Candidate(
        name=name,
        family="layer",
        estimates=EstimateByLength(
            lambda length: workload_factory(length)(),
            calibration,
            # The steps of a recurrent layer are equal; with gradients, its memory does not follow.
            traced_length=64 if setting.mode == "forward" else TRACED_LENGTH,
        ),
        workload_factory=workload_factory,
        declared=lambda: built(setting.model_dim).cost(setting.sequence(setting.length)),
        declared_single=declared_single,
        width=setting.model_dim,
        width_name="w",
        multiple_of=setting.num_heads,
    )


def _self_attention_matmuls(setting: Setting, *, length: int, width: int) -> Cost:
    """The matmul FLOPs of self-attention on one sequence; counting them at many widths is slow."""
    head_dim = width // setting.num_heads
    shape = replace(setting.attention(length), batch_size=1, key_dim=head_dim, value_dim=head_dim)
    projections = 2 * length * 4 * width**2
    return build_for_shape(SOFTMAX, shape).cost(shape) + Cost(
        matmul_flops=projections,
        backward_matmul_flops=2 * projections,
        step_matmul_flops=2 * 4 * width**2,
    )


SOFTMAX = "scaled_dot"
# Compared with softmax attention by default.
DEFAULT_CANDIDATES = ("elu", "taylor", "polynomial")


class Comparison:
    """Estimates candidates one by one; `log` gets the name of each before, `on_row` its row after."""

    def __init__(
        self,
        setting: Setting,
        calibration: Calibration | None,
        log: Callable[[str], None] = lambda _name: None,
        on_row: Callable[[CostRow], None] = lambda _row: None,
    ) -> None:
        self.setting = setting
        self.calibration = calibration
        self.log = log
        self.on_row = on_row
        self.candidates: dict[str, Candidate] = {}
        self.unsupported: list[Unsupported] = []

    def mechanisms(
        self, names: Iterable[str], options: Mapping[str, Any] | None = None
    ) -> list[CostRow]:
        """A row for each mechanism that supports the shape, fastest first."""
        return self._rows(
            names, lambda name: mechanism_candidate(name, self.setting, self.calibration, options)
        )

    def layers(self) -> list[CostRow]:
        """A row for each layer, fastest first."""
        return self._rows(
            LAYER_NAMES, lambda name: layer_candidate(name, self.setting, self.calibration)
        )

    def add_baseline(self, name: str) -> None:
        """Add a mechanism for crossovers, without a row."""
        self.candidates[name] = mechanism_candidate(name, self.setting, self.calibration)

    def formulas(self, name: str) -> Formulas:
        """All closed forms of a mechanism of the comparison, for one head of one sequence."""
        candidate, length = self.candidates[name], self.setting.length
        here = candidate.declared_single(length, candidate.width)
        found = {field: candidate.closed_form(field) for field in FORMULA_FIELDS}
        different = [
            field
            for field, form in found.items()
            if form is not None and form.at(length, candidate.width) != getattr(here, field)
        ]
        return Formulas(
            name=name,
            by_field=tuple(
                (field, NO_FORMULA if form is None else form.as_text(), int(getattr(here, field)))
                for field, form in found.items()
            ),
            length_note=_length_note(different, length),
        )

    def crossovers(self, names: Sequence[str]) -> list[Crossover]:
        """Crossovers of the named mechanisms with softmax attention, and of an LSTM with self-attention."""
        pairs = [(SOFTMAX, name) for name in names if name != SOFTMAX]
        found = []
        for baseline, candidate in [*pairs, (SELF_ATTENTION, "lstm")]:
            if baseline in self.candidates and candidate in self.candidates:
                self.log(f"{candidate} and {baseline}")
                found.append(self._crossover(baseline, candidate))
        return found

    def curves(self, names: Iterable[str]) -> list[Curve]:
        """Time by length of candidates of the comparison; FLOPs without a calibration."""
        found = []
        for name in names:
            if name not in self.candidates:
                continue
            self.log(name)
            # One point per octave is enough for a curve.
            lengths = dict.fromkeys([*LENGTHS[::2], LENGTHS[-1]])
            points = tuple((length, self._value(name, length)) for length in lengths)
            family = self.candidates[name].family
            found.append(Curve(name=name, family=family, points=points))
        return found

    def _rows(self, names: Iterable[str], make: Callable[[str], Candidate]) -> list[CostRow]:
        rows = []
        for name in names:
            self.log(name)
            try:
                candidate = make(name)
                rows.append(self._row(candidate))
            except RegardError as error:
                self.unsupported.append(Unsupported(name=name, reason=str(error)))
            except Exception as error:
                # A plug-in may fail in any way; a built-in mechanism must not.
                if not is_plugin(name):
                    raise
                reason = f"it failed: {type(error).__name__}: {error}"
                self.unsupported.append(Unsupported(name=name, reason=reason))
            else:
                self.candidates[name] = candidate
                self.on_row(rows[-1])
        return sorted(rows, key=lambda row: (row.seconds or 0.0, row.flops))

    def _row(self, candidate: Candidate) -> CostRow:
        estimate = candidate.estimates.at(self.setting.length)
        cost = candidate.declared()
        return CostRow(
            name=candidate.name,
            family=candidate.family,
            formula=candidate.formula(self.setting.mode),
            flops=round(estimate.flops),
            peak_bytes=round(estimate.peak_bytes),
            traffic_bytes=round(estimate.traffic_bytes),
            state=cost.state,
            parameters=cost.parameters,
            sequential_steps=cost.sequential_steps,
            max_path_length=cost.max_path_length,
            seconds=estimate.seconds,
            note=self._note(candidate.name, cost),
        )

    def _note(self, name: str, cost: Cost) -> str:
        setting = self.setting
        usual = MECHANISMS[name].head_dim if name in MECHANISMS else setting.head_dim
        kv_cache = 2 * setting.batch_size * setting.length * setting.model_dim
        if setting.head_dim <= usual or cost.state <= kv_cache:
            return ""
        return (
            f"meant for heads of width {usual}: at {setting.head_dim} its state is "
            f"{cost.state / kv_cache:.1f} times the keys and values"
        )

    def _value(self, name: str, length: int) -> float:
        return cost_value(self.candidates[name].estimates.at(length))

    def _crossover(self, baseline: str, candidate: str) -> Crossover:
        length = crossover(
            lambda n: self._value(baseline, n), lambda n: self._value(candidate, n), LENGTHS
        )
        return Crossover(
            baseline=baseline,
            candidate=candidate,
            length=length,
            value=None if length is None else self._value(candidate, length),
            sentence=self._sentence(baseline, candidate, length),
        )

    def _sentence(self, baseline: str, candidate: str, length: int | None) -> str:
        beats, never_beats = "takes fewer FLOPs than", "never takes fewer FLOPs than"
        if self.calibration is not None:
            beats, never_beats = "is faster than", "is never faster than"
        if candidate == "lstm":
            attention, layer = "self-attention", "an LSTM layer"
            if length is None:
                return f"{attention} {beats} {layer} at every length up to n = {LENGTHS[-1]}"
            if length == LENGTHS[0]:
                return f"{layer} {beats} {attention} at every length from n = {length}"
            return f"{attention} {beats} {layer} below n = {length}"
        if length is None:
            return f"{candidate} {never_beats} {baseline}, up to n = {LENGTHS[-1]}"
        everywhere = "at every length " if length == LENGTHS[0] else ""
        return f"{candidate} {beats} {baseline} {everywhere}from n = {length}"


def cost_value(estimate: Estimate) -> float:
    """Seconds, or FLOPs without a calibration."""
    return estimate.flops if estimate.seconds is None else estimate.seconds


def _length_note(fields: Sequence[str], length: int) -> str:
    if not fields:
        return ""
    return (
        f"At n = {length} another form or chunking is used: {', '.join(fields)} "
        f"{'differs' if len(fields) == 1 else 'differ'} from the formula."
    )
