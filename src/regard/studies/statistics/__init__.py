"""Statistics of a study: paired t tests over seeds, bootstrap over items, multiple testing, power."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.core.exports import lazy_exports

if TYPE_CHECKING:
    from regard.studies.statistics.bootstrap import (
        ItemComparison as ItemComparison,
        compare_on_items as compare_on_items,
    )
    from regard.studies.statistics.paired import (
        Interval as Interval,
        SeedComparison as SeedComparison,
        compare_over_seeds as compare_over_seeds,
        holm_adjusted as holm_adjusted,
        pair_tests as pair_tests,
        pairing as pairing,
        seed_interval as seed_interval,
        smallest_detectable_difference as smallest_detectable_difference,
    )

__all__, __getattr__, __dir__ = lazy_exports(__name__)
