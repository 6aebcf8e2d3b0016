"""From which length on one kind of work is quicker than another."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

# Half an octave apart but for the last: in the logarithms times are nearly straight in between.
LENGTHS = (32, 45, 64, 91, 128, 181, 256, 362, 512, 724, 1024, 1448, 2048, 2896, 4096, 8192)


def crossover(
    slower_later: Callable[[int], float],
    quicker_later: Callable[[int], float],
    lengths: Sequence[int] = LENGTHS,
) -> int | None:
    """The length from which the second is quicker for good; None if it is not within these lengths.

    If it is the quicker already at the shortest, that one is the answer.
    """
    ratios = [slower_later(length) / quicker_later(length) for length in lengths]
    if ratios[-1] < 1:
        return None
    last = max((place for place, ratio in enumerate(ratios) if ratio < 1), default=None)
    if last is None:
        return lengths[0]
    low, high = lengths[last], lengths[last + 1]
    share = math.log(1 / ratios[last]) / math.log(ratios[last + 1] / ratios[last])
    return round(low * (high / low) ** share)
