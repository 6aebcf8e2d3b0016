"""`regard predict`: predictions of a trained model, or its scores on a file."""

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
    SkipBadRows,
    SourceColumn,
    TargetColumn,
    load_plugins,
    validate_utf8,
)
from regard.cli.train import details_lines
from regard.core.errors import RegardError

if TYPE_CHECKING:
    from regard.runs.load import EvaluationReport, Example, TrainedRun


# For --file, if the task has no limit of its own.
MAX_LINE_BYTES = 100_000


def run(
    run_folder: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a trained run.")],
    texts: Annotated[list[str] | None, typer.Argument(metavar="[TEXT]...")] = None,
    *,
    file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Texts, one per line; gzip too; - for stdin."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Output file; default: standard output.")
    ] = None,
    score: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Evaluate on this file; for a synthetic task also on lengths, such as 40-60.",
        ),
    ] = None,
    format: Annotated[  # noqa: A002
        str | None,
        typer.Option(help="Format of --score: tsv, csv, jsonl, dictionary, lines or labelled."),
    ] = None,
    source_column: SourceColumn = None,
    target_column: TargetColumn = None,
    header: Header = False,
    skip_bad_rows: SkipBadRows = False,
    max_line_bytes: Annotated[
        int | None,
        typer.Option(help="Maximum length of a line; default: as in training."),
    ] = None,
    examples: Annotated[
        int, typer.Option(help="With --score: show this many random examples.")
    ] = 0,
    seed: Seed = 0,
    attention: Annotated[
        Path | None,
        typer.Option(
            metavar="IMAGE",
            help="Draw the attention for one TEXT: .svg or .png; for a classifier also .html.",
        ),
    ] = None,
    beam: Annotated[int | None, typer.Option(help="Beam size; 1 is greedy.")] = None,
    length_penalty: Annotated[
        float | None, typer.Option(help="Above 1 favours longer outputs.")
    ] = None,
    tokens: Annotated[
        int | None, typer.Option(help="Language model: maximum number of new tokens.")
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(help="Language model: sampling temperature; 0 is greedy.")
    ] = None,
    top_k: Annotated[int | None, typer.Option(help="Top-k sampling.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Nucleus (top-p) sampling.")] = None,
    plugin: Plugins = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, one line per output.")
    ] = False,
) -> None:
    """Predict for texts or for the lines of a file, in order, or evaluate on a file."""
    from regard.core.atomic_write import validate_writable
    from regard.data.readers.text_file import RowErrors
    from regard.explain.text_classifier import TruncationCounter
    from regard.runs.load import load

    inputs_given = [bool(texts), file is not None, score is not None]
    if sum(inputs_given) != 1:
        raise RegardError(
            "Give one of three: texts, --file with one text per line, or --score with references. "
            f'For example: regard predict {run_folder} "some text"'
        )
    file_options: dict[str, Any] = {
        "format": format,
        "source_column": source_column,
        "target_column": target_column,
        "header": header or None,
    }
    file_options = {name: value for name, value in file_options.items() if value is not None}
    if score is None and (file_options or skip_bad_rows):
        raise RegardError(
            "--format, --source-column, --target-column, --header and --skip-bad-rows need --score. "
            "Remove them, or evaluate on a file."
        )
    if max_line_bytes is not None:
        if max_line_bytes < 1 or (file is None and score is None):
            raise RegardError(
                f"--max-line-bytes {max_line_bytes}: the maximum length of a line is 1 or more, and needs "
                "--file or --score."
            )
        file_options["max_line_bytes"] = max_line_bytes
    if examples < 0 or (examples and score is None):
        raise RegardError(
            f"--examples {examples}: the number of examples is 0 or more, and needs --score."
        )
    if attention is not None and (texts is None or len(texts) != 1):
        raise RegardError(f"--attention {attention} draws one input. Give exactly one text.")
    for text in texts or []:
        validate_utf8(text, what="The text")
    for target in (out, attention):
        if target is not None:
            validate_writable(target)
    load_plugins(plugin)
    trained = load(run_folder)
    line_limit = max_line_bytes
    if line_limit is None:
        line_limit = getattr(trained.spec.task_options, "max_line_bytes", MAX_LINE_BYTES)
    truncation = TruncationCounter(trained)
    if attention is not None:
        _validate_drawable(trained, attention)
    if (beam is not None or length_penalty is not None) and not trained.is_seq2seq:
        raise RegardError(
            "--beam and --length-penalty are for sequence-to-sequence models. The run "
            f"'{run_folder}' was trained on the task '{trained.spec.task}'. Remove them."
        )
    decode_kwargs: dict[str, Any] = {"beam_size": beam, "length_penalty": length_penalty}
    lines: Iterator[str]
    sampling: dict[str, Any] = {
        "max_tokens": tokens,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
    }
    sampling = {name: value for name, value in sampling.items() if value is not None}
    if sampling and (score is not None or not trained.is_generative):
        raise RegardError(
            "--tokens, --temperature, --top-k and --top-p are for text generation with a language model. "
            f"The run '{run_folder}' was trained on the task '{trained.spec.task}'. Remove them."
        )
    inputs = iter(texts) if texts else _read_lines(file, max_line_bytes=line_limit)
    if trained.is_generative and score is None:
        if texts and len(texts) == 1 and out is None and not as_json:
            _stream(texts[0], trained.generate(texts[0], seed=seed, **sampling))
            return
        lines = (
            _output_line("".join(trained.generate(text, seed=seed, **sampling)), as_json=as_json)
            for text in inputs
        )
    elif score is not None:
        errors = RowErrors(skip=skip_bad_rows)
        report = trained.evaluate(score, errors=errors, **file_options, **decode_kwargs)
        if errors.count:
            typer.echo(errors.summary(), err=True)
        for note in report.notes:
            typer.echo(note, err=True)
        shown = report.examples(examples, seed=seed)
        lines = _score_lines(report, shown, as_json=as_json)
    else:
        outputs = trained.predict_each(truncation.count(inputs), **decode_kwargs)
        lines = (_output_line(output, as_json=as_json) for output in outputs)
    if attention is not None and texts:
        _draw(trained, texts[0], path=attention, decode_kwargs=decode_kwargs)
        typer.echo(f"wrote {attention}", err=True)
    if out is None:
        for line in lines:
            typer.echo(line)
    else:
        _write_lines(out, lines)
    if summary := truncation.summary():
        typer.echo(summary, err=True)


def _validate_drawable(trained: TrainedRun, path: Path) -> None:
    """Raise unless the model has attention to draw and the suffix names an image format."""
    from regard.explain.text_classifier import builds_trees
    from regard.views.charts.figure_file import SUFFIXES, validate_figure_suffix

    if not (trained.is_seq2seq or trained.is_classifier):
        raise RegardError(
            "--attention is for sequence-to-sequence models and classifiers. The run "
            f"'{trained.folder.path}' was trained on the task '{trained.spec.task}'. Remove it."
        )
    if not trained.is_classifier or builds_trees(trained):
        validate_figure_suffix(path)
    elif path.suffix.lower() not in (".html", *SUFFIXES):
        raise RegardError(
            f"--attention {path}: unknown image format. Use the suffix .html, {' or '.join(SUFFIXES)}."
        )


def _draw(trained: TrainedRun, text: str, *, path: Path, decode_kwargs: dict[str, Any]) -> None:
    """Draw the alignment of a sequence-to-sequence model, or the word weights or tree of a classifier."""
    if trained.is_seq2seq:
        from regard.views.charts.alignment import draw_alignment

        draw_alignment(trained.alignment(text, **decode_kwargs), path=path)
        return
    from regard.explain.text_classifier import builds_trees, explain_text, parse_tree

    if builds_trees(trained):
        from regard.views.charts.autoencoders import draw_tree

        draw_tree(parse_tree(trained, text), path=path)
        return
    record = explain_text(trained, text)
    if path.suffix.lower() == ".html":
        from regard.views.pages.document import write_document_page

        write_document_page(record, path=path)
    else:
        from regard.views.charts.document import draw_document

        draw_document(record, path=path)


def _stream(prompt: str, chunks: Iterator[str]) -> None:
    """Print a text while it is generated."""
    typer.echo(prompt.strip(), nl=False)
    for chunk in chunks:
        typer.echo(chunk, nl=False)
        sys.stdout.flush()
    typer.echo()


def _read_lines(file: Path | None, *, max_line_bytes: int) -> Iterator[str]:
    """The lines of a file or of standard input, one at a time."""
    if file is None or str(file) == "-":
        for number, raw in enumerate(sys.stdin.buffer, start=1):
            try:
                yield raw.decode("utf-8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                raise RegardError(
                    f"Line {number} of the input is not UTF-8. Convert the input."
                ) from error
        return
    from regard.data.readers.text_file import RowErrors, TextFile

    errors = RowErrors(skip=True)
    for line in TextFile(path=file, max_line_bytes=max_line_bytes).lines(errors=errors):
        if line.text is None:
            reason = errors.rows[0].reason
            way_out = ", or raise --max-line-bytes" if reason.startswith("line too long") else ""
            raise RegardError(
                f"{errors.rows[0]}. Every line gets an output, so fix the line{way_out}."
            )
        yield line.text


def _write_lines(path: Path, lines: Iterator[str]) -> None:
    """Write all lines atomically."""
    from regard.core.atomic_write import open_atomic

    with open_atomic(path) as target:
        for line in lines:
            target.write(f"{line}\n".encode())


def _output_line(output: str, *, as_json: bool) -> str:
    import json

    if as_json:
        return json.dumps({"output": output}, ensure_ascii=False)
    return output.replace("\n", " ")  # one line per output


def _score_lines(
    report: EvaluationReport, examples: list[Example], *, as_json: bool
) -> Iterator[str]:
    import json

    if as_json:
        # NaN is not valid JSON.
        scores = {
            name: value if math.isfinite(value) else None for name, value in report.scores.items()
        }
        record: dict[str, Any] = {**scores, "signatures": report.signatures}
        if report.details:
            record["details"] = report.details
        if examples:
            record["examples"] = [example._asdict() for example in examples]
        yield json.dumps(record, ensure_ascii=False)
        return
    for name, value in report.scores.items():
        signature = report.signatures.get(name, "")
        shown = "-" if math.isnan(value) else f"{value:.4f}"
        yield f"{name:>9}  {shown}  {signature}".rstrip()
    yield from details_lines(report.details)
    for example in examples:
        yield ""
        yield f"     input  {example.input}"
        yield f"prediction  {example.prediction}"
        yield f" reference  {' | '.join(example.references)}"
