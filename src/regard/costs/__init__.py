"""Cost of mechanisms, layers and modules: FLOPs, memory, memory traffic and predicted time.

A workload is traced operator by operator, and its time predicted from the machine's calibration
(`calibrate`, `estimate`). `Comparison` compares mechanisms on one shape.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.core.exports import lazy_exports

if TYPE_CHECKING:
    from regard.costs.calibration import (
        Calibration as Calibration,
        calibrate as calibrate,
        load_calibration as load_calibration,
    )
    from regard.costs.compare import Comparison as Comparison, Setting as Setting
    from regard.costs.measure import (
        measured_peak as measured_peak,
        measured_seconds as measured_seconds,
    )
    from regard.costs.predict import (
        Estimate as Estimate,
        crossover as crossover,
        estimate as estimate,
    )
    from regard.costs.trace import Trace as Trace, Workload as Workload
    from regard.costs.workloads import (
        attention_workload as attention_workload,
        layer_workload as layer_workload,
        module_workload as module_workload,
    )

__all__, __getattr__, __dir__ = lazy_exports(__name__)
