"""The options that say where in a file of pairs the two texts stand, the same for every verb."""

from __future__ import annotations

from typing import Annotated

import typer

SourceColumn = Annotated[
    str | None,
    typer.Option(
        "--source-column",
        metavar="COLUMN",
        help="Of the source: a number from 0, a header's name, a JSON key.",
    ),
]
TargetColumn = Annotated[
    str | None,
    typer.Option("--target-column", metavar="COLUMN", help="Of the target, in the same way."),
]
Header = Annotated[
    bool, typer.Option("--header", help="The first row names the columns and is no pair.")
]
