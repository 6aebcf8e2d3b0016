"""What is said of a claim wherever it is shown: its verdict as a sign with words, counts, the command.

A verdict is as expected if a statement that is marked as wrong fails and any other holds, be it under a
condition.
"""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from regard.core.claim_record import ClaimRecord, Value
from regard.core.setting_value import setting_value
from regard.views.numbers import spaced

NOT_RUN, FAILED = "not run", "failed to run"
SIGNS: Mapping[str, str] = MappingProxyType(
    {"holds": "✓", "holds if": "◐", "fails": "✗", NOT_RUN: "○", FAILED: "!"}
)
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def verdict_of(record: ClaimRecord) -> str:
    """The verdict, or why there is none."""
    if record.finding is None:
        return FAILED if record.trouble else NOT_RUN
    return record.finding.verdict


def as_expected(record: ClaimRecord) -> bool:
    """Whether it came out as it should; one that was not run says nothing against it.

    One that failed to run did not.
    """
    if record.finding is None:
        return not record.trouble
    return (record.finding.verdict == "fails") == record.marked_wrong


def surprises(records: Sequence[ClaimRecord]) -> list[ClaimRecord]:
    """Those whose verdict is not as expected."""
    return [record for record in records if not as_expected(record)]


def summary_line(records: Sequence[ClaimRecord]) -> str:
    """How many came out how, in one line."""
    counts = Counter(verdict_of(record) for record in records)
    wrong = sum(record.marked_wrong and verdict_of(record) == "fails" for record in records)
    parts = [
        f"{counts['holds']} hold",
        f"{counts['holds if']} hold under a condition",
        f"{counts['fails']} fail, {wrong} of them known to be wrong",
    ]
    parts += [f"{counts[name]} {name}" for name in (NOT_RUN, FAILED) if counts[name]]
    found = surprises(records)
    told = ", ".join(record.name for record in found)
    ending = f" NOT AS EXPECTED: {told}." if found else " All verdicts are as expected."
    if counts[NOT_RUN] == len(records):
        ending = " Nothing was decided."
    one = "statement" if len(records) == 1 else "statements"
    return f"{len(records)} {one}: {'; '.join(parts)}.{ending}"


def why_undecided(record: ClaimRecord) -> str:
    """Of a claim without a finding: what it waits for, or how it failed to run."""
    return f"{verdict_of(record)}: {record.trouble or record.waits}"


def rerun_command(record: ClaimRecord) -> str:
    """What to type to decide it again with the same settings."""
    words = ["regard", "claims", "show", record.name]
    for name, value in record.settings.items():
        words += ["--set", f"{name}={_spelled(value)}"]
    return shlex.join(words)


def value_text(value: Value) -> str:
    """A figure behind a verdict as a reader likes it.

    >>> [value_text(value) for value in (True, 18914304, 0.125, 1.5e-16, "7 × 5")]
    ['yes', '18\\u202f914\\u202f304', '0.125', '1.5·10⁻¹⁶', '7 × 5']
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return spaced(value).replace("-", "−")
    if isinstance(value, str):
        return value
    return number_text(value, digits=4)


def number_text(number: float, *, digits: int = 3) -> str:
    """A number to so many digits, with a power of ten where it is very large or very small.

    >>> [number_text(number) for number in (0.0, 1.0, 0.03912, -12.345, 12345.6, 4e-16, 1e6)]
    ['0', '1', '0.0391', '−12.3', '12346', '4·10⁻¹⁶', '10⁶']
    """
    if number == 0:
        return "0"
    if not math.isfinite(number):
        return {"nan": "none", "inf": "∞", "-inf": "−∞"}[str(number)]
    if 1e-3 <= abs(number) < 1e5:
        # All digits before the point: 12345 is not 12300.
        long = abs(number) >= 10.0**digits
        return (f"{number:.0f}" if long else f"{number:.{digits}g}").replace("-", "−")
    mantissa, _, power = f"{number:.{digits - 1}e}".partition("e")
    mantissa = mantissa.rstrip("0").rstrip(".").replace("-", "−")
    raised = f"10{str(int(power)).translate(_SUPERSCRIPTS)}"
    return raised if mantissa == "1" else f"{mantissa}·{raised}"


def tick_text(tick: float) -> str:
    """A round number beside an axis, with all its digits."""
    return number_text(tick, digits=6)


def _spelled(value: Value) -> str:
    """As `--set` reads it: a text that would be read as something else is quoted."""
    text = str(value)
    return repr(value) if isinstance(value, str) and setting_value(text) != value else text
