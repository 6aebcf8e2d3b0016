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
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import product as all_of
from pathlib import Path
from typing import Any, NamedTuple, Self

import torch

from regard.core.errors import RegardError
from regard.core.whole_file import write_whole
from regard.costs.attention_workloads import Example
from regard.costs.in_context import EXAMPLES, NO_FACTORS, Factors, found_factors, group_of
from regard.costs.layer_workloads import LayerExample
from regard.costs.log_table import LogTable, Sizes
from regard.costs.measurement import quickest_seconds
from regard.costs.operator_subjects import GRIDS, SHORT
from regard.costs.overhead import NO_OVERHEADS, TINY_EXAMPLES, Overheads, found_overheads
from regard.costs.trace import Trace
from regard.costs.workload import Run

FORMAT = 10
FEWEST_PASSES = 2
ENOUGH_SECONDS = 25.0
TOLD_EVERY = 50


class Subject(NamedTuple):
    """One thing that is timed."""

    what: str
    key: Hashable
    prepare: Callable[[], Run]
    at_least: float


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Seconds by kind of work, and of calling operators beside their work.

    `factors` are by how much operators take longer in real work than alone.
    """

    machine: dict[str, Any]
    tables: dict[str, LogTable]
    overheads: Overheads
    factors: Factors
    took_seconds: float

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "format": FORMAT,
            "machine": self.machine,
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
            overheads=Overheads(**held["overheads"]),
            factors={mode: dict(held["factors"][mode]) for mode in NO_FACTORS},
            took_seconds=float(held["took_seconds"]),
        )

    def by_kind(self, trace: Trace) -> dict[str, float]:
        """Seconds of a run by kind of operator; those of calling them are the kind "view"."""
        found: defaultdict[str, float] = defaultdict(float)
        for call, times in trace.calls.items():
            if call.kind != "view":
                found[call.kind] += times * self.tables[call.kind].at(call.sizes)
        found["view"] += self.overheads.seconds(trace)
        factors = self.factors.get(trace.mode, {})
        return {
            kind: factors.get(group_of(kind) or "", 1.0) * spent for kind, spent in found.items()
        }


def this_machine() -> dict[str, Any]:
    """What a calibration is valid for."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }


def calibrate(tell: Callable[[str, float], None] = lambda _what, _share: None) -> Calibration:
    """Measure this machine; `tell` hears what is being measured and the share that is done.

    Everything is measured in two passes or, as far as time allows, more, and its shortest time counts: a
    machine has slow spells of seconds, and one that falls on a whole table would make it wrong throughout.
    """
    began = time.monotonic()
    subjects = list(_subjects())
    shortest: dict[Hashable, float] = {}
    turn = 0
    while turn < FEWEST_PASSES or (time.monotonic() - began) * (turn + 1) / turn < ENOUGH_SECONDS:
        for place, subject in enumerate(subjects):
            if place % TOLD_EVERY == 0:
                tell(subject.what, min(1.0, (turn + place / len(subjects)) / FEWEST_PASSES))
            found = quickest_seconds(subject.prepare(), rounds=1, at_least=subject.at_least)
            shortest[subject.key] = min(found, shortest.get(subject.key, math.inf))
        turn += 1
    tables = {
        kind: LogTable.measured(
            grid.axes,
            partial(_looked_up, shortest, kind),
            work=grid.work,
            most=grid.most,
        )
        for kind, grid in GRIDS.items()
    }
    alone = Calibration(
        machine=this_machine(),
        tables=tables,
        overheads=NO_OVERHEADS,
        factors=NO_FACTORS,
        took_seconds=0.0,
    )
    overheads = found_overheads(
        {example: shortest[example] for example in TINY_EXAMPLES},
        lambda traced: sum(alone.by_kind(traced).values()),
    )
    called = replace(alone, overheads=overheads)
    factors = found_factors({example: shortest[example] for example in EXAMPLES}, called.by_kind)
    return replace(called, factors=factors, took_seconds=time.monotonic() - began)


def _looked_up(shortest: dict[Hashable, float], kind: str, sizes: Sizes) -> float:
    return shortest[kind, sizes]


def _subjects() -> Iterator[Subject]:
    for kind, grid in GRIDS.items():
        for sizes in all_of(*grid.axes):
            if grid.work(sizes) <= grid.most:
                yield Subject(
                    kind, (kind, sizes), partial(grid.prepare, *sizes), at_least=grid.at_least
                )
    for example in (*TINY_EXAMPLES, *EXAMPLES):
        yield Subject("examples", example, partial(_prepared, example), at_least=2 * SHORT)


def _prepared(example: Example | LayerExample) -> Run:
    return example.workload().prepare()


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
