"""`regard train`, `regard predict`, `regard plan` and `regard data`."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from regard import api
from regard.cli.options import (
    Device,
    Header,
    Json,
    Plugins,
    RecordJson,
    RunSeed,
    Seed,
    SkipBadRows,
    SourceColumn,
    TargetColumn,
    TaskName,
    Threads,
    echo,
    echo_data,
    echo_json,
    keywords,
    log,
    progress_display,
    terminal_status,
)
from regard.core.errors import RegardError
from regard.core.registry import lookup


def run_train(
    task: TaskName = None,
    *,
    init_from: Annotated[
        str | None, "RUN", "Initialise vocabulary and parameters from a finished run."
    ] = None,
    seed: RunSeed = None,
    out: Annotated[Path | None, "FOLDER", "Run folder; default: runs/TASK-N."] = None,
    resume: Annotated[
        Path | None, "RUN", "Resume this run, with the settings it was started with."
    ] = None,
    extend: Annotated[
        int | None, "STEPS", "With --resume: train a finished run for more steps."
    ] = None,
    folds: Annotated[
        int | None, "NUMBER", "Cross-validation: one run per fold, in FOLDER/fold-0, fold-1, ..."
    ] = None,
    plugin: Plugins = None,
    tensorboard: Annotated[bool, "Write TensorBoard events to the run folder."] = False,
    help_settings: Annotated[
        bool, "Print every key of --set with type, default and meaning, and train nothing."
    ] = False,
    as_json: RecordJson = False,
    **run_options: Any,
) -> None:
    """Train a model. Ctrl-C saves a checkpoint; a killed run resumes from its last one.

    --set changes a setting of the recipe; --help-settings lists them all.
    """
    options = keywords(locals())
    if options.pop("help_settings"):
        _print_settings(options, as_json=as_json)
        return
    from regard.api.training import predict_command, run_lines
    from regard.training.callbacks import ProgressDisplay

    if "folds" in options:
        _cross_validate(options, as_json=as_json)
        return
    trained = api.train(**options, callbacks=[ProgressDisplay()], log=log)
    if trained is None:
        raise typer.Exit(code=130)
    folder = trained.folder.path
    if as_json:
        echo_json(json.dumps({"folder": str(folder), **trained.record}, ensure_ascii=False))
        return
    for line in (*run_lines(trained), f"use it: {predict_command(trained)}"):
        echo(line)


def _cross_validate(options: dict[str, Any], *, as_json: bool) -> None:
    from regard.training.callbacks import ProgressDisplay

    for name in ("init_from", "resume", "extend", "tensorboard"):
        if options.pop(name, None):
            raise RegardError(
                f"--folds {options['folds']} trains runs of its own. Remove --{name.replace('_', '-')}."
            )
    found = api.cross_validate(**options, callbacks=[ProgressDisplay()], log=log)
    if found is None:
        raise typer.Exit(code=130)
    if as_json:
        echo_json(json.dumps(found.as_json(), ensure_ascii=False))
        return
    for line in found.lines():
        echo(line)


def _print_settings(options: dict[str, Any], *, as_json: bool) -> None:
    from dataclasses import asdict

    from regard.api.settings import settings_text

    for name in ("out", "resume", "extend", "folds", "tensorboard"):
        if options.pop(name, None):
            raise RegardError(f"--help-settings trains nothing. Remove --{name}.")
    settings = api.list_settings(**options)
    if as_json:
        echo_json(json.dumps([asdict(each) for each in settings], ensure_ascii=False))
    else:
        echo(settings_text(settings))


def run_predict(
    run: Annotated[Path, "RUN", "The folder of a trained run."],
    texts: Annotated[list[str] | None, typer.Argument(metavar="[TEXT]...")] = None,
    *,
    file: Annotated[Path | None, "FILE", "Texts, one per line; gzip too; - for stdin."] = None,
    out: Annotated[Path | None, "FILE", "Output file; default: standard output."] = None,
    score: Annotated[
        str | None,
        "FILE",
        "Evaluate on this file; for a synthetic task also on lengths, such as 40-60.",
    ] = None,
    format: Annotated[  # noqa: A002
        str | None, "Format of --score: tsv, csv, jsonl, dictionary, lines or labelled."
    ] = None,
    source_column: SourceColumn = None,
    target_column: TargetColumn = None,
    header: Header = False,
    skip_bad_rows: SkipBadRows = False,
    max_line_bytes: Annotated[
        int | None, "Maximum length of a line; default: as in training."
    ] = None,
    examples: Annotated[int, "With --score: show this many random examples."] = 0,
    seed: Seed = 0,
    beam: Annotated[int | None, "Beam size; 1 is greedy."] = None,
    length_penalty: Annotated[float | None, "Above 1 favours longer outputs."] = None,
    tokens: Annotated[int | None, "Language model: maximum number of new tokens."] = None,
    temperature: Annotated[
        float | None, "Language model: sampling temperature; 0 is greedy."
    ] = None,
    top_k: Annotated[int | None, "Top-k sampling."] = None,
    top_p: Annotated[float | None, "Nucleus (top-p) sampling."] = None,
    device: Device = None,
    threads: Threads = None,
    plugin: Plugins = None,
    as_json: Annotated[bool, "Print JSON, one line per output."] = False,
) -> None:
    """Predict for texts or for the lines of a file, in order, or evaluate on a file."""
    options = keywords(locals())
    # Lines in a terminal are progress enough.
    shown = score is not None or (file is not None and not (out is None and sys.stdout.isatty()))
    with progress_display("texts") if shown else nullcontext(lambda *_: None) as progress:
        api.predict(
            **options,
            json=as_json,
            log=log,
            write=partial(echo_json, newline=False) if as_json else echo_data,
            progress=progress,
        )


def run_plan(
    task: TaskName = None,
    *,
    seed: RunSeed = None,
    plugin: Plugins = None,
    length: Annotated[int | None, "Plan without data, for dummy texts of this many tokens."] = None,
    memory: Annotated[str | None, "4GB", "Memory limit. Default: all of this machine."] = None,
    time: Annotated[str | None, "1h", "Time limit. Default: none."] = None,
    only: Annotated[bool, "This run only: no alternatives, no largest model."] = False,
    decode: Annotated[bool, "Plan decoding: one step after --length tokens."] = False,
    batch: Annotated[int, "Rows decoded at once, with --decode."] = 1,
    as_json: Json = False,
    **run_options: Any,
) -> None:
    """Predict time and memory of a training run, and of alternative models and mechanisms.

    For every task, with the options of `regard train`. A few training steps are
    traced, and their time is predicted from a calibration of this machine, which is measured on
    first use. With a limit, the largest model within it is searched for.
    """
    options = keywords(locals())
    with terminal_status("planning") as status:
        report = api.plan(**options, log=status.log, progress=status.progress)
    if as_json:
        echo_json(json.dumps(report.as_json(), ensure_ascii=False))
    else:
        echo(report.as_text())


def run_data(
    action: Annotated[str, "ACTION", "describe"],
    file: Annotated[
        str,
        "FILE",
        "A text file, gzipped or not; two parallel files as FIRST,SECOND; a .npz file; a folder of audio "
        "or images; or an embedded dataset, such as film-languages (`regard list datasets`).",
    ],
    *,
    target: Annotated[
        str | None,
        "KIND",
        "What a text has beside it: text, label, number or none. Default: inferred from the file.",
    ] = None,
    format: Annotated[  # noqa: A002
        str | None,
        "FORMAT",
        "tsv, csv, jsonl, dictionary, lines, labelled or text. Default: by the file's extension.",
    ] = None,
    source_column: SourceColumn = None,
    target_column: TargetColumn = None,
    header: Header = False,
    as_json: Annotated[bool, "Print JSON."] = False,
) -> None:
    """Descriptive statistics of the data of any task: rows, columns, lengths, vocabulary, class balance.

    Row errors are counted and listed with line and reason; they do not stop the command.
    """
    options = keywords(locals())
    from regard import data

    description = lookup("action", options.pop("action"), {"describe": data.describe})(**options)
    if as_json:
        echo_json(json.dumps(description.as_json(), indent=2, ensure_ascii=False))
    else:
        echo(description.as_text())
