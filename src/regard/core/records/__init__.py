"""Records: results as plain values that are written to JSON and drawn without a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.core.exports import lazy_exports

if TYPE_CHECKING:
    from regard.core.records.cost import (
        CostReport as CostReport,
        CostRow as CostRow,
        ModuleReport as ModuleReport,
    )
    from regard.core.records.overview import (
        CheckRecord as CheckRecord,
        CostRecord as CostRecord,
        MechanismRecord as MechanismRecord,
        Overview as Overview,
    )

__all__, __getattr__, __dir__ = lazy_exports(__name__)
