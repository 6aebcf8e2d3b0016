"""What is done with a row that cannot be used: an error at once, or a list at the end. Never silence."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.errors import RegardError

KEPT_IN_FULL = 1000


class BadRow(NamedTuple):
    """A row that cannot be used. `reason` reads "what is wrong: the particulars"."""

    path: Path
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.reason}"


class BadRows:
    """Takes in bad rows. Without `skip` the first one is an error; with it, all are counted.

    The first 1000 are kept with their place and reason, so that a hopeless file does not fill the memory.
    """

    def __init__(self, *, skip: bool = False) -> None:
        self.skip = skip
        self.rows: list[BadRow] = []
        self.by_reason: Counter[str] = Counter()

    @property
    def count(self) -> int:
        """How many rows were bad, those not kept in full included."""
        return self.by_reason.total()

    def report(self, *, path: Path, line: int, reason: str, hint: str = "") -> None:
        """Take in one bad row; `hint` is added to the error only."""
        row = BadRow(path, line, reason)
        if not self.skip:
            way_out = hint or "Fix the line"
            raise RegardError(f"{row}. {way_out}, or leave such rows out with --skip-bad-rows.")
        self.by_reason[reason.partition(":")[0]] += 1
        if len(self.rows) < KEPT_IN_FULL:
            self.rows.append(row)

    def summary(self, *, examples: int = 5) -> str:
        """How many rows were bad, for which reasons, and the first few of them."""
        if not self.count:
            return "no bad rows"
        lines = [f"{self.count:,} bad {'row' if self.count == 1 else 'rows'} left out"]
        ordered = sorted(self.by_reason.items(), key=lambda item: (-item[1], item[0]))
        lines += [f"  {count:,} × {reason}" for reason, count in ordered]
        lines += [f"  {row}" for row in self.rows[:examples]]
        if self.count > examples:
            lines.append(f"  … and {self.count - examples:,} more")
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """The counts by reason and the rows kept in full."""
        return {
            "count": self.count,
            "by_reason": dict(sorted(self.by_reason.items())),
            "rows": [
                {"path": str(row.path), "line": row.line, "reason": row.reason} for row in self.rows
            ],
        }
