"""What mechanisms and layers take on one shape, as plain values: priced by one room, drawn by another."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class CostRow:
    """One mechanism or layer. Bytes and operations are those of the whole call; `state`, `parameters`,
    `sequential_steps` and `longest_path` are declared. `seconds` are predicted, None without times.
    """

    name: str
    family: str
    formula: str
    operations: int
    peak_bytes: int
    moved_bytes: int
    state: int
    parameters: int
    sequential_steps: int
    longest_path: int
    seconds: float | None
    note: str = ""
    measured_seconds: float | None = None
    measured_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class NotPriced:
    """What does not do this shape, and why."""

    name: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Times by length, or operations where no times are known; lengths ascending."""

    name: str
    family: str
    points: tuple[tuple[int, float], ...]


@dataclass(frozen=True, kw_only=True)
class Crossing:
    """From which length on `then` is ahead of `before`; None if it never is. `height` is where."""

    before: str
    then: str
    length: int | None
    height: float | None
    sentence: str


@dataclass(frozen=True, kw_only=True)
class Formulas:
    """The closed forms of one mechanism: what is counted → formula, and its figure at this shape."""

    name: str
    by_figure: tuple[tuple[str, str, int], ...]
    at_this_length: str


@dataclass(frozen=True, kw_only=True)
class CostReport:
    """All that one `regard cost` found out."""

    version: str
    command: str
    mode: str
    length: int
    num_heads: int
    head_dim: int
    batch_size: int
    causal: bool
    machine: dict[str, Any]
    has_times: bool
    mechanisms: tuple[CostRow, ...] = ()
    layers: tuple[CostRow, ...] = ()
    not_priced: tuple[NotPriced, ...] = ()
    crossings: tuple[Crossing, ...] = ()
    curves: tuple[Curve, ...] = ()
    formulas: tuple[Formulas, ...] = ()

    @property
    def families(self) -> tuple[str, ...]:
        """The families of the mechanisms and then of the layers, each once, in the order they come."""
        names = [row.family for row in self.mechanisms]
        names += [curve.family for curve in self.curves]
        names += [row.family for row in self.layers]
        return tuple(dict.fromkeys(names))

    def as_json(self) -> str:
        """The report as JSON text."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False, allow_nan=False)


@dataclass(frozen=True, kw_only=True)
class KindRow:
    """The operators of one kind in a run: how often, and the time predicted for all of them."""

    kind: str
    calls: int
    seconds: float | None


@dataclass(frozen=True, kw_only=True)
class ModuleReport:
    """What a module of the user's takes; what is None has no backward pass, or no time."""

    name: str
    inputs: tuple[str, ...]
    parameters: int
    forward_operations: int
    backward_operations: int | None
    peak_bytes: int
    training_peak_bytes: int | None
    moved_bytes: int
    calls: int
    seconds: float | None
    training_seconds: float | None
    kinds: tuple[KindRow, ...]

    def as_json(self) -> str:
        """The report as JSON text."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False, allow_nan=False)
