"""`regard predict`: what a trained model writes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from regard.core.errors import RegardError

MAX_LINE_BYTES = 100_000


def run(
    run_folder: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a trained run.")],
    texts: Annotated[list[str] | None, typer.Argument(metavar="[TEXT]...")] = None,
    *,
    file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Texts, one a line; gzip too; - for input.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write there instead of to the terminal.")
    ] = None,
    score: Annotated[
        str | None, typer.Option(metavar="PAIRS", help="Score the model on this file of pairs.")
    ] = None,
    attention: Annotated[
        Path | None,
        typer.Option(metavar="PICTURE", help="Draw what was read for one TEXT: .svg or .png."),
    ] = None,
    beam: Annotated[int | None, typer.Option(help="Hypotheses kept; 1 is greedy.")] = None,
    length_penalty: Annotated[
        float | None, typer.Option(help="Above 1 favours longer outputs.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, a line an output.")] = False,
) -> None:
    """Predict for texts, for the lines of a file, or score a file of pairs. Order is kept."""
    from regard.core.whole_file import require_writable
    from regard.runs.trained import load

    asked = [texts is not None and bool(texts), file is not None, score is not None]
    if sum(asked) != 1:
        raise RegardError(
            "Give one of three: texts, --file with a text a line, or --score with pairs. "
            f'For example: regard predict {run_folder} "some text"'
        )
    if attention is not None and (texts is None or len(texts) != 1):
        raise RegardError(f"--attention {attention} draws one input: give exactly one text.")
    for target in (out, attention):
        if target is not None:
            require_writable(target)
    trained = load(run_folder)
    if score is not None:
        _print_scores(
            trained.score(score, beam_size=beam, length_penalty=length_penalty), as_json=as_json
        )
        return
    lines = iter(texts) if texts else _lines_of(file)
    outputs = trained.predict_each(lines, beam_size=beam, length_penalty=length_penalty)
    written = (_as_json(output) if as_json else output for output in outputs)
    if out is None:
        for output in written:
            typer.echo(output)
    else:
        _write_lines(out, written)
    if attention is not None and texts:
        from regard.views.alignment import draw_alignment

        draw_alignment(trained.alignment(texts[0], beam_size=beam), path=attention)
        typer.echo(f"wrote {attention}", err=True)


def _lines_of(file: Path | None) -> Iterator[str]:
    """The lines of a file, or of standard input, one at a time."""
    if file is None or str(file) == "-":
        for line in sys.stdin:
            yield line.rstrip("\r\n")
        return
    from regard.data.bad_rows import BadRows
    from regard.data.text_lines import TextFile

    text_file = TextFile(path=file, max_line_bytes=MAX_LINE_BYTES)
    for line in text_file.lines(bad=BadRows(skip=False)):
        yield line.text or ""


def _write_lines(path: Path, lines: Iterator[str]) -> None:
    """All lines, or none: a file appears once it is whole."""
    from regard.core.whole_file import writing_whole

    with writing_whole(path) as target:
        for line in lines:
            target.write(f"{line}\n".encode())


def _as_json(output: str) -> str:
    import json

    return json.dumps({"output": output}, ensure_ascii=False)


def _print_scores(scores: dict[str, float], *, as_json: bool) -> None:
    import json

    if as_json:
        typer.echo(json.dumps(scores))
        return
    for name, value in scores.items():
        typer.echo(f"{name:>9}  {value:.4f}")
