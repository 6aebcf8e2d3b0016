"""`report`: the page of a run, of runs side by side, or of a study."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from time import sleep
from typing import Any, Literal

from regard.api.options import File, Log, Plugins, compute_on, load_plugins, optional_path, silent
from regard.api.studies import write_views
from regard.core.atomic_write import atomic_write, validate_writable
from regard.core.errors import RegardError
from regard.core.formatting import integer_text, percent_text
from regard.core.manifest import validate_no_link
from regard.core.records.run import RunRecord
from regard.core.records.study import StudyRecord
from regard.runs.folder import RunFolder
from regard.studies.folder import StudyFolder
from regard.studies.prepare import PreparedStudy
from regard.studies.run_comparison import compare_runs
from regard.studies.run_report import run_record
from regard.studies.study import write_record
from regard.training.process import is_locked

COMPARISON_PAGE = Path("report.html")
Reported = Literal["run", "runs", "study"]


def report(
    paths: File | Sequence[File],
    *,
    out: File | None = None,
    figures: File | None = None,
    png: bool = False,
    from_record: bool = False,
    watch: bool = False,
    interval: float = 2.0,
    device: str | None = None,
    threads: int | None = None,
    plugin: Plugins = (),
    command: str = "",
    log: Log | None = None,
) -> RunRecord | StudyRecord:
    """Write the page of a run, finished or not, of several runs side by side, or of a study.

    A page is in the folder, that of several runs is report.html, unless `out` is given. Every chart is
    written to the folder `figures`, as SVG or `png`; those of a study are in its folder anyway. Of a
    study, all finished runs are compared again, and missing ones are listed; `from_record` uses its
    record.json, without reading the runs. `watch` writes the page of a run again whenever its logs have
    changed, looking every `interval` seconds, until it is finished. Models whose attention is shown run
    on `device` with `threads`. The record of several runs names `command`.
    """
    folders, log = report_folders(paths), log or silent
    charts = optional_path(figures)
    if png and charts is None:
        raise RegardError("--png: charts are written to a folder. Name it: --figures FOLDER.")
    if charts is not None and charts.exists() and not charts.is_dir():
        raise RegardError(f"--figures {charts}: it is a file. Name a folder.")
    suffix = ".png" if png else ".svg"
    if charts is not None:
        validate_writable(charts / f"figure{suffix}")
    with compute_on(device, threads):
        kind = reported(folders)
        _validate_options(kind, folders, from_record=from_record, watch=watch, interval=interval)
        page = report_page(folders, out)
        if out is None and kind == "run":
            validate_no_link(page)
        validate_writable(page)
        load_plugins(plugin)
        runs = [RunFolder(path) for path in folders]
        record: RunRecord | StudyRecord
        if kind == "study":
            record = _report_study(StudyFolder(folders[0]), page, from_record=from_record, log=log)
        elif kind == "run":
            record = _report_run(runs[0], page, interval=interval if watch else None, log=log)
        else:
            from regard.views.pages.study import study_page

            record = compare_runs(runs, command=command, log=log)
            atomic_write(page, study_page(record))
    if charts is not None:
        from regard.views import write_figures, write_run_figures

        if isinstance(record, RunRecord):
            write_run_figures(record, charts, suffix=suffix)
        else:
            write_figures(record, charts, suffix=suffix)
    return record


def report_folders(paths: File | Sequence[File]) -> list[Path]:
    """The paths as a list."""
    return [Path(paths)] if isinstance(paths, str | PathLike) else [Path(path) for path in paths]


def reported(folders: Sequence[Path]) -> Reported:
    """What is in the folders; raises unless it is one study, or runs."""
    kinds = {path: _kind(path) for path in folders}
    studies = [path for path, kind in kinds.items() if kind == "study"]
    if studies and len(folders) > 1:
        raise RegardError(
            f"'{studies[0]}' is a study folder, and a study is reported alone: regard report {studies[0]}. "
            f"Its runs can be compared with others: they are in {StudyFolder(studies[0]).runs}."
        )
    if not folders:
        raise RegardError("0 folders: give the folder of a run or of a study.")
    return "study" if studies else "run" if len(folders) == 1 else "runs"


def _kind(path: Path) -> Reported:
    if StudyFolder(path).study.is_file():
        return "study"
    if RunFolder(path).spec.is_file():
        return "run"
    expected = (
        "Give the folder printed by `regard train`, such as runs/pronounce-1, or by `regard study`."
    )
    if not path.is_dir():
        what = "is a file, not a folder" if path.exists() else "does not exist"
        raise RegardError(f"'{path}' {what}. {expected}")
    inner = sorted(each.parent for each in path.glob("*/spec.json"))
    if inner:
        expected = f"It has run folders inside: regard report {' '.join(map(str, inner[:2]))}"
    raise RegardError(
        f"'{path}' is not a study folder and not a run: it has neither study.json nor spec.json. {expected}"
    )


def report_page(folders: Sequence[Path], out: File | None = None) -> Path:
    """The path of the page."""
    chosen = optional_path(out)
    if chosen is not None:
        return chosen
    return RunFolder(folders[0]).page if len(folders) == 1 else COMPARISON_PAGE


def _validate_options(
    kind: Reported, folders: Sequence[Path], *, from_record: bool, watch: bool, interval: float
) -> None:
    if from_record and kind != "study":
        raise RegardError(
            f"--from-record: '{folders[0]}' is a run; only a study has the record of a page. Remove it."
        )
    if watch and kind != "run":
        what = "is a study" if kind == "study" else f"is one of {len(folders)} runs"
        raise RegardError(f"--watch: '{folders[0]}' {what}; only one run is watched. Remove it.")
    if not interval > 0:
        raise RegardError(f"--interval {interval:g}: the seconds between two looks are above 0.")


def _report_study(folder: StudyFolder, page: Path, *, from_record: bool, log: Log) -> StudyRecord:
    if from_record:
        folder.validate_links()
        folder.read(folder.record)  # raises if it is missing or malformed
        record = StudyRecord.from_json(folder.read_text(folder.record))
    else:
        prepared = PreparedStudy.read(folder, changed_plugins="warn")
        record = write_record(prepared, folder, log=log)
    write_views(record, folder, page=page)
    return record


def _report_run(folder: RunFolder, page: Path, *, interval: float | None, log: Log) -> RunRecord:
    """Write the page once, or with `interval` until the run is finished."""
    from regard.views.pages.run import run_page

    if interval is None:
        record = run_record(folder, log=log)
        atomic_write(page, run_page(record))
        return record
    shown, problem = None, ""
    while True:
        state = _state(folder)
        if state != shown:
            try:
                record = run_record(folder)
                refresh = None if record.is_finished else max(1, round(interval))
                atomic_write(page, run_page(record, refresh_seconds=refresh))
            except RegardError as error:
                # Files may change while they are read; what stays is an error.
                if str(error) == problem:
                    raise
                problem = str(error)
                sleep(interval)
                continue
            shown, problem = state, ""
            log(
                f"{record.state}: step {integer_text(record.steps)}, "
                f"{percent_text(record.progress)} of {record.budget}; wrote {page}"
            )
            if record.is_finished:
                return record
        sleep(interval)


def _state(folder: RunFolder) -> tuple[Any, ...]:
    """Changes with every row of the logs, and when the run is stopped, resumed or finished."""
    found: list[Any] = [is_locked(folder.path)]
    for path in (folder.metrics, folder.timing, folder.spec, folder.record):
        try:
            facts = path.stat()
            found.append((facts.st_size, facts.st_mtime_ns))
        except FileNotFoundError:
            found.append(None)
    return tuple(found)
