"""Claims as text for a terminal: a table by topic, or one claim in detail.

A verdict is expected if a claim that is known to be false fails and any other holds. Records may come
from a file, so control characters, which a terminal would interpret, are escaped.
"""

from __future__ import annotations

import shlex
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from regard.core.errors import printable_lines
from regard.core.formatting import counted, duration_text, integer_text, number_text
from regard.core.records.claim import FAILED, NOT_RUN, ClaimRecord, Value
from regard.core.registry import parse_value

ICONS: Mapping[str, str] = MappingProxyType(
    {"holds": "✓", "holds if": "◐", "fails": "✗", NOT_RUN: "○", FAILED: "!"}
)


def unexpected(records: Sequence[ClaimRecord]) -> list[ClaimRecord]:
    """Claims whose verdict is not as expected."""
    return [record for record in records if not record.is_expected]


def summary_line(records: Sequence[ClaimRecord]) -> str:
    """Number of claims per verdict, in one line."""
    counts = Counter(record.verdict for record in records)
    false = sum(record.known_false and record.verdict == "fails" for record in records)
    parts = [
        f"{counts['holds']} hold",
        f"{counts['holds if']} hold under a condition",
        f"{counts['fails']} fail, {false} of them known to be false",
    ]
    parts += [f"{counts[name]} {name}" for name in (NOT_RUN, FAILED) if counts[name]]
    found = unexpected(records)
    names = ", ".join(record.name for record in found)
    ending = f" NOT AS EXPECTED: {names}." if found else " All verdicts are as expected."
    if counts[NOT_RUN] == len(records):
        ending = " None was run."
    return f"{counted(len(records), 'claim')}: {'; '.join(parts)}.{ending}"


def undecided_reason(record: ClaimRecord) -> str:
    """Why a claim has no finding: the reason it was skipped, or the error."""
    return f"{record.verdict}: {record.error or record.skip_reason}"


def command_parts(record: ClaimRecord) -> list[str]:
    """The command, split where a line may break: between settings."""
    settings = [f"{name}={_setting_text(value)}" for name, value in record.settings.items()]
    first = shlex.join(["regard", "claims", "show", record.name])
    return [first, *(shlex.join(["--set", setting]) for setting in settings)]


def value_text(value: Value) -> str:
    """A value of a finding as text.

    >>> [value_text(value) for value in (True, 18914304, 0.125, 1.5e-16, "7 × 5")]
    ['yes', '18,914,304', '0.125', '1.5·10⁻¹⁶', '7 × 5']
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return integer_text(value)
    return value if isinstance(value, str) else number_text(value, digits=4)


def _setting_text(value: Value) -> str:
    """A value as `--set` parses it; strings that would parse as another type are quoted."""
    text = str(value)
    return repr(value) if isinstance(value, str) and parse_value(text) != value else text


MIN_WIDTH = 40
# In a narrower terminal the statement is below the name instead of beside it.
TWO_COLUMN_WIDTH = 100


def claims_table(records: Sequence[ClaimRecord], *, width: int = 100) -> str:
    """One block per topic, one row per claim: verdict, name, seconds, statement; then a summary."""
    names = max((len(record.name) for record in records), default=0)
    verdicts = max((len(record.verdict) for record in records), default=0)
    lines: list[str] = []
    topic = None
    for record in records:
        if record.topic != topic:
            lines += ["", record.topic] if lines else [record.topic]
            topic = record.topic
        lines += _row(record, names=names, verdicts=verdicts, width=max(width, MIN_WIDTH))
    total = duration_text(sum(record.seconds for record in records))
    lines += ["", f"{summary_line(records)} {total} in total."]
    return printable_lines("\n".join(lines))


def claim_text(record: ClaimRecord, *, width: int = 100) -> str:
    """Statement, verdict, reason, values, code, settings and the command that repeats it."""
    wide = max(width, MIN_WIDTH)
    parts = [textwrap.fill(record.statement, wide), f"  {record.formula}", "", _verdict(record)]
    finding = record.finding
    if finding is None:
        parts += textwrap.wrap(undecided_reason(record), wide, subsequent_indent="  ")
    else:
        parts += _wrapped("because", finding.reason, wide)
        if finding.verdict == "holds if":
            parts += _wrapped("if", finding.condition, wide)
        if finding.verdict == "fails":
            parts += _wrapped("counter-example", finding.counter_example, wide)
        if finding.values:
            names = max(len(name) for name in finding.values)
            parts += ["", "values"]
            parts += [
                f"  {name:<{names}}  {value_text(value)}" for name, value in finding.values.items()
            ]
    settings = ", ".join(f"{name}={value}" for name, value in record.settings.items())
    parts += ["", "code", textwrap.indent(record.code.rstrip(), "  "), ""]
    parts += _wrapped("settings", settings or "none", wide)
    parts += _wrapped("source", record.source, wide)
    return printable_lines("\n".join([*parts, f"rerun: {' '.join(command_parts(record))}"]))


def _verdict(record: ClaimRecord) -> str:
    verdict = record.verdict
    parts = [f"{ICONS[verdict]} {verdict}", record.name, record.topic, record.proof]
    if record.finding is not None:
        parts.append(duration_text(record.seconds))
    # Without "NOT AS EXPECTED": other settings may change the verdict.
    return "  ·  ".join([*parts, "known to be false"] if record.known_false else parts)


def _row(record: ClaimRecord, *, names: int, verdicts: int, width: int) -> list[str]:
    verdict = record.verdict
    took = "" if record.finding is None else duration_text(record.seconds)
    left = f"  {ICONS[verdict]} {verdict:<{verdicts}}  {record.name:<{names}}  {took:>8}  "
    text = "[known to be false] " if record.known_false else ""
    text += record.statement if record.is_expected else f"[NOT AS EXPECTED] {record.statement}"
    if record.finding is None:
        text += f" ({undecided_reason(record)})"
    if width < max(TWO_COLUMN_WIDTH, len(left) + MIN_WIDTH):
        below = textwrap.wrap(text, width - 6)
        return [left.rstrip(), *(f"      {line}" for line in below)]
    first, *rest = textwrap.wrap(text, width - len(left)) or [""]
    return [left + first, *(" " * len(left) + line for line in rest)]


def _wrapped(name: str, text: str, width: int) -> list[str]:
    return textwrap.wrap(f"{name}: {text}", width, subsequent_indent="  ")
