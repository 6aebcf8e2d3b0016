"""What the checks found: one record a check, and the table that a reader sees."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from regard.conformance.verdict import Worst
from regard.core.records import Outcome

SHOWN: dict[Outcome, str] = {
    "passed": "passed",
    "failed": "FAILED",
    "not_applicable": "does not apply",
}


@dataclass(frozen=True, kw_only=True)
class Record:
    """What one check said of one mechanism; `again` is what to type to see it once more."""

    mechanism: str
    check: str
    outcome: Outcome
    detail: str
    worst: Worst | None
    seed: int
    again: str

    def message(self) -> str:
        """A failure in full."""
        said = f"{self.mechanism} fails {self.check} (seed {self.seed}): {self.detail}"
        return f"{said}\n  {self.again}"


@dataclass(frozen=True)
class Report:
    """The records of one or more mechanisms, in the order they were made."""

    records: tuple[Record, ...]

    def __add__(self, other: Report) -> Report:
        return Report(self.records + other.records)

    @property
    def failures(self) -> tuple[Record, ...]:
        """The records of failed checks."""
        return tuple(record for record in self.records if record.outcome == "failed")

    @property
    def passed(self) -> bool:
        """Whether nothing failed."""
        return not self.failures

    def as_records(self) -> list[dict[str, Any]]:
        """Plain values, for JSON."""
        return [asdict(record) for record in self.records]

    def as_json(self) -> str:
        """The records as a JSON list."""
        return json.dumps(self.as_records(), indent=2, ensure_ascii=False)

    def as_text(self) -> str:
        """A block a mechanism; passed checks are listed only where one mechanism was checked."""
        names = list(dict.fromkeys(record.mechanism for record in self.records))
        blocks = [self._block(name, list_passed=len(names) == 1) for name in names]
        if len(names) > 1:
            whole = Counter(record.outcome for record in self.records)
            blocks.append(f"{len(names)} mechanisms: {_tally(whole)}")
        return "\n\n".join(blocks)

    def _block(self, name: str, *, list_passed: bool) -> str:
        mine = [record for record in self.records if record.mechanism == name]
        lines = [f"{name}: {_tally(Counter(record.outcome for record in mine))}"]
        shown = [record for record in mine if list_passed or record.outcome != "passed"]
        width = max((len(record.check) for record in shown), default=0)
        for record in shown:
            line = f"  {SHOWN[record.outcome]:<14}  {record.check:<{width}}  {record.detail}"
            lines.append(line.rstrip())
            if record.outcome == "failed":
                lines.append(f"{'':<18}{record.again}")
        return "\n".join(lines)


def _tally(counts: Counter[Outcome]) -> str:
    return (
        f"{counts['passed']} passed, {counts['failed']} failed, "
        f"{counts['not_applicable']} do not apply"
    )
