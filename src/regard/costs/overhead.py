"""What calling operators takes beside their own work, in the code that really calls them.

Microseconds of Python between operators, checks of arguments, and in training the bookkeeping of
gradients decide what short work takes. They differ from mechanism to mechanism, and are found for each
on sequences so short that nothing else matters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

from regard.core.cost import AttentionShape
from regard.costs.attention_workloads import Example
from regard.costs.layer_workloads import LayerExample
from regard.costs.trace import Trace, trace
from regard.costs.workload import MODES
from regard.layers.layer_cost import SequenceShape
from regard.mechanisms import MECHANISMS

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
