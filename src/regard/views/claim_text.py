"""Claims in a terminal: a table of all by topic, or one with everything that is known of it.

Records may come from a file, so control characters, which would command the terminal, are left out.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from regard.core.claim_record import ClaimRecord
from regard.views.claim_words import (
    SIGNS,
    as_expected,
    rerun_command,
    summary_line,
    value_text,
    verdict_of,
    why_undecided,
)
from regard.views.numbers import seconds_text

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
