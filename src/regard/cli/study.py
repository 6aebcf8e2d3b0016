"""`regard study`: train variants under one budget with paired seeds, compare them, and write a page."""

from __future__ import annotations

import shlex
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from regard.cli.options import (
    Plugins,
    RunOptions,
    load_plugins,
    log,
    takes_run_options,
    with_absolute_paths,
    with_pretrain_file,
)
from regard.core.errors import RegardError
from regard.studies.execution.jobs import Failed, Finished, Progressed, Started
from regard.studies.spec import builtin_studies

if TYPE_CHECKING:
    from regard.core.records.study import StudyRecord
    from regard.studies.execution.jobs import Event, Executor, Job
    from regard.studies.folder import StudyFolder


EXECUTORS = ("local", "ray")


@takes_run_options
def run(
    study: Annotated[
        str | None,
        typer.Argument(
            metavar="[STUDY]",
            help=f"FILE.toml, or a built-in study: {', '.join(builtin_studies())}.",
        ),
    ] = None,
    *,
    sweep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OPTION=A,B,…",
            help="Option to vary, such as mechanism=dot,additive. Repeat it for a grid.",
        ),
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(metavar="N", help="Number of seeds, or a list: 5, or 3,4,5.")
    ] = None,
    match: Annotated[
        str | None,
        typer.Option(metavar="parameters", help="Choose widths for equal parameter counts."),
    ] = None,
    learning_rates: Annotated[
        str | None,
        typer.Option(metavar="A,B,…", help="Tune per variant; the best on validation is used."),
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(metavar="VARIANT", help="Reference variant; default: the first.")
    ] = None,
    question: Annotated[str | None, typer.Option(help="The question, shown on the page.")] = None,
    given: RunOptions,
    tokens: Annotated[int | None, typer.Option(help="Budget in tokens.")] = None,
    flops: Annotated[float | None, typer.Option(help="Budget in FLOPs.")] = None,
    executor: Annotated[
        str, typer.Option(metavar="local|ray", help="Where to run: this machine or a Ray cluster.")
    ] = "local",
    address: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Ray cluster; default: a local one."),
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Parallel runs; default: by cores.")] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Study folder; default: studies/NAME.")
    ] = None,
    plugin: Plugins = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the record as JSON.")] = False,
) -> None:
    """Train every variant with every seed under one budget, and compare them statistically.

    Run again, it resumes; more seeds or variants only add runs.
    """
    from regard.studies.folder import StudyFolder
    from regard.studies.spec import StudySpec
    from regard.studies.study import run_study
    from regard.views.text.study import study_table

    load_plugins(plugin)
    runner = _build_executor(executor, address=address, workers=workers)
    spec = StudySpec.from_sections(
        study_sections(
            study,
            given,
            sweep=sweep or [],
            budget={"tokens": tokens, "flops": flops},
            seeds=seeds,
            learning_rates=learning_rates,
            keys={"match": match, "baseline": baseline, "question": question},
        )
    )
    axes = [option.rpartition(".")[2] for option in spec.sections.get("sweep", {})]
    name = Path(study).stem if study else "-".join(axes) or "study"
    folder = StudyFolder(out or Path("studies") / name)
    with StudyProgress() as progress:
        try:
            record = run_study(
                spec,
                folder.path,
                name=name,
                command=shlex.join(["regard", *sys.argv[1:]]),
                plugins=[_absolute_plugin(target) for target in plugin or ()],
                executor=runner,
                on_event=progress.update,
                on_start=lambda prepared: progress.begin(prepared.jobs(folder)),
                log=log,
            )
        except KeyboardInterrupt:
            if not folder.study.is_file():
                raise  # before anything was trained
            log("stopped; checkpoints are saved. The same command resumes; intermediate results:")
            log(f"  regard report {folder.path}")
            raise typer.Exit(code=130) from None
    page = write_report(record, folder)
    if as_json:
        typer.echo(record.as_json())
        return
    typer.echo(study_table(record, width=shutil.get_terminal_size().columns))
    typer.echo(f"\npage: {page}\ntable: {folder.table}\nfigures: {folder.figures}")


def _build_executor(name: str, *, address: str | None, workers: int | None) -> Executor:
    if name not in EXECUTORS:
        raise RegardError(f"--executor {name}: choose one of: {', '.join(EXECUTORS)}.")
    if name == "ray":
        if workers is not None:
            raise RegardError(f"--workers {workers}: it is for --executor local. Remove --workers.")
        from regard.studies.execution.ray import RayExecutor

        return RayExecutor(address=address)
    if address is not None:
        raise RegardError(f"--address {address}: it is for a Ray cluster. Add --executor ray.")
    from regard.studies.execution.local import LocalExecutor

    return LocalExecutor(workers=workers)


def _absolute_plugin(target: str) -> str:
    """A plug-in with the absolute path of its file, for other processes."""
    file, colon, name = target.rpartition(":")
    return f"{Path(file).absolute()}{colon}{name}" if Path(file).is_file() else target


def study_sections(
    name: str | None,
    given: RunOptions,
    *,
    sweep: Sequence[str],
    budget: dict[str, Any],
    seeds: str | None,
    learning_rates: str | None,
    keys: dict[str, Any],
) -> dict[str, Any]:
    """The sections of a study: its file, updated with flags; flags that are None are not given."""
    from regard.runs.spec import merge_sections, parse_settings, read_recipe
    from regard.studies.spec import builtin_studies, read_study

    if name is None and given.recipe is None:
        raise RegardError(
            f"Name a study: {', '.join(builtin_studies())}; or FILE.toml; or give a recipe and a sweep: "
            "regard study --recipe pronounce-quick --sweep mechanism=dot,additive"
        )
    sections = {} if name is None else read_study(name)
    if given.recipe is not None:
        sections["recipe"] = given.recipe
    changes = given.with_budget(parse_settings(given.settings or []), **budget)
    sections = merge_sections(sections, changes)
    if given.task_options:
        sections = merge_sections(sections, given.task_section(_task_options(sections)))
    if given.pretrain_file is not None:
        before = read_recipe(str(sections["recipe"])) if "recipe" in sections else {}
        with_pretrain_file({**before, **sections}, given.pretrain_file)  # the stage must exist
        file = {"train_file": given.pretrain_file}
        sections = merge_sections(sections, {"pretraining": {"task": file}})
    sections = with_absolute_paths(sections)
    if sweep:
        axes = [_parse_axis(text) for text in sweep]
        sections["sweep"] = dict(axes)
        if len(sections["sweep"]) < len(axes):
            raise RegardError(
                f"--sweep names an option twice: {', '.join(option for option, _ in axes)}. Give all its "
                "values at once, separated by commas."
            )
        sections.pop("variants", None)
        sections.pop("baseline", None)
    if seeds is not None:
        sections["seeds"] = _parse_seeds(seeds)
    if learning_rates is not None:
        sections["learning_rates"] = [_parse_rate(rate) for rate in learning_rates.split(",")]
    return sections | {key: value for key, value in keys.items() if value is not None}


def _task_options(sections: Mapping[str, Any]) -> set[str]:
    """The option names of the task of the study or of its recipe."""
    from regard.core.registry import known_options
    from regard.runs.spec import read_recipe
    from regard.tasks import task_class

    task = sections.get("task", {}).get("name")
    if task is None and "recipe" in sections:
        task = read_recipe(str(sections["recipe"])).get("task", {}).get("name")
    return set() if task is None else set(known_options(task_class(str(task)).options_class))


def _parse_axis(text: str) -> tuple[str, list[Any]]:
    from regard.core.registry import parse_value

    name, equals, values = text.partition("=")
    if not (name.strip() and equals and values.strip()):
        raise RegardError(
            f"--sweep {text}: write it as OPTION=VALUE,VALUE,…, such as --sweep mechanism=dot,additive."
        )
    return name.strip(), [parse_value(value) for value in _split_values(values)]


def _split_values(text: str) -> list[str]:
    """Split at commas outside brackets.

    >>> _split_values("{'num_terms': 2, 'scale': 1.0},none")
    ["{'num_terms': 2, 'scale': 1.0}", 'none']
    """
    values, depth = [""], 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            values.append("")
        else:
            values[-1] += character
    return values


def _parse_seeds(text: str) -> Any:
    """One number is a count; several are the seeds."""
    try:
        found = [int(seed) for seed in text.split(",")]
    except ValueError as error:
        raise RegardError(
            f"--seeds {text}: give a number of seeds, such as 5, or a list, such as 3,4,5."
        ) from error
    return found if "," in text else found[0]


def _parse_rate(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise RegardError(
            f"--learning-rates … {text} …: give numbers, such as --learning-rates 1e-3,2e-3."
        ) from error


class StudyProgress:
    """A progress bar over all runs with the time left, and a line per finished run.

    Without a terminal, only the lines.
    """

    def __init__(self, console: Console | None = None) -> None:
        """Write to `console`; by default to standard error."""
        self.console = console or Console(stderr=True, highlight=False)
        self.progress: Progress | None = None
        self._fractions: dict[str, float] = {}
        self._running: dict[str, Job] = {}
        self._start_fraction = 0.0
        self._began = 0.0

    def begin(self, jobs: Sequence[Job]) -> None:
        """Start with all jobs of the study."""
        self._fractions = {job.key: 1.0 if job.is_finished else 0.0 for job in jobs}
        done = sum(self._fractions.values())
        already = f", {done:.0f} already finished" if done else ""
        self.console.print(f"{len(self._fractions)} runs{already}", markup=False)
        self._start_fraction, self._began = done, time.monotonic()
        if self.console.is_terminal:
            self.progress = Progress(
                BarColumn(bar_width=None),
                TextColumn("{task.percentage:>3.0f}%  {task.description}", markup=False),
                console=self.console,
                auto_refresh=False,
                expand=True,
            )
            self.progress.add_task("", total=float(len(self._fractions)))
            self.progress.update(self.progress.task_ids[0], completed=done)
            self.progress.start()

    def update(self, event: Event) -> None:
        """Process an event of the executor."""
        job = event.job
        match event:
            case Started():
                self._running[job.key] = job
            case Progressed(progress=fraction):
                self._fractions[job.key] = fraction
            case Finished(seconds=seconds):
                self._fractions[job.key] = 1.0
                self._running.pop(job.key, None)
                if seconds:
                    self._line(f"✓ {job.variant}, seed {job.seed}  {seconds:.0f} s")
            case Failed(reason=reason):
                self._fractions[job.key] = 1.0
                self._running.pop(job.key, None)
                self._line(f"✗ {job.variant}, seed {job.seed}: {reason}")
        self._draw()

    def _line(self, text: str) -> None:
        finished = sum(fraction == 1.0 for fraction in self._fractions.values())
        left = "" if self.progress else f"   {finished} of {len(self._fractions)}, {self._left()}"
        self.console.print(text + left, markup=False)

    def _draw(self) -> None:
        if self.progress is None:
            return
        variants = ", ".join(f"{job.variant} ({job.seed})" for job in self._running.values())
        self.progress.update(
            self.progress.task_ids[0],
            completed=sum(self._fractions.values()),
            description=f"{self._left()}  {variants}",
        )
        self.progress.refresh()

    def _left(self) -> str:
        """The estimated time left."""
        done = sum(self._fractions.values()) - self._start_fraction
        if done <= 0:
            return "time left unknown"
        whole = len(self._fractions) - self._start_fraction
        seconds = (time.monotonic() - self._began) * (whole - done) / done
        return f"left {int(seconds) // 60}:{int(seconds) % 60:02}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        if self.progress is not None:
            self.progress.stop()


def write_report(record: StudyRecord, folder: StudyFolder, *, page: Path | None = None) -> Path:
    """Write page, table and figures to the study folder; returns the path of the page."""
    from regard.core.atomic_write import atomic_write
    from regard.views.pages.study import study_page, write_figures
    from regard.views.text.study import study_csv

    path = folder.page if page is None else page
    atomic_write(path, study_page(record))
    atomic_write(folder.table, study_csv(record))
    write_figures(record, folder.figures)
    return path
