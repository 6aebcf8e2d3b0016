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
)
from regard.api.training import train
from regard.core.errors import RegardError
from regard.core.formatting import aligned
from regard.runs.folder import RunFolder
from regard.runs.load import TrainedRun, load
from regard.runs.spec import spec_key
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

    def baselines(self) -> dict[str, dict[str, list[float]]]:
        """Test scores of every baseline by metric, one per fold."""
        found = [run.record["baselines"][SPLIT] for run in self.runs]
        return {
            name: {
                metric: [each[name]["scores"][metric] for each in found]
                for metric in of_first["scores"]
            }
            for name, of_first in found[0].items()
        }

    def as_json(self) -> dict[str, Any]:
        """The folders of the runs, and their scores."""
        folders = [str(run.folder.path) for run in self.runs]
        return {"folders": folders, "scores": self.scores(), "baselines": self.baselines()}

    def lines(self) -> Iterator[str]:
        """A table of metrics: mean over the folds, lowest, highest, and the means of the baselines."""
        spec = self.runs[0].spec
        units = {
            each.name: each.unit for each in task_class(spec.task).all_metrics(spec.task_options)
        }
        baselines = self.baselines()
        yield f"test scores of {len(self.runs)} folds"
        rows = [
            [
                f"{score_name(name, SPLIT)} {units.get(name, '')}".rstrip(),
                *(f"{each:.4g}" for each in (statistics.fmean(found), min(found), max(found))),
                *(
                    f"{statistics.fmean(each[name]):.4g}" if name in each else ""
                    for each in baselines.values()
                ),
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
    log = log or silent
    load_plugins(plugin)
    of_task = run_spec(task, given_options(options), seed=seed)
    place = RunFolder.next_free(of_task.task).path if out is None else Path(out)
    if not hasattr(of_task.task_options, "num_folds"):
        raise RegardError(
            f"--folds {folds}: the task '{of_task.task}' has no folds. Use a task with the option "
            "task.num_folds, such as image_classification."
        )
    if of_task.task_options.num_folds is not None:
        raise RegardError(f"--folds {folds}: remove task.num_folds, which --folds sets.")
    if folds < 2:
        raise RegardError(f"--folds {folds}: use 2 or more.")
    given = setting_texts(options.pop("set", None))
    runs: list[TrainedRun] = []
    for fold in range(folds):
        log(f"fold {fold} of 0 to {folds - 1}")
        settings = [*given, f"task.num_folds={folds}", f"task.fold={fold}"]
        run = _fold_run(
            RunFolder(place / f"fold-{fold}"),
            task,
            seed=seed,
            callbacks=callbacks,
            log=log,
            set=settings,
            **options,
        )
        if run is None:
            log(f"fold {fold} is not finished; the same command with --out {place} continues")
            return None
        runs.append(run)
    return CrossValidation(tuple(runs))


def _fold_run(
    folder: RunFolder,
    task: str | None,
    *,
    seed: int | None,
    callbacks: Sequence[Callback],
    log: Log,
    **options: Any,
) -> TrainedRun | None:
    if not folder.spec.exists():
        return train(task, seed=seed, out=folder.path, callbacks=callbacks, log=log, **options)
    key = spec_key(run_spec(task, given_options(options), seed=seed))
    if key not in folder.manifest.read().keys:
        raise RegardError(
            f"'{folder.path}' contains a run with other settings. Choose another folder with --out."
        )
    if folder.record.exists():
        return load(folder.path)
    return train(resume=folder.path, callbacks=callbacks, log=log)
