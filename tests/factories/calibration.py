"""A machine on which every operator takes its work times a constant, so that nothing is measured."""

from __future__ import annotations

from regard.costs.calibration import NO_FACTORS, NO_OVERHEADS, Calibration, this_machine
from regard.costs.interpolation import LogTable
from regard.costs.operator_benchmarks import GRIDS

SECONDS = 1e-12


def made_up_calibration(seconds: float = SECONDS) -> Calibration:
    """`seconds` for a product of work 1 and for a byte that is moved; calling takes nothing."""
    dimensions = {kind: len(grid.axes) for kind, grid in GRIDS.items()}
    return Calibration(
        machine=this_machine(),
        tables={
            kind: LogTable(((1,),) * count, {(1,) * count: seconds})
            for kind, count in dimensions.items()
        },
        overheads=NO_OVERHEADS,
        factors=NO_FACTORS,
        took_seconds=0.0,
    )
