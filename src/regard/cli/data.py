"""`regard data`: what is in a file of pairs?"""

from __future__ import annotations

import json
from typing import Annotated

import typer

from regard.cli.options import Header, SourceColumn, TargetColumn
from regard.core.registry import look_up


def run(
    action: Annotated[str, typer.Argument(metavar="ACTION", help="What to do: describe.")],
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="A file of pairs, gzipped or not; or two parallel files as FIRST,SECOND.",
        ),
    ],
    *,
    format: Annotated[  # noqa: A002  (the word users type)
        str | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="tsv, csv, jsonl, dictionary or lines. By the file's extension unless given.",
        ),
    ] = None,
    source_column: SourceColumn = "0",
    target_column: TargetColumn = "1",
    header: Header = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Describe a file of pairs: rows, lengths, vocabulary, repetitions, bad rows, histograms.

    Rows that cannot be used are counted and listed with line and reason; they do not stop the reading.
    """
    from regard.data.readers.describe import describe_pairs
    from regard.data.readers.pairs import PairSource

    describe = look_up("action", action, {"describe": describe_pairs})
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
