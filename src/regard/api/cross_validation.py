"""`train --folds`: one run per fold of the data, and the scores of all of them."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

from regard.api.options import (
    File,
    Log,
    Plugins,
    RunOptions,
    given_options,
    load_plugins,
    run_spec,
    setting_texts,
    silent,
    takes_run_options,
    torch_threads,
)
from regard.core.errors import RegardError
from regard.core.formatting import aligned
from regard.runs.folder import RunFolder
from regard.runs.load import TrainedRun, load
from regard.runs.spec import spec_key
from regard.runs.train import begin_run, resume_run
from regard.tasks import task_class
from regard.training.callbacks import Callback, score_name

SPLIT = "test"


@dataclass(frozen=True)
class CrossValidation:
    """The runs of all folds. Their training splits overlap, so their scores are not independent."""

    runs: tuple[TrainedRun, ...]

    def scores(self) -> dict[str, list[float]]:
        """Test scores by metric, one per fold."""
        found = [run.record["scores"][SPLIT] for run in self.runs]
        return {name: [each[name] for each in found] for name in found[0]}

    def baselines(self) -> dict[str, dict[str, float]]:
        """Mean test scores of every baseline, by metric."""
        found = [run.record["baselines"].get(SPLIT, {}) for run in self.runs]
        return {
            name: {
                metric: statistics.fmean(each[name]["scores"][metric] for each in found)
                for metric in of_first["scores"]
            }
            for name, of_first in found[0].items()
        }

    def as_json(self) -> dict[str, Any]:
        """The folders of the runs, and their scores."""
        folders = [str(run.folder.path) for run in self.runs]
        return {"folders": folders, "scores": self.scores(), "baselines": self.baselines()}

    def lines(self) -> Iterator[str]:
        """A table of metrics: mean over the folds, lowest, highest, and the baselines."""
        spec = self.runs[0].spec
        units = {
            each.name: each.unit for each in task_class(spec.task).all_metrics(spec.task_options)
        }
        baselines = self.baselines()
        yield f"{len(self.runs)} folds, test scores"
        rows = [
            [
                f"{score_name(name, SPLIT)} {units.get(name, '')}".rstrip(),
                *(f"{each:.4g}" for each in (statistics.fmean(found), min(found), max(found))),
                *(f"{each[name]:.4g}" if name in each else "" for each in baselines.values()),
            ]
            for name, found in self.scores().items()
        ]
        yield from aligned([["", "mean", "lowest", "highest", *baselines], *rows], left=(0,))


@takes_run_options
def cross_validate(
    task: str | None = None,
    *,
    folds: int,
    seed: int | None = None,
    out: File | None = None,
    plugin: Plugins = (),
    callbacks: Sequence[Callback] = (),
    log: Log | None = None,
    **options: Unpack[RunOptions],
) -> CrossValidation | None:
    """Train one run per fold, in the folders `out`/fold-0, fold-1, …; None if interrupted (Ctrl-C).

    Folds that are finished in `out` are not trained again, and an interrupted one resumes.
    """
    log, given = log or silent, given_options(options)
    place = RunFolder.next_free(task or "fold").path if out is None else Path(out)
    load_plugins(plugin)
    if not hasattr((spec := run_spec(task, given, seed=seed)).task_options, "num_folds"):
        raise RegardError(
            f"--folds {folds}: the task '{spec.task}' has no folds. Use a task with the option "
            "task.num_folds, such as image_classification."
        )
    runs: list[TrainedRun] = []
    for fold in range(folds):
        settings = [
            *setting_texts(options.get("set")),
            f"task.num_folds={folds}",
            f"task.fold={fold}",
        ]
        spec = run_spec(task, {**given, "set": settings}, seed=seed)
        folder = RunFolder(place / f"fold-{fold}")
        log(f"fold {fold} of {folds}")
        if folder.exists:
            folder.verify(key=spec_key(spec), is_resumed=True)
        with torch_threads(spec.threads):
            if not folder.exists:
                record = begin_run(spec, folder, callbacks=callbacks, log=log)
            elif not folder.record.exists():
                record = resume_run(folder, callbacks=callbacks, log=log)
            else:
                record = folder.read_record()
        if record is None:
            log("stopped and saved; the same command with the same --out continues")
            return None
        runs.append(load(folder.path))
    return CrossValidation(tuple(runs))
