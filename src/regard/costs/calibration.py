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
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import product as all_of
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from scipy.optimize import nnls

from regard.core.atomic_write import write_whole
from regard.core.cost import AttentionShape
from regard.core.errors import RegardError
from regard.costs.interpolation import LogTable, Sizes
from regard.costs.measure import quickest_seconds
from regard.costs.operator_benchmarks import GRIDS, SHORT
from regard.costs.trace import MODES, Mode, Run, Trace, trace
from regard.costs.workloads import Example, LayerExample
from regard.layers.cost import SequenceShape
from regard.mechanisms import MECHANISMS

# What calling operators takes beside their own work, in the code that really calls them.
#
# Microseconds of Python between operators, checks of arguments, and in training the bookkeeping of
# gradients decide what short work takes. They differ from mechanism to mechanism, and are found for
# each on sequences so short that nothing else matters.


TINY = AttentionShape(
    num_heads=2, query_length=8, key_length=8, key_dim=8, value_dim=8, causal=True
)
TINY_EXAMPLES: tuple[Example | LayerExample, ...] = (
    *(Example(name, TINY, mode) for name in MECHANISMS for mode in MODES),
    # A few calls of Python run many operators here: it tells the two apart.
    *(LayerExample("gru", SequenceShape(batch_size=2, length=16), mode, 16) for mode in MODES[:2]),
)


class Overheads(NamedTuple):
    """Seconds of each call of Python, of each operator it runs, and of recording one for gradients.

    `runs` are seconds of a run, by name and mode, beside those of its calls.
    """

    python: float
    operator: float
    recorded: float
    runs: dict[str, dict[str, float]]

    def seconds(self, trace: Trace) -> float:
        """What calling takes in a run; of what was no example, the calls' part alone."""
        run = self.runs.get(trace.name, {}).get(trace.mode, 0.0)
        return max(0.0, self.of_calls(trace) + run)

    def of_calls(self, trace: Trace) -> float:
        """The calls' part."""
        return (
            trace.python_calls * self.python
            + trace.num_calls * self.operator
            + trace.recorded_calls * self.recorded
        )


NO_OVERHEADS = Overheads(python=0.0, operator=0.0, recorded=0.0, runs={})


def found_overheads(
    spent: Mapping[Example | LayerExample, float], own_seconds: Callable[[Trace], float]
) -> Overheads:
    """From the seconds of the tiny examples; `own_seconds` is what a trace's operators take alone."""
    traces = [trace(example.workload()) for example in spent]
    seconds = np.array(list(spent.values()))
    beside = seconds - np.array([own_seconds(traced) for traced in traces])
    counts = np.array(
        [[traced.python_calls, traced.num_calls, traced.recorded_calls] for traced in traces]
    )
    # Relative to what each example takes, so that the short ones count as much as the long.
    (python, operator, recorded), _ = nnls(counts / seconds[:, None], beside / seconds)
    calls = Overheads(
        python=float(python), operator=float(operator), recorded=float(recorded), runs={}
    )
    runs: dict[str, dict[str, float]] = {}
    for traced, left in zip(traces, beside, strict=True):
        if traced.name in MECHANISMS:
            runs.setdefault(traced.name, {})[traced.mode] = float(left) - calls.of_calls(traced)
    return calls._replace(runs=runs)


# How much longer operators take inside real work than alone in a loop.
#
# Alone, an operator finds its numbers in the cache and its memory at hand; inside a mechanism
# others have been there meanwhile, the more so in training, where what is kept for the way back
# takes fresh memory. Real calls of middling length, traced and run, give factors for products and
# for what moves numbers: those, near 1, that make the relative errors smallest. Fused operators do
# all their work in one call, and a decoded token's numbers are few: they have none.


GROUPS = ("products", "moving")
ALONE = (
    *("attention", "attention_backward", "causal_attention", "causal_attention_backward"),
    *("recurrent", "recurrent_backward", "convolution", "convolution_backward", "view"),
)
MECHANISMS_SHOWN = (
    *("general", "location", "window", "synthesizer_dense"),
    *("elu", "taylor", "random_features", "retention", "delta"),
)
PAST_ONLY = ("retention", "delta")
SHOWN: tuple[Mode, ...] = ("forward", "train")
SHAPES = tuple(
    AttentionShape(
        batch_size=batch,
        num_heads=heads,
        query_length=length,
        key_length=length,
        key_dim=width,
        value_dim=width,
        causal=causal,
    )
    for batch, heads, length, width, causal in ((1, 2, 150, 16, True), (2, 4, 400, 32, False))
)
EXAMPLES = tuple(
    Example(name, shape, mode)
    for name in MECHANISMS_SHOWN
    for shape in SHAPES
    for mode in SHOWN
    if shape.causal or name not in PAST_ONLY
)
# How strongly the factors are held near 1, in units of one example's squared relative error.
HELD = 0.5
LEAST = 0.5

Factors = dict[str, dict[str, float]]
"""By mode, then by group."""

NO_FACTORS: Factors = {mode: dict.fromkeys(GROUPS, 1.0) for mode in SHOWN}


def group_of(kind: str) -> str | None:
    """Which factor a kind of operator has, if any."""
    if kind in ALONE:
        return None
    return "products" if kind in ("product", "solve") else "moving"


def found_factors(
    spent: Mapping[Example, float], seconds_by_kind: Callable[[Trace], dict[str, float]]
) -> Factors:
    """The factors; `seconds_by_kind` is what a trace takes with all of them 1."""
    return {mode: _of_mode(mode, spent, seconds_by_kind) for mode in SHOWN}


def _of_mode(
    mode: Mode,
    spent: Mapping[Example, float],
    seconds_by_kind: Callable[[Trace], dict[str, float]],
) -> dict[str, float]:
    shares, left_over = [], []
    for example, seconds in spent.items():
        if example.mode != mode:
            continue
        parts = dict.fromkeys((*GROUPS, None), 0.0)
        for kind, taken in seconds_by_kind(trace(example.workload())).items():
            parts[group_of(kind)] += taken / seconds
        shares.append([parts[group] for group in GROUPS])
        left_over.append(1.0 - parts[None])
    held = np.sqrt(HELD) * np.eye(len(GROUPS))
    left = np.vstack([np.array(shares), held])
    right = np.concatenate([np.array(left_over), held.sum(axis=1)])
    found, *_ = np.linalg.lstsq(left, right, rcond=None)
    return dict(zip(GROUPS, (float(max(LEAST, factor)) for factor in found), strict=True))


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
