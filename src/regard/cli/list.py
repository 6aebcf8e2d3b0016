"""`regard list`: the table of mechanisms, read without importing any of them."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from regard.mechanisms import MECHANISMS


def run(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Show every mechanism, family by family: its name, what it computes, and its source."""
    print(as_records() if as_json else as_text())


def as_text() -> str:
    """One block a family, in the order of the table; one line a mechanism."""
    width = max((len(name) for name in MECHANISMS), default=0)
    blocks: dict[str, list[str]] = {}
    for name, entry in MECHANISMS.items():
        line = f"  {name:<{width}}  {entry.summary}  [{entry.reference}]"
        blocks.setdefault(entry.family, [entry.family]).append(line)
    return "\n\n".join("\n".join(lines) for lines in blocks.values())


def as_records() -> str:
    """A JSON list with one record a mechanism, in the order of the table."""
    records = [
        {
            "name": name,
            "family": entry.family,
            "summary": entry.summary,
            "reference": entry.reference,
            "module": entry.module,
            "class_name": entry.class_name,
        }
        for name, entry in MECHANISMS.items()
    ]
    return json.dumps(records, indent=2, ensure_ascii=False)
