"""Claims in a terminal: a table of all by topic, or one with everything that is known of it.

Records may come from a file, so control characters, which would command the terminal, are left out.
"""

from __future__ import annotations

import math
import shlex
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from regard.core.records.claim import ClaimRecord, Value
from regard.core.registry import setting_value
from regard.views.text.numbers import seconds_text, spaced

# What is said of a claim wherever it is shown: its verdict as a sign with words, counts, the
# command.
#
# A verdict is as expected if a statement that is marked as wrong fails and any other holds, be it
# under a condition.


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


LEAST_WIDTH = 40
# Narrower than this, a statement goes below the name instead of beside it.
SIDE_BY_SIDE = 100
_CONTROLS = dict.fromkeys(code for code in (*range(32), *range(127, 160)) if code != ord("\n"))


def claims_table(records: Sequence[ClaimRecord], *, width: int = 100) -> str:
    """A block a topic, a row a claim: verdict, name, seconds, statement; the summary at the end."""
    names = max((len(record.name) for record in records), default=0)
    verdicts = max((len(verdict_of(record)) for record in records), default=0)
    lines: list[str] = []
    topic = None
    for record in records:
        if record.topic != topic:
            lines += ["", record.topic] if lines else [record.topic]
            topic = record.topic
        lines += _row(record, names=names, verdicts=verdicts, width=max(width, LEAST_WIDTH))
    seconds = sum(record.seconds for record in records)
    return _harmless([*lines, "", f"{summary_line(records)} {seconds:.1f} s in all."])


def claim_text(record: ClaimRecord, *, width: int = 100) -> str:
    """The statement, the verdict with its reasons, figures, code, and the command that repeats it."""
    wide = max(width, LEAST_WIDTH)
    parts = [textwrap.fill(record.statement, wide), f"  {record.formula}", "", _verdict(record)]
    finding = record.finding
    if finding is None:
        parts += textwrap.wrap(why_undecided(record), wide, subsequent_indent="  ")
    else:
        parts += _filled("because", finding.because, wide)
        if finding.verdict == "holds if":
            parts += _filled("if", finding.boundary, wide)
        if finding.verdict == "fails":
            parts += _filled("counter-example", finding.counter_example, wide)
        if finding.figures:
            names = max(len(name) for name in finding.figures)
            parts += ["", "figures"]
            parts += [
                f"  {name:<{names}}  {value_text(value)}" for name, value in finding.figures.items()
            ]
    settings = ", ".join(f"{name}={value}" for name, value in record.settings.items())
    parts += ["", "decided by", textwrap.indent(record.code.rstrip(), "  "), ""]
    parts += _filled("settings", settings or "none", wide)
    parts += _filled("source", record.source, wide)
    return _harmless([*parts, f"again: {rerun_command(record)}"])


def _verdict(record: ClaimRecord) -> str:
    verdict = verdict_of(record)
    told = [f"{SIGNS[verdict]} {verdict}", record.name, record.topic, record.proof]
    if record.finding is not None:
        told.append(seconds_text(record.seconds))
    # Whether that was expected is not said: settings of one's own may turn a verdict rightly.
    return "  ·  ".join([*told, "known to be wrong"] if record.marked_wrong else told)


def _flags(record: ClaimRecord) -> list[str]:
    found = ["known to be wrong"] if record.marked_wrong else []
    return found if as_expected(record) else [*found, "NOT AS EXPECTED"]


def _row(record: ClaimRecord, *, names: int, verdicts: int, width: int) -> list[str]:
    verdict = verdict_of(record)
    took = "" if record.finding is None else f"{record.seconds:.1f} s"
    left = f"  {SIGNS[verdict]} {verdict:<{verdicts}}  {record.name:<{names}}  {took:>7}  "
    told = " ".join(
        [*(f"[{flag}]" for flag in _flags(record)), record.statement]
        + ([f"({why_undecided(record)})"] if record.finding is None else [])
    )
    if width < max(SIDE_BY_SIDE, len(left) + LEAST_WIDTH):
        below = textwrap.wrap(told, width - 6)
        return [left.rstrip(), *(f"      {line}" for line in below)]
    first, *rest = textwrap.wrap(told, width - len(left)) or [""]
    return [left + first, *(" " * len(left) + line for line in rest)]


def _filled(name: str, text: str, width: int) -> list[str]:
    return textwrap.wrap(f"{name}: {text}", width, subsequent_indent="  ")


def _harmless(lines: Sequence[str]) -> str:
    return "\n".join(lines).translate(_CONTROLS)
