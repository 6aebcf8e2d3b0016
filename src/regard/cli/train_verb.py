"""`regard train`: train a model on a task, or go on with a run that was stopped."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.column_options import Header, SourceColumn, TargetColumn
from regard.cli.plugin_option import Plugins, plug_in_all
from regard.core.errors import RegardError

if TYPE_CHECKING:
    from regard.runs.run_folder import RunFolder
    from regard.runs.spec import RunSpec

FILE_OPTIONS = ("pairs", "dev", "test")


def run(
    task: Annotated[
        str | None, typer.Argument(metavar="[TASK]", help="pronounce or translate.")
    ] = None,
    *,
    pairs: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Pairs to learn from; SOURCE,TARGET for parallel files."),
    ] = None,
    dev: Annotated[
        str | None, typer.Option(metavar="FILE", help="Pairs to develop on; else held out by hash.")
    ] = None,
    test: Annotated[str | None, typer.Option(metavar="FILE", help="Pairs to test on.")] = None,
    format: Annotated[  # noqa: A002 — the word users know
        str | None, typer.Option(help="Of the files: tsv, csv, jsonl, dictionary or lines.")
    ] = None,
    source_column: SourceColumn = None,
    target_column: TargetColumn = None,
    header: Header = False,
    skip_bad_rows: Annotated[
        bool, typer.Option("--skip-bad-rows", help="Leave bad rows out and list them.")
    ] = False,
    recipe: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A shipped recipe or FILE.toml; else that of the task."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Such as model.num_layers=3. May be repeated."
        ),
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Stop after so many steps.")] = None,
    minutes: Annotated[float | None, typer.Option(help="Stop after so many minutes.")] = None,
    seed: Annotated[int | None, typer.Option(help="What weights and order are drawn from.")] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="The run's folder; else runs/TASK-N.")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Go on with this run; no other options.")
    ] = None,
    threads: Annotated[int | None, typer.Option(help="Cores to use; else all.")] = None,
    plugin: Plugins = None,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Write TensorBoard events into the run's folder.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the record as JSON.")] = False,
) -> None:
    """Train a model. Ctrl-C saves and says how to go on; so does a kill, from the last checkpoint.

    Recipes hold every setting, with comments; --set changes one.
    """
    from regard.core.allocator import keep_freed_memory
    from regard.runs.run_folder import RunFolder
    from regard.runs.spec import RunSpec, settings_as_sections
    from regard.runs.train_run import begin_run, resume_run, spec_of

    plug_in_all(plugin)
    keep_freed_memory()
    folder: RunFolder
    if resume is not None:
        given: list[object] = [
            task,
            pairs,
            dev,
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
        _use_threads(spec)
        watchers = _watchers(folder, tensorboard)
        record = resume_run(folder, watchers=watchers, tell=_tell)
    else:
        changes = settings_as_sections(settings or [])
        options: dict[str, Any] = {"pairs": pairs, "dev": dev, "test": test, "format": format}
        options |= {"source_column": source_column, "target_column": target_column}
        options |= {"skip_bad_rows": skip_bad_rows or None, "header": header or None}
        sections = asked_sections(
            task,
            recipe=recipe,
            changes=changes,
            task_options={key: value for key, value in options.items() if value is not None},
            budget={"steps": steps, "seconds": None if minutes is None else 60 * minutes},
            numbers={"seed": seed, "threads": threads},
        )
        spec = RunSpec.from_sections(sections)
        _use_threads(spec)
        folder = RunFolder.next_free(spec.task) if out is None else RunFolder(out)
        watchers = _watchers(folder, tensorboard)
        record = begin_run(spec, folder, watchers=watchers, tell=_tell)
    if record is None:
        plugins = "".join(f" --plugin {target}" for target in plugin or [])
        _tell(f"stopped and saved; go on with: regard train --resume {folder.path}{plugins}")
        raise typer.Exit(code=130)
    _report(record, folder, as_json=as_json)


def asked_sections(
    task: str | None,
    *,
    recipe: str | None,
    changes: dict[str, Any],
    task_options: dict[str, Any],
    budget: dict[str, Any],
    numbers: dict[str, int | None],
) -> dict[str, Any]:
    """The recipe with everything that was asked for put over it; files by their full paths."""
    from regard.core.names import look_up
    from regard.runs.recipe_files import read_recipe
    from regard.runs.spec import merged, require_sections
    from regard.tasks import TASKS

    if task is None and recipe is None:
        raise RegardError(
            f"Name a task, one of: {', '.join(TASKS)}; or a recipe; or a run to go on with: --resume RUN."
        )
    if task is not None:
        look_up("task", task, TASKS)
    sections = read_recipe(recipe or str(task))
    require_sections(sections)
    named = sections.get("task", {}).get("name")
    if task is not None and named != task:
        raise RegardError(
            f"The recipe '{recipe}' is for the task '{named}', not '{task}'. Choose another recipe."
        )
    # Another task by --set begins without options, so those of the command line come after it.
    sections = merged(sections, changes)
    sections = merged(sections, {"task": task_options})
    given_budget = {key: value for key, value in budget.items() if value is not None}
    if given_budget:
        # A budget on the command line replaces that of the recipe, whatever it counts.
        freed = dict.fromkeys(("steps", "tokens", "seconds", "operations"))
        sections = merged(sections, {"training": {**freed, **given_budget}})
    sections = merged(sections, {key: value for key, value in numbers.items() if value is not None})
    for key in FILE_OPTIONS:
        if isinstance(files := sections["task"].get(key), str):
            sections["task"][key] = full_paths(files)
    return sections


def full_paths(files: str) -> str:
    """The same file or two files, so that a run can be resumed from anywhere."""
    from regard.data.text_lines import is_there

    if "," not in files or is_there(Path(files)):
        return str(Path(files).absolute())
    return ",".join(str(Path(file.strip()).absolute()) for file in files.split(","))


def _use_threads(spec: RunSpec) -> None:
    import torch

    if spec.threads is not None:
        torch.set_num_threads(spec.threads)


def _watchers(folder: RunFolder, tensorboard: bool) -> list[Any]:
    from regard.training.progress_display import ProgressDisplay

    watchers: list[Any] = [ProgressDisplay()]
    if tensorboard:
        from regard.training.tensorboard import TensorBoard

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
    outcome = record["outcome"]
    typer.echo(
        f"{outcome['steps']:,} steps, {outcome['tokens']:,} tokens, {outcome['seconds'] / 60:.1f} minutes "
        f"on {record['threads']} threads"
    )
    for part, scores in record["scores"].items():
        typer.echo(
            f"{part:>5}  " + "  ".join(f"{name} {value:.4g}" for name, value in scores.items())
        )
    typer.echo(f'use it: regard predict {folder.path} "some text"')
