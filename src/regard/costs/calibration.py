"""What this machine's operators take: measured once in under half a minute, and kept.

Matrix products, fused attention and recurrent layers are measured on a grid of shapes; everything else
by the bytes it moves, one table for each kind of operator. What calls take beside their work is
found on examples (`overhead.py`).
"""

from __future__ import annotations

import json
import math
import os
import platform
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import torch

from regard.core.errors import RegardError
from regard.core.whole_file import write_whole
from regard.costs.in_context import GROUPS, group_of, measured_factors
from regard.costs.log_table import LogTable, Sizes
from regard.costs.measurement import quickest_seconds
from regard.costs.operator_subjects import GRIDS, MOVERS, view_overhead
from regard.costs.overhead import Overheads, measured_overheads
from regard.costs.trace import Trace
from regard.costs.workload import MODES

FORMAT = 5
# Bytes an operator reads and writes, from one that is all overhead to one far beyond any cache.
BYTES = (1 << 10, 1 << 13, 1 << 16, 1 << 19, 1 << 22, 1 << 25)


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Seconds by kind of work, of a view's call, of calling operators beside their work.

    `factors` are by how much a group of operators takes longer in real work than by itself.
    """

    machine: dict[str, Any]
    tables: dict[str, LogTable]
    view_seconds: float
    overheads: Overheads
    factors: dict[str, float]
    took_seconds: float

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "format": FORMAT,
            "machine": self.machine,
            "view_seconds": self.view_seconds,
            "overheads": self.overheads._asdict(),
            "factors": self.factors,
            "took_seconds": self.took_seconds,
            "tables": {kind: table.as_json() for kind, table in self.tables.items()},
        }

    @classmethod
    def from_json(cls, held: dict[str, Any]) -> Self:
        """The inverse of `as_json`."""
        return cls(
            machine=dict(held["machine"]),
            tables={kind: LogTable.from_json(table) for kind, table in held["tables"].items()},
            view_seconds=float(held["view_seconds"]),
            overheads=Overheads(**held["overheads"]),
            factors={group: float(held["factors"][group]) for group in GROUPS},
            took_seconds=float(held["took_seconds"]),
        )

    def by_kind(self, trace: Trace) -> dict[str, float]:
        """Seconds of a run by kind of operator; those of calling them are the kind "view"."""
        found: defaultdict[str, float] = defaultdict(float)
        for call, times in trace.calls.items():
            one = (
                self.view_seconds if call.kind == "view" else self.tables[call.kind].at(call.sizes)
            )
            found[call.kind] += times * one
        found["view"] += self.overheads.seconds(trace)
        return {kind: self.factors[group_of(kind)] * spent for kind, spent in found.items()}

    def by_group(self, trace: Trace) -> dict[str, float]:
        """The same by group of kinds."""
        found = dict.fromkeys(GROUPS, 0.0)
        for kind, spent in self.by_kind(trace).items():
            found[group_of(kind)] += spent
        return found


def this_machine() -> dict[str, Any]:
    """What a calibration is valid for."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }


def calibrate(tell: Callable[[str, float], None] = lambda _what, _share: None) -> Calibration:
    """Measure this machine; `tell` hears what is being measured and the share that is done."""
    began = time.monotonic()
    tables: dict[str, LogTable] = {}
    steps = len(GRIDS) + len(MOVERS)
    for kind, grid in GRIDS.items():
        tell(kind, len(tables) / steps)

        def seconds(sizes: Sizes, prepare: Any = grid.prepare) -> float:
            return quickest_seconds(prepare(*sizes), rounds=3, at_least=0.0)

        tables[kind] = LogTable.measured(grid.axes, seconds, work=grid.work, most=grid.most)
    for kind in MOVERS:
        tell(kind, len(tables) / steps)

        def seconds_of_bytes(sizes: Sizes, mover: str = kind) -> float:
            return quickest_seconds(MOVERS[mover](sizes[0]), at_least=0.0005)

        tables[kind] = LogTable.measured([BYTES], seconds_of_bytes, work=math.prod, most=math.inf)
    tell("calls", 1.0)
    alone = Calibration(
        machine=this_machine(),
        tables=tables,
        view_seconds=view_overhead(),
        overheads=Overheads(calls=dict.fromkeys(MODES, 0.0), runs={}),
        factors=dict.fromkeys(GROUPS, 1.0),
        took_seconds=0.0,
    )
    called = replace(
        alone, overheads=measured_overheads(lambda traced: sum(alone.by_kind(traced).values()))
    )
    factors = measured_factors(called.by_group)
    return replace(called, factors=factors, took_seconds=time.monotonic() - began)


def calibration_path() -> Path:
    """Where the calibration of this machine is kept: the user's cache, or $REGARD_CACHE."""
    home = os.environ.get("REGARD_CACHE") or os.environ.get("XDG_CACHE_HOME")
    folder = Path(home) if home else Path.home() / ".cache"
    return folder / "regard" / f"calibration-{torch.get_num_threads()}.json"


def kept_calibration() -> Calibration | None:
    """The one that was kept for this machine, threads and torch; None if there is none."""
    path = calibration_path()
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise RegardError(
            f"The calibration '{path}' cannot be read: {error}. Measure anew: regard cost --calibrate"
        ) from error
    try:
        if held["format"] != FORMAT or held["machine"] != this_machine():
            return None
        return Calibration.from_json(held)
    except (KeyError, TypeError, ValueError) as error:
        raise RegardError(
            f"The calibration '{path}' is damaged ({error!r}). Measure anew: regard cost --calibrate"
        ) from error


def keep(calibration: Calibration) -> Path:
    """Write it where `kept_calibration` looks."""
    path = calibration_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(calibration.as_json()))
    return path


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
