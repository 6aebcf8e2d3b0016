"""`regard train`: train a model on a task, or go on with a run that was stopped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.options import (
    Format,
    Header,
    Labels,
    Minutes,
    Pairs,
    Plugins,
    Recipe,
    RunSeed,
    Settings,
    SkipBadRows,
    SourceColumn,
    Start,
    Steps,
    TargetColumn,
    TaskName,
    Test,
    Text,
    Threads,
    Validation,
    asked_spec,
    plug_in_all,
    use_threads,
)
from regard.core.errors import RegardError

if TYPE_CHECKING:
    from regard.runs.folder import RunFolder


# What a record tells of a classifier beside its scores, in lines for the terminal.


def details_lines(details: dict[str, Any]) -> Iterator[str]:
    """Which labels are mixed up, how far its certainty can be believed, and the deletion test."""
    import numpy as np

    from regard.core.records.document import DeletionRecord
    from regard.tasks.metrics.calibration import Calibration, ReliabilityBin
    from regard.tasks.metrics.confusion_matrix import Confusion
    from regard.views.charts.deletion import deletion_sentence, deletion_verdict

    if found := details.get("confusion"):
        counts = np.array(found["counts"], dtype=np.int64)
        yield ""
        yield Confusion(labels=tuple(found["labels"]), counts=counts).table()
    if found := details.get("calibration"):
        bins = tuple(ReliabilityBin(**each) for each in found["bins"])
        yield ""
        yield f"calibration: {Calibration(**{**found, 'bins': bins}).describe()}"
    if found := details.get("deletion"):
        record = DeletionRecord.from_plain(found)
        yield ""
        yield f"deletion: {deletion_sentence(record)} {deletion_verdict(record)}"


def run(
    task: TaskName = None,
    *,
    pairs: Pairs = None,
    text: Text = None,
    labels: Labels = None,
    start: Start = None,
    validation: Validation = None,
    test: Test = None,
    format: Format = None,  # noqa: A002 — the word users know
    source_column: SourceColumn = None,
    target_column: TargetColumn = None,
    header: Header = False,
    skip_bad_rows: SkipBadRows = False,
    recipe: Recipe = None,
    settings: Settings = None,
    steps: Steps = None,
    minutes: Minutes = None,
    seed: RunSeed = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="The run's folder; else runs/TASK-N.")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Go on with this run; no other options.")
    ] = None,
    threads: Threads = None,
    plugin: Plugins = None,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Write TensorBoard events into the run's folder.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the record as JSON.")] = False,
) -> None:
    """Train a model. Ctrl-C saves and says how to go on; so does a kill, from the last checkpoint.

    Recipes hold every setting, with comments; --set changes one.
    """
    from regard.core.malloc import keep_freed_memory
    from regard.runs.folder import RunFolder
    from regard.runs.train import begin_run, resume_run, spec_of

    plug_in_all(plugin)
    keep_freed_memory()
    folder: RunFolder
    if resume is not None:
        given: list[object] = [
            task,
            pairs,
            text,
            labels,
            start,
            validation,
            test,
            format,
            source_column,
            target_column,
            recipe,
            settings,
        ]
        given += [steps, minutes, seed, out, threads]
        if any(option is not None for option in given) or skip_bad_rows or header:
            raise RegardError(
                f"--resume {resume} goes on with the run as it was begun, so it takes no task and no "
                "other settings. Leave them away, or begin a new run without --resume."
            )
        folder = RunFolder.existing(resume)
        spec = spec_of(folder)
        use_threads(spec)
        watchers = _watchers(folder, tensorboard)
        record = resume_run(folder, watchers=watchers, tell=_tell)
    else:
        spec = asked_spec(
            task,
            recipe=recipe,
            settings=settings,
            task_options={
                "pairs": pairs,
                "labels": labels,
                "validation": validation,
                "test": test,
                "format": format,
                "source_column": source_column,
                "target_column": target_column,
                "skip_bad_rows": skip_bad_rows,
                "header": header,
            },
            budget={"steps": steps, "seconds": None if minutes is None else 60 * minutes},
            numbers={"seed": seed, "threads": threads},
            text=text,
            start=start,
        )
        use_threads(spec)
        folder = RunFolder.next_free(spec.task) if out is None else RunFolder(out)
        watchers = _watchers(folder, tensorboard)
        record = begin_run(spec, folder, watchers=watchers, tell=_tell)
    if record is None:
        plugins = "".join(f" --plugin {target}" for target in plugin or [])
        _tell(f"stopped and saved; go on with: regard train --resume {folder.path}{plugins}")
        raise typer.Exit(code=130)
    _report(record, folder, as_json=as_json)


def _watchers(folder: RunFolder, tensorboard: bool) -> list[Any]:
    from regard.training.callbacks import ProgressDisplay

    watchers: list[Any] = [ProgressDisplay()]
    if tensorboard:
        from regard.training.callbacks import TensorBoard

        watchers.append(TensorBoard(folder.tensorboard))
    return watchers


def _tell(line: str) -> None:
    # To standard error, as the progress is: standard output is for the result.
    typer.echo(line, err=True)


def _report(record: dict[str, Any], folder: RunFolder, *, as_json: bool) -> None:
    import json

    if as_json:
        typer.echo(json.dumps({"folder": str(folder.path), **record}, ensure_ascii=False))
        return
    for name, outcome in (("pre-training: ", record.get("pretraining")), ("", record["outcome"])):
        if outcome is not None:
            typer.echo(
                f"{name}{outcome['steps']:,} steps, {outcome['tokens']:,} tokens, "
                f"{outcome['seconds'] / 60:.1f} minutes on {record['threads']} threads"
            )
    if record["data"].get("validation_is_learned"):
        typer.echo("nothing was held out: these are scores of texts that were learned")
    for part, scores in record["scores"].items():
        typer.echo(
            f"{part:>5}  " + "  ".join(f"{name} {value:.4g}" for name, value in scores.items())
        )
        for name, value in record["baselines"].get(part, {}).items():
            typer.echo(f"       {name}: {value:.4g}")
    if details := record.get("details"):
        part = next(reversed(details))  # the test part, where there is one
        typer.echo(f"\non the {part} part")
        for line in details_lines(details[part]):
            typer.echo(line)
        typer.echo("")
    typer.echo(f'use it: regard predict {folder.path} "some text"')
