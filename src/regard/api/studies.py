"""`study`: train and compare variants, and write the page, table and figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

from regard.api.options import (
    TASK_OPTIONS,
    File,
    Log,
    Plugins,
    RunOptions,
    given_options,
    load_plugins,
    optional_path,
    setting_texts,
    silent,
    takes_run_options,
    task_section,
    with_absolute_paths,
    with_budget,
    with_device,
    with_pretrain_file,
)
from regard.core.atomic_write import atomic_write
from regard.core.errors import RegardError
from regard.core.records.study import StudyRecord
from regard.core.registry import parse_value
from regard.runs.plugins import activate_names
from regard.runs.spec import Sections, merge_sections, parse_settings, read_recipe
from regard.studies.execution.jobs import Event, Executor, Job
from regard.studies.execution.local import LocalExecutor
from regard.studies.folder import StudyFolder
from regard.studies.spec import StudySpec, builtin_studies, read_study
from regard.studies.study import run_study

EXECUTORS = ("local", "ray")

# Option → values, or texts such as "cell=lstm,gru".
Sweep = Mapping[str, Sequence[Any]] | Sequence[str]


@takes_run_options
def study(
    study: File | Mapping[str, Any] | None = None,
    *,
    sweep: Sweep = (),
    seeds: int | str | Sequence[int] | None = None,
    match: str | None = None,
    learning_rates: str | Sequence[float] | None = None,
    tuning_seeds: int | str | Sequence[int] | None = None,
    baseline: str | None = None,
    question: str | None = None,
    tokens: int | None = None,
    flops: float | None = None,
    executor: str | Executor = "local",
    address: str | None = None,
    workers: int | None = None,
    out: File | None = None,
    plugin: Plugins = (),
    command: str = "",
    on_start: Callable[[Sequence[Job]], None] = lambda _: None,
    on_event: Callable[[Event], None] = lambda _: None,
    log: Log | None = None,
    **options: Unpack[RunOptions],
) -> StudyRecord:
    """Train every variant with every seed under one budget, compare them statistically, and write a page.

    `study` is a built-in name, FILE.toml or its content as a dict. Run again, it resumes; more seeds or
    variants only add runs. `on_start` receives the jobs of each stage (tuning, comparison), `on_event` what
    happens to them, and the record names `command` as the way to repeat it.
    """
    given, log = given_options(options), log or silent
    load_plugins(plugin)
    runner = _executor(executor, address=address, workers=workers)
    sections = _sections(
        study,
        given,
        sweep=sweep,
        budget={"tokens": tokens, "flops": flops},
        lists={
            "seeds": seeds,
            "learning_rates": learning_rates,
            "tuning_seeds": tuning_seeds,
        },
        keys={"match": match, "baseline": baseline, "question": question},
    )
    spec = StudySpec.from_sections(sections)
    axes = [option.rpartition(".")[2] for option in spec.sections.get("sweep", {})]
    own_name = "" if study is None or isinstance(study, Mapping) else Path(study).stem
    name = own_name or "-".join(axes) or "study"
    folder = StudyFolder(optional_path(out) or Path("studies") / name)
    try:
        record = run_study(
            spec,
            folder.path,
            name=name,
            command=command,
            executor=runner,
            on_event=on_event,
            on_start=on_start,
            log=log,
        )
    except KeyboardInterrupt:
        if folder.study.is_file():  # else nothing was trained
            log("stopped; checkpoints are saved. The same command resumes; intermediate results:")
            log(f"  regard report {folder.path}")
        raise
    write_views(record, folder, page=folder.page)
    return record


def write_views(record: StudyRecord, folder: StudyFolder, *, page: Path) -> None:
    """Write page, table and figures."""
    from regard.views.charts.study import write_figures
    from regard.views.pages.study import study_page

    atomic_write(page, study_page(record))
    atomic_write(folder.table, record.as_csv())
    write_figures(record, folder.figures)


def _executor(name: str | Executor, *, address: str | None, workers: int | None) -> Executor:
    if not isinstance(name, str):
        return name
    if name not in EXECUTORS:
        raise RegardError(f"--executor {name}: choose one of: {', '.join(EXECUTORS)}.")
    if name == "ray":
        if workers is not None:
            raise RegardError(f"--workers {workers}: it is for --executor local. Remove --workers.")
        from regard.studies.execution.ray import RayExecutor

        return RayExecutor(address=address)
    if address is not None:
        raise RegardError(f"--address {address}: it is for a Ray cluster. Add --executor ray.")
    return LocalExecutor(workers=workers)


def _sections(
    study: File | Mapping[str, Any] | None,
    given: Mapping[str, Any],
    *,
    sweep: Sweep,
    budget: dict[str, float | None],
    lists: Mapping[str, Any],
    keys: dict[str, Any],
) -> Sections:
    """The sections of a study: its file, updated with the options that are given."""
    if study is None and "recipe" not in given:
        raise RegardError(
            f"Name a study: {', '.join(builtin_studies())}; or FILE.toml; or give a recipe and a sweep: "
            "regard study --recipe pronounce-quick --sweep mechanism=dot,additive"
        )
    if isinstance(study, Mapping):
        sections = dict(study)
    else:
        sections = {} if study is None else read_study(str(study))
    if "recipe" in given:
        sections["recipe"] = given["recipe"]
    settings = parse_settings(setting_texts(given.get("set")))
    activate_names([settings, sweep])
    sections = merge_sections(sections, with_budget(settings, given, **budget))
    if any(name in given for name in TASK_OPTIONS):
        sections = merge_sections(sections, task_section(given))
    if "pretrain_file" in given:
        before = read_recipe(str(sections["recipe"])) if "recipe" in sections else {}
        with_pretrain_file({**before, **sections}, given["pretrain_file"])  # the stage must exist
        file = {"train_file": given["pretrain_file"]}
        sections = merge_sections(sections, {"pretraining": {"task": file}})
    if "device" in given:
        before = read_recipe(str(sections["recipe"])) if "recipe" in sections else {}
        stage: Sections = {} if before.get("pretraining") is None else {"pretraining": {}}
        sections = with_device({**stage, **sections}, given["device"])
    if "threads" in given:
        sections["threads"] = given["threads"]
    sections = with_absolute_paths(sections)
    if sweep:
        sections["sweep"] = _parse_sweep(sweep)
        sections.pop("variants", None)
        sections.pop("baseline", None)
    for name, given_list in lists.items():
        if given_list is not None:
            is_count = isinstance(given_list, int) or (
                name != "learning_rates" and isinstance(given_list, str) and "," not in given_list
            )
            sections[name] = parse_value(str(given_list)) if is_count else _parse_list(given_list)
    return sections | {key: value for key, value in keys.items() if value is not None}


def _parse_sweep(sweep: Sweep) -> dict[str, list[Any]]:
    if isinstance(sweep, Mapping):
        return {option: list(values) for option, values in sweep.items()}
    axes = [_parse_axis(text) for text in ([sweep] if isinstance(sweep, str) else sweep)]
    found = dict(axes)
    if len(found) < len(axes):
        raise RegardError(
            f"--sweep names an option twice: {', '.join(option for option, _ in axes)}. Give all its "
            "values at once, separated by commas."
        )
    return found


def _parse_list(values: Any) -> list[Any]:
    texts = values.split(",") if isinstance(values, str) else values
    return [parse_value(str(value)) for value in texts]


def _parse_axis(text: str) -> tuple[str, list[Any]]:
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
