"""`regard predict`: what a trained model writes."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.options import (
    Header,
    Plugins,
    Seed,
    SourceColumn,
    TargetColumn,
    plug_in_all,
    require_decoded,
)
from regard.cli.train import details_lines
from regard.core.errors import RegardError

if TYPE_CHECKING:
    from regard.runs.load import Assessment, Example, TrainedRun


# Of --file, where the task has no limit of its own.
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
        str | None,
        typer.Option(
            metavar="PAIRS",
            help="Score the model on this file of pairs; of a task on drawn strings, on lengths: 40-60.",
        ),
    ] = None,
    format: Annotated[  # noqa: A002 — the word users know
        str | None,
        typer.Option(help="Of the pairs: tsv, csv, jsonl, dictionary, lines or labelled."),
    ] = None,
    source_column: SourceColumn = None,
    target_column: TargetColumn = None,
    header: Header = False,
    skip_bad_rows: Annotated[
        bool, typer.Option("--skip-bad-rows", help="Leave bad pairs out and list them.")
    ] = False,
    max_line_bytes: Annotated[
        int | None,
        typer.Option(help="How long a line of a file may be; else as the run was told."),
    ] = None,
    examples: Annotated[
        int, typer.Option(help="With --score: show so many texts, drawn by --seed.")
    ] = 0,
    seed: Seed = 0,
    attention: Annotated[
        Path | None,
        typer.Option(
            metavar="PICTURE",
            help="Draw what was read for one TEXT: .svg, .png; a label's .html too.",
        ),
    ] = None,
    beam: Annotated[int | None, typer.Option(help="Hypotheses kept; 1 is greedy.")] = None,
    length_penalty: Annotated[
        float | None, typer.Option(help="Above 1 favours longer outputs.")
    ] = None,
    tokens: Annotated[
        int | None, typer.Option(help="Of a language model: write so many tokens at most.")
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(help="Of a language model: 0 is the likeliest, above 1 bolder.")
    ] = None,
    top_k: Annotated[int | None, typer.Option(help="Draw from the k likeliest tokens.")] = None,
    top_p: Annotated[
        float | None, typer.Option(help="Draw from the fewest tokens with this probability.")
    ] = None,
    plugin: Plugins = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, a line an output.")] = False,
) -> None:
    """Predict for texts, for the lines of a file, or score a file of pairs. Order is kept."""
    from regard.core.atomic_write import require_writable
    from regard.data.readers.text_file import BadRows
    from regard.explain.text_classifier import CutTexts
    from regard.runs.load import load

    asked = [texts is not None and bool(texts), file is not None, score is not None]
    if sum(asked) != 1:
        raise RegardError(
            "Give one of three: texts, --file with a text a line, or --score with pairs. "
            f'For example: regard predict {run_folder} "some text"'
        )
    about_pairs: dict[str, Any] = {
        "format": format,
        "source_column": source_column,
        "target_column": target_column,
        "header": header or None,
    }
    about_pairs = {name: value for name, value in about_pairs.items() if value is not None}
    if score is None and (about_pairs or skip_bad_rows):
        raise RegardError(
            "--format, --source-column, --target-column, --header and --skip-bad-rows are about pairs: "
            "give them with --score."
        )
    if max_line_bytes is not None:
        if max_line_bytes < 1 or (file is None and score is None):
            raise RegardError(
                f"--max-line-bytes {max_line_bytes}: it is how long a line may be, 1 or more, with --file "
                "or --score."
            )
        about_pairs["max_line_bytes"] = max_line_bytes
    if examples < 0 or (examples and score is None):
        raise RegardError(
            f"--examples {examples}: it is how many scored texts to show, 0 or more, with --score."
        )
    if attention is not None and (texts is None or len(texts) != 1):
        raise RegardError(f"--attention {attention} draws one input: give exactly one text.")
    for text in texts or []:
        require_decoded(text, what="The text")
    for target in (out, attention):
        if target is not None:
            require_writable(target)
    plug_in_all(plugin)
    trained = load(run_folder)
    longest = max_line_bytes
    if longest is None:
        longest = getattr(trained.spec.task_options, "max_line_bytes", MAX_LINE_BYTES)
    cut = CutTexts(trained)
    answers = trained.answers
    if attention is not None:
        _require_drawable(trained, attention)
    if (beam is not None or length_penalty is not None) and not answers:
        raise RegardError(
            "--beam and --length-penalty are for a model that writes an answer to a text. The run "
            f"'{run_folder}' learned the task '{trained.spec.task}'. Leave them away."
        )
    decoding: dict[str, Any] = {"beam_size": beam, "length_penalty": length_penalty}
    written: Iterator[str]
    drawing: dict[str, Any] = {
        "max_tokens": tokens,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
    }
    drawing = {name: value for name, value in drawing.items() if value is not None}
    if drawing and (score is not None or not trained.goes_on):
        raise RegardError(
            "--tokens, --temperature, --top-k and --top-p are for a language model that goes on with a "
            f"text. The run '{run_folder}' learned the task '{trained.spec.task}'."
        )
    if trained.goes_on and score is None:
        inputs = iter(texts) if texts else _lines_of(file, longest=longest)
        if texts and len(texts) == 1 and out is None and not as_json:
            _stream(texts[0], trained.continued(texts[0], seed=seed, **drawing))
            return
        written = (
            _output_line("".join(trained.continued(text, seed=seed, **drawing)), as_json=as_json)
            for text in inputs
        )
    elif score is not None:
        bad = BadRows(skip=skip_bad_rows)
        assessment = trained.assess(score, bad=bad, **about_pairs, **decoding)
        if bad.count:
            typer.echo(bad.summary(), err=True)
        for note in assessment.notes:
            typer.echo(note, err=True)
        shown = assessment.examples(examples, seed=seed)
        written = _score_lines(assessment, shown, as_json=as_json)
    else:
        inputs = iter(texts) if texts else _lines_of(file, longest=longest)
        outputs = trained.predict_each(cut.watch(inputs), **decoding)
        written = (_output_line(output, as_json=as_json) for output in outputs)
    if attention is not None and texts:
        _draw(trained, texts[0], path=attention, decoding=decoding)
        typer.echo(f"wrote {attention}", err=True)
    if out is None:
        for line in written:
            typer.echo(line)
    else:
        _write_lines(out, written)
    if words := cut.words():
        typer.echo(words, err=True)


def _require_drawable(trained: TrainedRun, path: Path) -> None:
    """Refuse a picture of what has none, and a name that does not say its kind."""
    from regard.explain.text_classifier import makes_trees
    from regard.views.charts.figure_file import SUFFIXES, require_figure_suffix

    if not (trained.answers or trained.labels_texts):
        raise RegardError(
            "--attention is for a model that writes an answer to a text, or says its label. The run "
            f"'{trained.folder.path}' learned the task '{trained.spec.task}'. Leave it away."
        )
    if not trained.labels_texts or makes_trees(trained):
        require_figure_suffix(path)
    elif path.suffix.lower() not in (".html", *SUFFIXES):
        raise RegardError(
            f"'{path}' names no kind of picture that can be drawn. End the name in .html, "
            f"{' or '.join(SUFFIXES)}."
        )


def _draw(trained: TrainedRun, text: str, *, path: Path, decoding: dict[str, Any]) -> None:
    """Who read whom for an answer; how much each word and sentence counted for a label."""
    if trained.answers:
        from regard.views.charts.alignment import draw_alignment

        draw_alignment(trained.alignment(text, **decoding), path=path)
        return
    from regard.explain.text_classifier import document_of, makes_trees, tree_of

    if makes_trees(trained):
        from regard.views.charts.autoencoders import draw_tree

        draw_tree(tree_of(trained, text), path=path)
        return
    record = document_of(trained, text)
    if path.suffix.lower() == ".html":
        from regard.views.pages.document import write_document_page

        write_document_page(record, path=path)
    else:
        from regard.views.charts.document import draw_document

        draw_document(record, path=path)


def _stream(beginning: str, pieces: Iterator[str]) -> None:
    """A text as it is being written."""
    typer.echo(beginning.strip(), nl=False)
    for piece in pieces:
        typer.echo(piece, nl=False)
        sys.stdout.flush()
    typer.echo()


def _lines_of(file: Path | None, *, longest: int) -> Iterator[str]:
    """The lines of a file, at most so many bytes each, or of standard input, one at a time."""
    if file is None or str(file) == "-":
        for number, raw in enumerate(sys.stdin.buffer, start=1):
            try:
                yield raw.decode("utf-8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                raise RegardError(
                    f"Line {number} of the input is not UTF-8. Convert it."
                ) from error
        return
    from regard.data.readers.text_file import BadRows, TextFile

    bad = BadRows(skip=True)
    for line in TextFile(path=file, max_line_bytes=longest).lines(bad=bad):
        if line.text is None:
            reason = bad.rows[0].reason
            raised = ", or raise --max-line-bytes" if reason.startswith("line too long") else ""
            raise RegardError(f"{bad.rows[0]}. Every line gets an output, so fix the line{raised}.")
        yield line.text


def _write_lines(path: Path, lines: Iterator[str]) -> None:
    """All lines, or none: a file appears once it is whole."""
    from regard.core.atomic_write import writing_whole

    with writing_whole(path) as target:
        for line in lines:
            target.write(f"{line}\n".encode())


def _output_line(output: str, *, as_json: bool) -> str:
    import json

    if as_json:
        return json.dumps({"output": output}, ensure_ascii=False)
    return output.replace("\n", " ")  # a line an output, whatever the model has learned to write


def _score_lines(
    assessment: Assessment, examples: list[Example], *, as_json: bool
) -> Iterator[str]:
    import json

    if as_json:
        # What is not a number is no JSON.
        scores = {
            name: value if math.isfinite(value) else None
            for name, value in assessment.scores.items()
        }
        record: dict[str, Any] = {**scores, "signatures": assessment.signatures}
        if assessment.details:
            record["details"] = assessment.details
        if examples:
            record["examples"] = [example._asdict() for example in examples]
        yield json.dumps(record, ensure_ascii=False)
        return
    for name, value in assessment.scores.items():
        signature = assessment.signatures.get(name, "")
        said = "-" if math.isnan(value) else f"{value:.4f}"
        yield f"{name:>9}  {said}  {signature}".rstrip()
    yield from details_lines(assessment.details)
    for example in examples:
        yield ""
        yield f"   source  {example.source}"
        yield f"predicted  {example.predicted}"
        yield f"    right  {' | '.join(example.answers)}"
