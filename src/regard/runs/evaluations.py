"""A run's scores on the part held out for development, and what had been spent by each of them.

`metrics.jsonl` holds the scores, and the tokens and operations in the row of the same step before them;
the clock stands in `timing.jsonl` alone. Here they are put together, for a curve against any budget.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from regard.core.errors import RegardError
from regard.runs.run_folder import RunFolder


class Evaluated(NamedTuple):
    """One evaluation; what it took itself is not counted yet. A score may be None: it was no number."""

    step: int
    tokens: int
    operations: int
    seconds: float
    scores: dict[str, float | None]


def evaluations(folder: RunFolder) -> list[Evaluated]:
    """All of a run, finished or not, in their order."""
    rows: list[dict[str, Any]] = folder.read_rows(folder.metrics)
    timing: list[dict[str, Any]] = folder.read_rows(folder.timing)
    try:
        seconds = {row["step"]: row["seconds"] for row in timing}
        counts = {row["step"]: row for row in rows if "tokens" in row}
        return [
            Evaluated(
                step=row["step"],
                tokens=counts[row["step"]]["tokens"],
                operations=counts[row["step"]]["operations"],
                seconds=seconds[row["step"]],
                scores=row["dev"],
            )
            for row in rows
            if "dev" in row
        ]
    except (KeyError, TypeError) as error:
        raise RegardError(
            f"'{folder.metrics}' and '{folder.timing}' do not fit, or rows are missing ({error}). "
            "Restore them, or train the run anew."
        ) from error
