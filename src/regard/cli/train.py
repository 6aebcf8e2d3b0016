"""`regard train`: train a model on a task, or resume a run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.options import (
    Plugins,
    RunOptions,
    RunSeed,
    TaskName,
    Threads,
    load_plugins,
    log,
    set_threads,
    spec_from_options,
    takes_run_options,
)
from regard.core.errors import RegardError

if TYPE_CHECKING:
    from regard.runs.folder import RunFolder


def details_lines(details: dict[str, Any]) -> Iterator[str]:
    """Confusion matrix, calibration and deletion test of a classifier, as text."""
    import numpy as np

    from regard.core.records.document import DeletionRecord
    from regard.tasks.metrics.classification import Calibration, ConfusionMatrix, ReliabilityBin
    from regard.views.charts.deletion import deletion_sentence, deletion_verdict

    if found := details.get("confusion"):
        counts = np.array(found["counts"], dtype=np.int64)
        yield ""
        yield ConfusionMatrix(labels=tuple(found["labels"]), counts=counts).table()
    if found := details.get("calibration"):
        bins = tuple(ReliabilityBin(**each) for each in found["bins"])
        yield ""
        yield f"calibration: {Calibration(**{**found, 'bins': bins}).describe()}"
    if found := details.get("deletion"):
        record = DeletionRecord.from_dict(found)
        yield ""
        yield f"deletion: {deletion_sentence(record)} {deletion_verdict(record)}"


@takes_run_options
def run(
    task: TaskName = None,
    *,
    given: RunOptions,
    init_from: Annotated[
        str | None,
        typer.Option(
            metavar="RUN", help="Initialise vocabulary and parameters from a finished run."
        ),
    ] = None,
    seed: RunSeed = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Run folder; default: runs/TASK-N.")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Resume this run; takes no other options.")
    ] = None,
    threads: Threads = None,
    plugin: Plugins = None,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Write TensorBoard events to the run folder.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the record as JSON.")] = False,
) -> None:
    """Train a model. Ctrl-C saves a checkpoint; a killed run resumes from its last one.

    Recipes document all settings; --set changes one.
    """
    from regard.core.malloc import keep_freed_memory
    from regard.runs.folder import RunFolder
    from regard.runs.train import begin_run, read_spec, resume_run

    load_plugins(plugin)
    keep_freed_memory()
    others = (task, init_from, seed, out, threads)
    if resume is None:
        numbers = {"seed": seed, "threads": threads}
        spec = spec_from_options(task, given, numbers=numbers, init_from=init_from)
        callbacks = _callbacks()
        folder = RunFolder.next_free(spec.task) if out is None else RunFolder(out)
    elif given != RunOptions() or any(option is not None for option in others):
        raise RegardError(
            f"--resume {resume} continues the run with its own settings, so it takes no task and no "
            "other options. Remove them, or start a new run without --resume."
        )
    else:
        callbacks = _callbacks()
        folder = RunFolder.existing(resume)
        spec = read_spec(folder)
    set_threads(spec)
    if tensorboard:
        from regard.training.callbacks import TensorBoard

        callbacks.append(TensorBoard(folder.tensorboard))
    if resume is None:
        record = begin_run(spec, folder, callbacks=callbacks, log=log)
    else:
        record = resume_run(folder, callbacks=callbacks, log=log)
    if record is None:
        plugins = "".join(f" --plugin {target}" for target in plugin or [])
        log(f"stopped and saved; resume with: regard train --resume {folder.path}{plugins}")
        raise typer.Exit(code=130)
    _report(record, folder, as_json=as_json)


def _callbacks() -> list[Any]:
    from regard.training.callbacks import ProgressDisplay

    return [ProgressDisplay()]


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
    if record["data"].get("validation_is_train"):
        typer.echo("no validation split: these are scores on training texts")
    for split, scores in record["scores"].items():
        typer.echo(
            f"{split:>10}  " + "  ".join(f"{name} {value:.4g}" for name, value in scores.items())
        )
        for name, value in record["baselines"].get(split, {}).items():
            typer.echo(f"            {name}: {value:.4g}")
    if details := record.get("details"):
        split = next(reversed(details))  # the test split, if there is one
        typer.echo(f"\n{split} split")
        for line in details_lines(details[split]):
            typer.echo(line)
        typer.echo("")
    typer.echo(f'use it: regard predict {folder.path} "some text"')
