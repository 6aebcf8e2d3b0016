"""Calibration: operator times of this machine, measured once in about half a minute and cached.

Matrix products, fused attention, convolutions and recurrent layers are measured on a grid of shapes,
all other operators by memory traffic; one `LogTable` per operator kind. Two corrections are fitted on
whole mechanisms. `Overheads` are the microseconds of Python, dispatch and autograd around each call;
they dominate short sequences and are fitted there. Factors account for cold caches and fresh memory
inside real workloads: operators run slower there than alone in a loop.
"""

from __future__ import annotations

import json
import math
import os
import platform
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product as all_of
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch

from regard.core.atomic_write import atomic_write, user_cache_folder
from regard.core.cost import AttentionShape
from regard.core.errors import RegardError
from regard.costs.measure import shortest_seconds
from regard.costs.operator_benchmarks import GRIDS, MIN_SECONDS, LogTable
from regard.costs.trace import MODES, Mode, Run, Trace, trace
from regard.costs.workloads import Example
from regard.layers.cost import SequenceShape
from regard.mechanisms import MECHANISMS

TINY = AttentionShape(
    num_heads=2, query_length=8, key_length=8, key_dim=8, value_dim=8, causal=True
)
TINY_EXAMPLES: tuple[Example, ...] = (
    *(Example(name, TINY, mode) for name in MECHANISMS for mode in MODES),
    # A few Python calls run many operators here, which separates the two overheads.
    *(Example("gru", SequenceShape(batch_size=2, length=16), mode, 16) for mode in MODES[:2]),
)


class Overheads(NamedTuple):
    """Seconds per Python call, per operator, and per operator recorded by autograd.

    `runs` are additional seconds per run, by workload name and mode.
    """

    python: float
    operator: float
    autograd: float
    runs: dict[str, dict[str, float]]

    def seconds(self, trace: Trace) -> float:
        """Overhead of a run; workloads that are not calibration examples have call overheads only."""
        run = self.runs.get(trace.name, {}).get(trace.mode, 0.0)
        return max(0.0, self.of_calls(trace) + run)

    def of_calls(self, trace: Trace) -> float:
        """Overhead of the calls alone."""
        return (
            trace.python_calls * self.python
            + trace.num_calls * self.operator
            + trace.autograd_calls * self.autograd
        )


NO_OVERHEADS = Overheads(python=0.0, operator=0.0, autograd=0.0, runs={})


def fit_overheads(
    measured: Mapping[Example, float], operator_seconds: Callable[[Trace], float]
) -> Overheads:
    """Fit overheads to the measured tiny examples; `operator_seconds` sums a trace's operator times."""
    from scipy.optimize import nnls  # slow to import

    traces = [trace(example.workload()) for example in measured]
    seconds = np.array(list(measured.values()))
    excess = seconds - np.array([operator_seconds(traced) for traced in traces])
    counts = np.array(
        [[traced.python_calls, traced.num_calls, traced.autograd_calls] for traced in traces]
    )
    # Relative errors, so that short and long examples count equally.
    (python, operator, autograd), _ = nnls(counts / seconds[:, None], excess / seconds)
    calls = Overheads(
        python=float(python), operator=float(operator), autograd=float(autograd), runs={}
    )
    runs: dict[str, dict[str, float]] = {}
    for traced, left in zip(traces, excess, strict=True):
        if traced.name in MECHANISMS:
            runs.setdefault(traced.name, {})[traced.mode] = float(left) - calls.of_calls(traced)
    return calls._replace(runs=runs)


GROUPS = ("matmul", "memory")
UNSCALED_KINDS = (
    *("attention", "attention_backward", "causal_attention", "causal_attention_backward"),
    *("recurrent", "recurrent_backward", "convolution", "convolution_backward", "view"),
)
FACTOR_MECHANISMS = (
    *("general", "location", "window", "synthesizer_dense"),
    *("elu", "taylor", "random_features", "retention", "delta"),
)
CAUSAL_ONLY = ("retention", "delta")
FACTOR_MODES: tuple[Mode, ...] = ("forward", "train")
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
FACTOR_EXAMPLES = tuple(
    Example(name, shape, mode)
    for name in FACTOR_MECHANISMS
    for shape in SHAPES
    for mode in FACTOR_MODES
    if shape.causal or name not in CAUSAL_ONLY
)
# Regularisation toward 1, in units of one example's squared relative error.
RIDGE = 0.5
MIN_FACTOR = 0.5

Factors = dict[str, dict[str, float]]
"""By mode, then by group."""

NO_FACTORS: Factors = {mode: dict.fromkeys(GROUPS, 1.0) for mode in FACTOR_MODES}


def group_of(kind: str) -> str | None:
    """The factor group of an operator kind. Fused operators and views have none."""
    if kind in UNSCALED_KINDS:
        return None
    return "matmul" if kind in ("matmul", "triangular_solve") else "memory"


def fit_factors(
    measured: Mapping[Example, float], seconds_by_kind: Callable[[Trace], dict[str, float]]
) -> Factors:
    """Fit factors; `seconds_by_kind` is the predicted time of a trace with all factors 1."""
    return {mode: _fit_mode(mode, measured, seconds_by_kind) for mode in FACTOR_MODES}


def _fit_mode(
    mode: Mode,
    measured: Mapping[Example, float],
    seconds_by_kind: Callable[[Trace], dict[str, float]],
) -> dict[str, float]:
    shares, left_over = [], []
    for example, seconds in measured.items():
        if example.mode != mode:
            continue
        parts = dict.fromkeys((*GROUPS, None), 0.0)
        for kind, taken in seconds_by_kind(trace(example.workload())).items():
            parts[group_of(kind)] += taken / seconds
        shares.append([parts[group] for group in GROUPS])
        left_over.append(1.0 - parts[None])
    ridge = np.sqrt(RIDGE) * np.eye(len(GROUPS))
    left = np.vstack([np.array(shares), ridge])
    right = np.concatenate([np.array(left_over), ridge.sum(axis=1)])
    found, *_ = np.linalg.lstsq(left, right, rcond=None)
    return dict(zip(GROUPS, (float(max(MIN_FACTOR, factor)) for factor in found), strict=True))


FORMAT = 11
MIN_PASSES = 2
TARGET_SECONDS = 25.0
LOG_EVERY = 50


class Benchmark(NamedTuple):
    """One benchmark to time."""

    name: str
    key: Hashable
    prepare: Callable[[], Run]
    min_seconds: float


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Operator times by kind, call overheads, and slowdown factors inside real workloads."""

    machine: dict[str, Any]
    tables: dict[str, LogTable]
    overheads: Overheads
    factors: Factors
    elapsed_seconds: float
    # How other processes disturbed the measurement; such a calibration is not worth saving.
    busy: str = ""

    def as_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "machine": self.machine,
            "overheads": self.overheads._asdict(),
            "factors": self.factors,
            "elapsed_seconds": self.elapsed_seconds,
            "tables": {kind: table.as_json() for kind, table in self.tables.items()},
        }

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Self:
        return cls(
            machine=dict(record["machine"]),
            tables={kind: LogTable.from_json(table) for kind, table in record["tables"].items()},
            overheads=Overheads(**record["overheads"]),
            factors={mode: dict(record["factors"][mode]) for mode in NO_FACTORS},
            elapsed_seconds=float(record["elapsed_seconds"]),
        )

    def by_kind(self, trace: Trace) -> dict[str, float]:
        """Seconds of a run by operator kind; call overheads are under "view"."""
        found: defaultdict[str, float] = defaultdict(float)
        for call, times in trace.calls.items():
            if call.kind != "view":
                found[call.kind] += times * self.tables[call.kind].at(call.sizes)
        found["view"] += self.overheads.seconds(trace)
        factors = self.factors.get(trace.mode, {})
        return {
            kind: factors.get(group_of(kind) or "", 1.0) * seconds
            for kind, seconds in found.items()
        }


def this_machine() -> dict[str, Any]:
    """The machine, thread count and torch version that a calibration is valid for."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }


class Probe(NamedTuple):
    """One run of a fixed computation: its wall time, and the share of it that this thread was running."""

    seconds: float
    cpu_share: float


PROBE_SIZE, PROBE_REPEATS = 256, 20
# Alone on a machine, the share is 1 and times differ by a tenth.
MIN_CPU_SHARE = 0.9
MAX_SLOWDOWN = 1.5


def probe(
    clock: Callable[[], float] = time.perf_counter,
    cpu_clock: Callable[[], float] = time.thread_time,
) -> Probe:
    """Time a few matrix products, for `busy_reason`."""
    square = torch.ones(PROBE_SIZE, PROBE_SIZE)
    start, cpu_start = clock(), cpu_clock()
    for _ in range(PROBE_REPEATS):
        square @ square
    seconds = clock() - start
    return Probe(seconds, (cpu_clock() - cpu_start) / max(seconds, 1e-9))


def busy_reason(probes: Sequence[Probe]) -> str:
    """What shows that other processes were running, or an empty string.

    The mean share tells of a load that lasts, the slowest quarter of the times of one that comes and goes.
    """
    share = statistics.mean(each.cpu_share for each in probes)
    times = sorted(each.seconds for each in probes)
    slowdown = times[len(times) * 3 // 4] / times[0]
    if share < MIN_CPU_SHARE:
        return f"regard got {share:.0%} of a core"
    if slowdown > MAX_SLOWDOWN:
        return f"a quarter of the time, the same computation took {slowdown:.1f} times as long"
    return ""


def calibrate(log: Callable[[str, float], None] = lambda _name, _fraction: None) -> Calibration:
    """Measure this machine; `log` is called with the benchmark's name and the fraction done.

    Every benchmark is timed in two or more passes and the shortest time counts, so that a slow spell of
    the machine does not distort a whole table. Probes in between notice a machine that is busy.
    """
    started = time.monotonic()
    benchmarks = list(_benchmarks())
    probes: list[Probe] = []
    probe()  # warm-up
    shortest: dict[Hashable, float] = {}
    passes = 0
    while (
        passes < MIN_PASSES or (time.monotonic() - started) * (passes + 1) / passes < TARGET_SECONDS
    ):
        for index, benchmark in enumerate(benchmarks):
            if index % LOG_EVERY == 0:
                log(benchmark.name, min(1.0, (passes + index / len(benchmarks)) / MIN_PASSES))
                probes.append(probe())
            found = shortest_seconds(
                benchmark.prepare(), rounds=1, min_seconds=benchmark.min_seconds
            )
            shortest[benchmark.key] = min(found, shortest.get(benchmark.key, math.inf))
        passes += 1
    tables = {
        kind: LogTable.from_measurements(
            grid.axes,
            lambda sizes, kind=kind: shortest[kind, sizes],  # type: ignore[misc]
            work=grid.work,
            max_work=grid.max_work,
        )
        for kind, grid in GRIDS.items()
    }
    alone = Calibration(
        machine=this_machine(),
        tables=tables,
        overheads=NO_OVERHEADS,
        factors=NO_FACTORS,
        elapsed_seconds=0.0,
    )
    overheads = fit_overheads(
        {example: shortest[example] for example in TINY_EXAMPLES},
        lambda traced: sum(alone.by_kind(traced).values()),
    )
    with_overheads = replace(alone, overheads=overheads)
    factors = fit_factors(
        {example: shortest[example] for example in FACTOR_EXAMPLES}, with_overheads.by_kind
    )
    elapsed = time.monotonic() - started
    return replace(
        with_overheads, factors=factors, elapsed_seconds=elapsed, busy=busy_reason(probes)
    )


def _benchmarks() -> Iterator[Benchmark]:
    for kind, grid in GRIDS.items():
        for sizes in all_of(*grid.axes):
            if grid.work(sizes) <= grid.max_work:
                yield Benchmark(
                    kind, (kind, sizes), partial(grid.prepare, *sizes), min_seconds=grid.min_seconds
                )
    for example in (*TINY_EXAMPLES, *FACTOR_EXAMPLES):
        yield Benchmark(
            "examples", example, partial(_prepare, example), min_seconds=2 * MIN_SECONDS
        )


def _prepare(example: Example) -> Run:
    return example.workload().prepare()


def calibration_path() -> Path:
    """The calibration file: in the user's cache, or in $REGARD_CACHE."""
    return user_cache_folder() / f"calibration-{torch.get_num_threads()}.json"


def load_calibration() -> Calibration | None:
    """The saved calibration for this machine, thread count and torch version, or None."""
    path = calibration_path()
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise RegardError(
            f"The calibration '{path}' cannot be read: {error}. Measure again: regard cost --calibrate"
        ) from error
    try:
        if record["format"] != FORMAT or record["machine"] != this_machine():
            return None
        return Calibration.from_json(record)
    except (KeyError, TypeError, ValueError) as error:
        raise RegardError(
            f"The calibration '{path}' is damaged ({error!r}). Measure again: regard cost --calibrate"
        ) from error


def save_calibration(calibration: Calibration) -> Path:
    """Write the file that `load_calibration` reads."""
    path = calibration_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(path, json.dumps(calibration.as_json()))
    return path


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
