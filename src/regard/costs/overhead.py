"""What calling operators takes beside their own work, in the code that really calls them.

Microseconds of Python between operators, checks of arguments, and in training the bookkeeping of
gradients decide what short work takes. They differ from mechanism to mechanism, and are found for each
on sequences so short that nothing else matters.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import NamedTuple

from regard.core.cost import AttentionShape
from regard.costs.attention_workloads import attention_workload
from regard.costs.measurement import quickest_seconds
from regard.costs.trace import Trace, trace
from regard.costs.workload import MODES, Mode
from regard.mechanisms import MECHANISMS

TINY = AttentionShape(
    num_heads=2, query_length=8, key_length=8, key_dim=8, value_dim=8, causal=True
)
# With fewer operators than this, a run tells nothing of what each of them takes.
MANY_CALLS = 20


class Overheads(NamedTuple):
    """Seconds of each operator called: by mode, in training those recorded for gradients.

    `runs` are seconds of a run, by mechanism and mode, beside those of its operators.
    """

    calls: dict[str, float]
    runs: dict[str, dict[str, float]]

    def seconds(self, trace: Trace) -> float:
        """What calling takes in a run; of what is no mechanism, the operators' part alone."""
        run = self.runs.get(trace.name, {}).get(trace.mode, 0.0)
        return max(0.0, self.of_calls(trace) + run)

    def of_calls(self, trace: Trace) -> float:
        """The operators' part."""
        unrecorded = self.calls["decode" if trace.mode == "decode" else "forward"]
        recorded = trace.recorded_calls * self.calls["train"]
        return recorded + (trace.num_calls - trace.recorded_calls) * unrecorded


def measured_overheads(own_seconds: Callable[[Trace], float]) -> Overheads:
    """From every mechanism; `own_seconds` is what the operators of a trace take by themselves."""
    beside: dict[Mode, dict[str, tuple[float, Trace]]] = {mode: {} for mode in MODES}
    for name in MECHANISMS:
        for mode in MODES:
            workload = attention_workload(name, TINY, mode)
            traced = trace(workload)
            spent = quickest_seconds(workload.prepare())
            beside[mode][name] = (spent - own_seconds(traced), traced)

    def typical(mode: Mode, known: float = 0.0) -> float:
        """The median over mechanisms of what one call takes, those not recorded taking `known`."""
        rates = []
        for seconds, traced in beside[mode].values():
            asked = traced.recorded_calls if mode == "train" else traced.num_calls
            if traced.num_calls >= MANY_CALLS and asked:
                rates.append((seconds - known * (traced.num_calls - asked)) / asked)
        return max(0.0, median(rates))

    forward = typical("forward")
    calls = {
        "forward": forward,
        "decode": typical("decode"),
        "train": typical("train", known=forward),
    }
    by_calls = Overheads(calls=calls, runs={})
    runs: dict[str, dict[str, float]] = {
        name: {
            mode: beside[mode][name][0] - by_calls.of_calls(beside[mode][name][1]) for mode in MODES
        }
        for name in MECHANISMS
    }
    return Overheads(calls=calls, runs=runs)
