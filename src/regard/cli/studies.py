"""`regard study` and `regard report`, and the progress of a study in a terminal."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from regard import api
from regard.cli.options import (
    Device,
    Plugins,
    RecordJson,
    Threads,
    command_line,
    echo,
    echo_data,
    echo_json,
    keywords,
    log,
)
from regard.core.errors import RegardError, printable_lines
from regard.core.formatting import duration_text
from regard.studies.execution.jobs import Failed, Finished, Progressed, Started
from regard.studies.folder import StudyFolder
from regard.studies.spec import builtin_studies

if TYPE_CHECKING:
    from regard.studies.execution.jobs import Event, Job


def run_study(
    study: Annotated[
        str | None, "[STUDY]", f"FILE.toml, or a built-in study: {', '.join(builtin_studies())}."
    ] = None,
    *,
    sweep: Annotated[
        list[str] | None,
        "OPTION=A,B,…",
        "Option to vary, such as mechanism=dot,additive. Repeat it for a grid.",
    ] = None,
    seeds: Annotated[str | None, "N", "Number of seeds, or a list: 5, or 3,4,5."] = None,
    match: Annotated[str | None, "parameters", "Choose widths for equal parameter counts."] = None,
    learning_rates: Annotated[
        str | None, "A,B,…", "Tune per variant; the best on validation is used."
    ] = None,
    tuning_seeds: Annotated[
        str | None, "N", "Number of seeds to tune learning rates with, or a list; default: 3."
    ] = None,
    baseline: Annotated[str | None, "VARIANT", "Reference variant; default: the first."] = None,
    question: Annotated[str | None, "The question, shown on the page."] = None,
    tokens: Annotated[int | None, "Budget in tokens."] = None,
    flops: Annotated[float | None, "Budget in FLOPs."] = None,
    executor: Annotated[str, "local|ray", "Where to run: this machine or a Ray cluster."] = "local",
    address: Annotated[str | None, "ADDRESS", "Ray cluster; default: a local one."] = None,
    workers: Annotated[int | None, "Parallel runs; default: by cores."] = None,
    out: Annotated[Path | None, "FOLDER", "Study folder; default: studies/NAME."] = None,
    plugin: Plugins = None,
    as_json: RecordJson = False,
    **run_options: Any,
) -> None:
    """Train every variant with every seed under one budget, and compare them statistically.

    Run again, it resumes; more seeds or variants only add runs.
    """
    options = keywords(locals())
    from regard.views.text.study import study_table

    with StudyProgress() as progress:
        record = api.study(
            **options,
            command=command_line(),
            on_start=progress.begin,
            on_event=progress.update,
            log=log,
        )
    if as_json:
        echo_json(record.as_json())
        return
    folder = StudyFolder(out or Path("studies") / record.name)
    echo(study_table(record, width=shutil.get_terminal_size().columns))
    echo(f"\npage: {folder.page}\ntable: {folder.table}\nfigures: {folder.figures}")


def run_report(
    paths: Annotated[
        list[Path], "PATH...", "A run folder, several to compare side by side, or a study folder."
    ],
    *,
    out: Annotated[
        Path | None,
        "FILE.html",
        "Path of the page; default: page.html in the folder, report.html for several runs.",
    ] = None,
    figures: Annotated[Path | None, "FOLDER", "Write every chart to this folder, as SVG."] = None,
    png: Annotated[bool, "With --figures: as PNG."] = False,
    from_record: Annotated[bool, "Study: use record.json, without reading the runs."] = False,
    watch: Annotated[
        bool, "Run: write the page again whenever it has changed, until it is finished."
    ] = False,
    interval: Annotated[float, "SECONDS", "With --watch: time between two looks."] = 2.0,
    device: Device = None,
    threads: Threads = None,
    plugin: Plugins = None,
    as_json: RecordJson = False,
    as_csv: Annotated[bool, "Runs or study: print one row per run as CSV."] = False,
) -> None:
    """Write the page of a run, of finished runs of one task side by side, or of a study.

    A run may still be training. A run or study with a mechanism of your own needs its --plugin.
    """
    options = keywords(locals())
    from regard.api.options import validate_exclusive
    from regard.api.reports import report_page, reported
    from regard.core.records.run import RunRecord

    validate_exclusive(json=as_json, csv=as_csv)
    if as_csv and reported(paths) == "run":
        raise RegardError(
            f"--csv: '{paths[0]}' is one run; a table has a row per run. Use --json, or give more runs."
        )
    record = api.report(**options, command=command_line(), log=log)
    width = shutil.get_terminal_size().columns
    if as_json:
        echo_json(record.as_json())
        return
    if isinstance(record, RunRecord):
        from regard.views.text.run import run_text

        echo(run_text(record, width=width))
    elif as_csv:
        echo_data(record.as_csv())
        return
    else:
        from regard.views.text.study import study_table

        echo(study_table(record, width=width))
    echo(f"\npage: {report_page(paths, out)}")


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
        """Start with the jobs of a stage of the study."""
        self.__exit__()
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
                    self._line(f"✓ {job.label}  {duration_text(seconds)}")
            case Failed(reason=reason):
                self._fractions[job.key] = 1.0
                self._running.pop(job.key, None)
                self._line(f"✗ {job.label}: {reason}")
        self._draw()

    def _line(self, text: str) -> None:
        finished = sum(fraction == 1.0 for fraction in self._fractions.values())
        left = "" if self.progress else f"   {finished} of {len(self._fractions)}, {self._left()}"
        self.console.print(printable_lines(text + left), markup=False)

    def _draw(self) -> None:
        if self.progress is None:
            return
        variants = ", ".join(f"{job.variant} ({job.seed})" for job in self._running.values())
        self.progress.update(
            self.progress.task_ids[0],
            completed=sum(self._fractions.values()),
            description=printable_lines(f"{self._left()}  {variants}"),
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
