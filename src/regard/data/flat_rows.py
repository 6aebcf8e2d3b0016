"""Rows of different lengths laid end to end in one flat array: where each place lies."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Int64


class FlatPlaces(NamedTuple):
    """Every place's row and how far into its row it is; `offsets[i]` is where row i begins."""

    row: Int64[np.ndarray, " places"]
    within: Int64[np.ndarray, " places"]
    offsets: Int64[np.ndarray, " rows_and_one"]


def flat_places(lengths: Int64[np.ndarray, " rows"]) -> FlatPlaces:
    """The places of rows of these lengths.

    >>> flat_places(np.array([2, 0, 1])).within.tolist()
    [0, 1, 0]
    """
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    row = np.repeat(np.arange(len(lengths)), lengths)
    return FlatPlaces(row, np.arange(offsets[-1]) - offsets[row], offsets)
