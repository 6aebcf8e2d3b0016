"""`regard list`: all mechanisms, without importing torch."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from regard.mechanisms import MECHANISMS


def run(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """List all mechanisms by family: name, summary, reference."""
    print(as_records() if as_json else as_text())


def as_text() -> str:
    """One block per family, one line per mechanism."""
    width = max((len(name) for name in MECHANISMS), default=0)
    blocks: dict[str, list[str]] = {}
    for name, entry in MECHANISMS.items():
        line = f"  {name:<{width}}  {entry.summary}  [{entry.reference}]"
        blocks.setdefault(entry.family, [entry.family]).append(line)
    return "\n\n".join("\n".join(lines) for lines in blocks.values())


def as_records() -> str:
    """A JSON list with one record per mechanism."""
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
