"""`regard data describe`: descriptive statistics of a file of pairs."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from regard.cli.options import Header, SourceColumn, TargetColumn
from regard.core.registry import lookup


def run(
    action: Annotated[str, typer.Argument(metavar="ACTION", help="describe")],
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="A file of pairs, gzipped or not; or two parallel files as FIRST,SECOND.",
        ),
    ],
    *,
    format: Annotated[  # noqa: A002  (the flag's name)
        str | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="tsv, csv, jsonl, dictionary or lines. Default: by the file's extension.",
        ),
    ] = None,
    source_column: SourceColumn = "0",
    target_column: TargetColumn = "1",
    header: Header = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Descriptive statistics of a file of pairs: rows, lengths, vocabulary, duplicates, histograms.

    Row errors are counted and listed with line and reason; they do not stop the command.
    """
    from regard.data.readers.describe import describe_pairs
    from regard.data.readers.pairs import PairSource

    describe = lookup("action", action, {"describe": describe_pairs})
    source = PairSource.from_text(
        file,
        format=format,
        source_column=source_column or "0",
        target_column=target_column or "1",
        header=header,
    )
    description = describe(source)
    if as_json:
        print(json.dumps(description.as_json(), indent=2, ensure_ascii=False))
    else:
        print(description.as_text())
