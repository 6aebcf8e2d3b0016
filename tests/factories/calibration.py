"""A dummy calibration: every operator takes time proportional to its work."""

from __future__ import annotations

from regard.costs.calibration import NO_FACTORS, NO_OVERHEADS, Calibration, this_machine
from regard.costs.operator_benchmarks import GRIDS, LogTable

SECONDS = 1e-12


def dummy_calibration(seconds: float = SECONDS) -> Calibration:
    """`seconds` per unit of work and per byte of memory traffic; no overheads."""
    dimensions = {kind: len(grid.axes) for kind, grid in GRIDS.items()}
    return Calibration(
        machine=this_machine(),
        tables={
            kind: LogTable(((1,),) * count, {(1,) * count: seconds})
            for kind, count in dimensions.items()
        },
        overheads=NO_OVERHEADS,
        factors=NO_FACTORS,
        elapsed_seconds=0.0,
    )
