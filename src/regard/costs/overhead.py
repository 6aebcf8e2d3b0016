"""What a call of an operator takes beside its own work, in code that is really used.

Microseconds of Python between operators, checks of arguments, and in training the bookkeeping of
gradients: they decide what short work takes. They are found on sequences so short that nothing else
matters.
"""

from __future__ import annotations

from statistics import median

from regard.core.cost import AttentionShape
from regard.costs.attention_workloads import attention_workload
from regard.costs.log_table import LogTable
from regard.costs.measurement import measured_seconds
from regard.costs.trace import trace
from regard.costs.workload import Mode

# Of every way of working one: fused, scored, kernel, recurrence.
EXAMPLES = ("scaled_dot", "general", "location", "elu", "taylor", "retention", "delta")
TINY = AttentionShape(
    num_heads=2, query_length=4, key_length=4, key_dim=8, value_dim=8, causal=True
)


def overhead_of_calls(
    tables: dict[str, LogTable], view_seconds: float, modes: tuple[Mode, ...]
) -> float:
    """Seconds for each operator called, the median over examples."""
    found = []
    for name in EXAMPLES:
        for mode in modes:
            workload = attention_workload(name, TINY, mode)
            traced = trace(workload)
            own = sum(
                times * (view_seconds if call.kind == "view" else tables[call.kind].at(call.sizes))
                for call, times in traced.calls.items()
            )
            spent = min(measured_seconds(workload, at_least=0.02) for _ in range(3))
            found.append((spent - own) / traced.num_calls)
    return max(0.0, median(found))
