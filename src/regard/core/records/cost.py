"""Cost reports of mechanisms, layers and modules: FLOPs, memory, time. Plain values, JSON-serialisable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from regard.core.records.record import Record


@dataclass(frozen=True, kw_only=True)
class CostRow:
    """One mechanism or layer. Bytes and FLOPs are those of the whole call.

    `state`, `parameters`, `sequential_steps` and `max_path_length` are declared. `seconds` is
    predicted, and None without a calibration.
    """

    name: str
    family: str
    formula: str
    flops: int
    peak_bytes: int
    traffic_bytes: int
    state: int
    parameters: int
    sequential_steps: int
    max_path_length: int
    seconds: float | None
    note: str = ""
    measured_seconds: float | None = None
    measured_bytes: int | None = None

    @property
    def time_ratio(self) -> float | None:
        """Predicted over measured time."""
        if self.seconds is None or not self.measured_seconds:
            return None
        return self.seconds / self.measured_seconds

    @property
    def memory_ratio(self) -> float | None:
        """Predicted over measured memory."""
        return self.peak_bytes / self.measured_bytes if self.measured_bytes else None


@dataclass(frozen=True, kw_only=True)
class Unsupported:
    """A mechanism or layer that does not support this shape, and why."""

    name: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Predicted seconds by sequence length, ascending; FLOPs without a calibration."""

    name: str
    family: str
    points: tuple[tuple[int, float], ...]


@dataclass(frozen=True, kw_only=True)
class Crossover:
    """The length from which `candidate` costs less than `baseline`, or None; `value` is the cost there."""

    baseline: str
    candidate: str
    length: int | None
    value: float | None
    sentence: str


@dataclass(frozen=True, kw_only=True)
class Formulas:
    """Closed forms of one mechanism: (field of the cost, formula, value at this shape).

    `length_note` lists fields whose value at this length differs from the formula.
    """

    name: str
    by_field: tuple[tuple[str, str, int], ...]
    length_note: str


@dataclass(frozen=True, kw_only=True)
class CostReport(Record):
    """The result of `regard cost`."""

    INDENT: ClassVar[int | None] = 1
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
    unsupported: tuple[Unsupported, ...] = ()
    crossovers: tuple[Crossover, ...] = ()
    curves: tuple[Curve, ...] = ()
    formulas: tuple[Formulas, ...] = ()

    @property
    def families(self) -> tuple[str, ...]:
        """Unique families of the mechanisms, then of the layers, in order of appearance."""
        names = [row.family for row in self.mechanisms]
        names += [curve.family for curve in self.curves]
        names += [row.family for row in self.layers]
        return tuple(dict.fromkeys(names))


@dataclass(frozen=True, kw_only=True)
class KindRow:
    """Operators of one kind in a run: number of calls and total predicted time."""

    kind: str
    calls: int
    seconds: float | None


@dataclass(frozen=True, kw_only=True)
class ModuleReport(Record):
    """Cost of a user's module. None: no backward pass, or no calibration."""

    INDENT: ClassVar[int | None] = 1
    name: str
    inputs: tuple[str, ...]
    parameters: int
    forward_flops: int
    backward_flops: int | None
    peak_bytes: int
    training_peak_bytes: int | None
    traffic_bytes: int
    calls: int
    seconds: float | None
    training_seconds: float | None
    kinds: tuple[KindRow, ...]
