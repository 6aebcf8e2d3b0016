"""What the arms of a study read while each wrote its output for one and the same source.

Sources are of middling length, so that a picture has something to show and fits beside others. The first is
the same whatever the seed; the others are drawn by it. Weights are rounded, and where a model has more than
a few maps and heads, the heads of each map are averaged and its name says so: records stay small.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from regard.core.alignment_record import AlignmentRecord, Map
from regard.core.study_record import SharedPicture
from regard.runs.trained import TrainedRun

COUNT = 4
MOST_HEADS = 4
"""Over all maps of a model; beyond, the heads of each map are averaged."""
DECIMALS = 4


def shared_pictures(
    runs: Mapping[str, TrainedRun], sources: Sequence[str], *, count: int = COUNT, seed: int = 0
) -> tuple[SharedPicture, ...]:
    """Pictures of some of the sources, by arm; an arm without attention over its source is left out."""
    reading = {arm: run for arm, run in runs.items() if run.reads_source}
    if not reading:
        return ()
    return tuple(
        SharedPicture(
            source=source,
            alignments={arm: small(run.alignment(source)) for arm, run in reading.items()},
        )
        for source in middling(sources, count=count, seed=seed)
    )


def middling(sources: Sequence[str], *, count: int, seed: int) -> tuple[str, ...]:
    """Different sources from the middle half of all lengths; the first has the median length.

    >>> middling(["a", "cat", "cattle", "caterpillars"], count=1, seed=5)
    ('cat',)
    """
    different = list(dict.fromkeys(source for source in sources if source.strip()))
    if not different:
        return ()
    lengths = np.array([len(source) for source in different])
    low, median, high = np.quantile(lengths, [0.25, 0.5, 0.75], method="lower")
    first = different[int(np.argmax(lengths == median))]
    others = [
        source
        for source, length in zip(different, lengths, strict=True)
        if low <= length <= high and source != first
    ]
    drawn = random.Random(seed).sample(others, min(count - 1, len(others)))
    return (first, *drawn)


def small(alignment: AlignmentRecord) -> AlignmentRecord:
    """The alignment with rounded weights, and with its heads averaged if there are too many."""
    heads = sum(map(len, alignment.maps.values()))
    maps = alignment.maps if heads <= MOST_HEADS else dict(map(_averaged, alignment.maps.items()))
    return replace(alignment, maps={name: _rounded(values) for name, values in maps.items()})


def _averaged(named: tuple[str, Map]) -> tuple[str, Map]:
    name, heads = named
    if len(heads) == 1:
        return name, heads
    mean = np.mean(heads, axis=0).tolist()
    return f"{name}, mean of {len(heads)} heads", (tuple(map(tuple, mean)),)


def _rounded(heads: Map) -> Map:
    return tuple(
        tuple(tuple(round(weight, DECIMALS) for weight in row) for row in head) for head in heads
    )
