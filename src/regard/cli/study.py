"""`regard study`: compare variants on equal terms, and write a page about it."""

from __future__ import annotations

import shlex
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from regard.cli.options import (
    Format,
    Header,
    Labels,
    Minutes,
    Pairs,
    Plugins,
    Recipe,
    Settings,
    SkipBadRows,
    SourceColumn,
    Steps,
    TargetColumn,
    Test,
    Validation,
    plug_in_all,
)
from regard.core.errors import RegardError
from regard.studies.execution.jobs import Failed, Finished, Progressed, Started
from regard.studies.spec import shipped_studies

if TYPE_CHECKING:
    from regard.core.records.study import StudyRecord
    from regard.studies.execution.jobs import Event, Executor, Job
    from regard.studies.folder import StudyFolder


PLACES = ("here", "ray")


def run(
    study: Annotated[
        str | None,
        typer.Argument(
            metavar="[STUDY]", help=f"FILE.toml, or a shipped one: {', '.join(shipped_studies())}."
        ),
    ] = None,
    *,
    recipe: Recipe = None,
    over: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OPTION=A,B,…",
            help="What the variants differ in, such as mechanism=dot,additive. Repeated: a grid.",
        ),
    ] = None,
    settings: Settings = None,
    seeds: Annotated[
        str | None, typer.Option(metavar="N", help="How many, or which: 5, or 3,4,5.")
    ] = None,
    match: Annotated[
        str | None,
        typer.Option(metavar="parameters", help="Solve for widths: all variants as large."),
    ] = None,
    learning_rates: Annotated[
        str | None, typer.Option(metavar="A,B,…", help="Tries for every variant; the best counts.")
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(metavar="ARM", help="The variant that others are matched with.")
    ] = None,
    question: Annotated[str | None, typer.Option(help="What the study asks.")] = None,
    pairs: Pairs = None,
    labels: Labels = None,
    validation: Validation = None,
    test: Test = None,
    format: Format = None,  # noqa: A002 — the word users know
    source_column: SourceColumn = None,
    target_column: TargetColumn = None,
    header: Header = False,
    skip_bad_rows: SkipBadRows = False,
    steps: Steps = None,
    tokens: Annotated[int | None, typer.Option(help="The same number of tokens for all.")] = None,
    operations: Annotated[
        float | None, typer.Option(help="The same number of operations for all.")
    ] = None,
    minutes: Minutes = None,
    on: Annotated[str, typer.Option(metavar="here|ray", help="Where to run.")] = "here",
    address: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Of a Ray cluster; else a local one.")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Runs side by side; else by cores.")] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="The study's folder; else studies/NAME.")
    ] = None,
    plugin: Plugins = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the record as JSON.")] = False,
) -> None:
    """Train every variant with every seed under one budget, and say which are better, with evidence.

    Started again it goes on where it stopped; more seeds or variants only add runs.
    """
    from regard.studies.folder import StudyFolder
    from regard.studies.spec import StudySpec
    from regard.studies.study import run_study
    from regard.views.text.study import study_table

    plug_in_all(plugin)
    executor = _executor(on, address=address, workers=workers)
    spec = StudySpec.from_sections(
        asked_study(
            study,
            recipe=recipe,
            over=over or [],
            settings=settings or [],
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
            budget={
                "steps": steps,
                "tokens": tokens,
                "operations": operations,
                "seconds": None if minutes is None else 60 * minutes,
            },
            seeds=seeds,
            learning_rates=learning_rates,
            words={"match": match, "baseline": baseline, "question": question},
        )
    )
    axes = [option.rpartition(".")[2] for option in spec.written.get("over", {})]
    name = Path(study).stem if study else "-".join(axes) or "study"
    folder = StudyFolder(out or Path("studies") / name)
    with StudyProgress() as progress:
        try:
            record = run_study(
                spec,
                folder.path,
                name=name,
                command=shlex.join(["regard", *sys.argv[1:]]),
                plugins=[_in_full(target) for target in plugin or ()],
                executor=executor,
                watch=progress.watch,
                began=lambda prepared: progress.begin(prepared.jobs(folder)),
                tell=_tell,
            )
        except KeyboardInterrupt:
            if not folder.study.is_file():
                raise  # before anything was trained
            _tell("stopped; the runs are saved. The same command goes on; what there is so far:")
            _tell(f"  regard report {folder.path}")
            raise typer.Exit(code=130) from None
    page = write_report(record, folder)
    if as_json:
        typer.echo(record.as_json())
        return
    typer.echo(study_table(record, width=shutil.get_terminal_size().columns))
    typer.echo(f"\npage: {page}\ntable: {folder.table}\nfigures: {folder.figures}")


def _executor(on: str, *, address: str | None, workers: int | None) -> Executor:
    if on not in PLACES:
        raise RegardError(f"--on {on}: choose one of: {', '.join(PLACES)}.")
    if on == "ray":
        if workers is not None:
            raise RegardError(
                f"--workers {workers}: a Ray cluster knows its own size. Leave --workers away."
            )
        from regard.studies.execution.ray import OnRay

        return OnRay(address=address)
    if address is not None:
        raise RegardError(f"--address {address}: it is of a Ray cluster. Add --on ray.")
    from regard.studies.execution.local import Processes

    return Processes(workers=workers)


def _in_full(target: str) -> str:
    """A plug-in by the full path of its file, which other processes find too."""
    file, colon, name = target.rpartition(":")
    return f"{Path(file).absolute()}{colon}{name}" if Path(file).is_file() else target


def _tell(line: str) -> None:
    # To standard error, as the progress is: standard output is for the result.
    typer.echo(line, err=True)


# What `regard study` was asked for, as the sections of a study: a file with flags put over it.


def asked_study(
    name: str | None,
    *,
    recipe: str | None,
    over: Sequence[str],
    settings: Sequence[str],
    task_options: dict[str, Any],
    budget: dict[str, Any],
    seeds: str | None,
    learning_rates: str | None,
    words: dict[str, Any],
) -> dict[str, Any]:
    """The sections; `words` are plain keys such as the question. What is None was not asked for."""
    from regard.cli.options import all_full_paths
    from regard.runs.spec import merged, renamed, settings_as_sections
    from regard.studies.spec import read_study, shipped_studies
    from regard.training.options import BUDGETS

    if name is None and recipe is None:
        raise RegardError(
            f"Name a study, one of: {', '.join(shipped_studies())}; or FILE.toml; or make one of a recipe: "
            "regard study --recipe pronounce-quick --over mechanism=dot,additive"
        )
    sections = {} if name is None else read_study(name)
    if recipe is not None:
        sections["recipe"] = recipe
    changes = settings_as_sections(settings)
    given = {key: value for key, value in budget.items() if value is not None}
    if given:
        # A budget on the command line replaces the other, whatever that counts.
        changes = merged(changes, {"training": {**dict.fromkeys(BUDGETS), **given}})
    files = {key: value for key, value in task_options.items() if value not in (None, False)}
    sections = merged(sections, changes)
    if files:
        known = _options_of_the_task(sections)
        named = {renamed(key, known): value for key, value in files.items()}
        sections = merged(sections, {"task": named})
    sections = all_full_paths(sections)
    if over:
        axes = [_choices(text) for text in over]
        sections["over"] = dict(axes)
        if len(sections["over"]) < len(axes):
            raise RegardError(
                f"--over names an option twice: {', '.join(option for option, _ in axes)}. Give all its "
                "values at once, parted by commas."
            )
        sections.pop("variants", None)
        sections.pop("baseline", None)
    if seeds is not None:
        sections["seeds"] = _seeds(seeds)
    if learning_rates is not None:
        sections["learning_rates"] = [_number(rate) for rate in learning_rates.split(",")]
    return sections | {key: value for key, value in words.items() if value is not None}


def _options_of_the_task(sections: Mapping[str, Any]) -> set[str]:
    """The options of the task that the study, or the recipe it is made of, names; files have its words."""
    from regard.core.registry import known_options
    from regard.runs.spec import read_recipe
    from regard.tasks import task_class

    task = sections.get("task", {}).get("name")
    if task is None and "recipe" in sections:
        task = read_recipe(str(sections["recipe"])).get("task", {}).get("name")
    return set() if task is None else set(known_options(task_class(str(task)).options_class))


def _choices(text: str) -> tuple[str, list[Any]]:
    from regard.core.registry import setting_value

    name, equals, values = text.partition("=")
    if not (name.strip() and equals and values.strip()):
        raise RegardError(
            f"--over {text}: write it as OPTION=VALUE,VALUE,…, such as --over mechanism=dot,additive."
        )
    return name.strip(), [setting_value(value) for value in _parted(values)]


def _parted(text: str) -> list[str]:
    """The values between commas; a comma inside brackets parts nothing.

    >>> _parted("{'num_terms': 2, 'scale': 1.0},none")
    ["{'num_terms': 2, 'scale': 1.0}", 'none']
    """
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _seeds(text: str) -> Any:
    """A number is how many; several are the seeds themselves."""
    try:
        found = [int(seed) for seed in text.split(",")]
    except ValueError as error:
        raise RegardError(
            f"--seeds {text}: give how many, such as 5, or which, such as 3,4,5."
        ) from error
    return found if "," in text else found[0]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise RegardError(
            f"--learning-rates … {text} …: give numbers, such as --learning-rates 1e-3,2e-3."
        ) from error


# How a study goes: a bar for the whole grid with the time left, and a line for every run that ends.
#
# Where nothing can be drawn over, only the lines, each with the time left.


class StudyProgress:
    """A watcher of an executor's events."""

    def __init__(self, console: Console | None = None) -> None:
        """Draw on `console`; on standard error without one."""
        self.console = console or Console(stderr=True, highlight=False)
        self.progress: Progress | None = None
        self._shares: dict[str, float] = {}
        self._running: dict[str, Job] = {}
        self._begun_share = 0.0
        self._began = 0.0

    def begin(self, jobs: Sequence[Job]) -> None:
        """These are all that there is to do."""
        self._shares = {job.key: 1.0 if job.is_finished else 0.0 for job in jobs}
        done = sum(self._shares.values())
        already = f", {done:.0f} of them finished before" if done else ""
        self.console.print(f"{len(self._shares)} runs{already}", markup=False)
        self._begun_share, self._began = done, time.monotonic()
        if self.console.is_terminal:
            self.progress = Progress(
                BarColumn(bar_width=None),
                TextColumn("{task.percentage:>3.0f}%  {task.description}", markup=False),
                console=self.console,
                auto_refresh=False,
                expand=True,
            )
            self.progress.add_task("", total=float(len(self._shares)))
            self.progress.update(self.progress.task_ids[0], completed=done)
            self.progress.start()

    def watch(self, event: Event) -> None:
        """Take one event in."""
        job = event.job
        match event:
            case Started():
                self._running[job.key] = job
            case Progressed(share=share):
                self._shares[job.key] = share
            case Finished(seconds=seconds):
                self._shares[job.key] = 1.0
                self._running.pop(job.key, None)
                if seconds:
                    self._line(f"✓ {job.variant}, seed {job.seed}  {seconds:.0f} s")
            case Failed(reason=reason):
                self._shares[job.key] = 1.0
                self._running.pop(job.key, None)
                self._line(f"✗ {job.variant}, seed {job.seed}: {reason}")
        self._draw()

    def _line(self, text: str) -> None:
        finished = sum(share == 1.0 for share in self._shares.values())
        left = "" if self.progress else f"   {finished} of {len(self._shares)}, {self._left()}"
        self.console.print(text + left, markup=False)

    def _draw(self) -> None:
        if self.progress is None:
            return
        variants = ", ".join(f"{job.variant} ({job.seed})" for job in self._running.values())
        self.progress.update(
            self.progress.task_ids[0],
            completed=sum(self._shares.values()),
            description=f"{self._left()}  {variants}",
        )
        self.progress.refresh()

    def _left(self) -> str:
        """The time left if the rest goes as quickly as what was done since the beginning."""
        done = sum(self._shares.values()) - self._begun_share
        if done <= 0:
            return "time left unknown"
        whole = len(self._shares) - self._begun_share
        seconds = (time.monotonic() - self._began) * (whole - done) / done
        return f"left {int(seconds) // 60}:{int(seconds) % 60:02}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.progress is not None:
            self.progress.stop()


# The record of a study written out: page, table and figures.


def write_report(record: StudyRecord, folder: StudyFolder, *, page: Path | None = None) -> Path:
    """All of them into the study's folder, or the page elsewhere; where the page is."""
    from regard.core.atomic_write import write_whole
    from regard.views.pages.study import study_page, write_figures
    from regard.views.text.study import study_csv

    path = folder.page if page is None else page
    write_whole(path, study_page(record))
    write_whole(folder.table, study_csv(record))
    write_figures(record, folder.figures)
    return path
