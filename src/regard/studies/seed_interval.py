"""The 95 % t interval of a mean over seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from regard.studies.detectable import critical_t
from regard.studies.paired_t import ROUNDING
from regard.studies.verdicts import Interval


def seed_interval(values: Sequence[float]) -> Interval | None:
    """Of the mean over all seeds there could be; None where one seed, or all alike, show no spread.

    >>> seed_interval([2.0]) is None
    True
    """
    found = np.array(values)
    if len(found) == 1 or np.ptp(found) <= ROUNDING * np.abs(found).max():
        return None
    error = float(found.std(ddof=1)) / math.sqrt(len(found))
    reach = critical_t(seeds=len(found), pairs=1) * error
    mean = float(found.mean())
    return Interval(low=mean - reach, high=mean + reach)
