"""The bars of doing a study's runs: cores kept busy, little time lost between runs, kills survived.

Runs are tiny: a made-up language of a few hundred words, a second or two each, so that whatever an executor
loses shows. The runs of the two measurements of time are done by one worker a core.

- How busy the cores were: the processor time of all workers, of that of all cores from the first word to
  the last; starting the workers is counted against the executor, though they compute meanwhile.
- Lost per run: what the cores had to give, less the seconds of each run's own training and scoring,
  shared among the runs. Starting workers, reading data, building models and waiting are all in it.
- Killed: all processes of a study at random moments, by SIGKILL, and started again; beside it the same
  study left alone. What each run came to, and the study's record, must be the same bits, except seconds.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.factories.toy_language import toy_sections, write_words

from benchmarks.measuring import Finding
from regard.core.records.study import StudyRecord
from regard.runs.folder import RunFolder
from regard.studies.execution.jobs import Failed, Finished, Job
from regard.studies.execution.local import Processes
from regard.studies.spec import StudySpec
from regard.studies.study import run_study

BUSY, LOST = 85.0, 0.5
MECHANISMS = ("dot", "scaled_dot", "general", "additive")
GRID_SEEDS, KILLED_SEEDS = 10, 3
KILLS = 5
STEPS = 150
ROOT = Path(__file__).parents[1]
COMMAND = [sys.executable, "-m", "benchmarks.study_execution"]


def study_execution() -> Iterator[Finding]:
    """A grid of 40 runs, then 12 runs killed and left alone."""
    with tempfile.TemporaryDirectory(prefix="regard.") as scratch:
        yield from _grid(Path(scratch) / "grid")
        yield _killed(Path(scratch))


def toy_grid(study: Path) -> list[Job]:
    """Four mechanisms, each with ten seeds."""
    pairs = _words(study)
    training = {"steps": STEPS, "evaluate_every": 50}
    return [
        Job(
            key=f"{mechanism}-{seed}",
            variant=mechanism,
            seed=seed,
            sections=toy_sections(
                pairs, model={"mechanism": mechanism}, training=training, seed=seed, threads=1
            ),
            folder=study / "runs" / f"{mechanism}-{seed}",
        )
        for seed in range(GRID_SEEDS)
        for mechanism in MECHANISMS
    ]


def killed_study(scratch: Path) -> StudySpec:
    """Twelve runs that save often enough for a kill to fall between two checkpoints of one run."""
    training = {"steps": STEPS, "evaluate_every": 50, "checkpoint_every": 20}
    sections = toy_sections(_words(scratch), training=training, threads=1)
    sections.pop("seed", None)
    return StudySpec.from_sections(
        {**sections, "over": {"mechanism": list(MECHANISMS)}, "seeds": KILLED_SEEDS}
    )


def _words(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    pairs = folder / "words.dict"
    return pairs if pairs.exists() else write_words(pairs)


def _grid(study: Path) -> Iterator[Finding]:
    jobs = toy_grid(study)
    cores = len(os.sched_getaffinity(0))
    before, began = _children_seconds(), time.monotonic()
    events = list(Processes().run(jobs))
    wall, used = time.monotonic() - began, _children_seconds() - before
    if failed := [event.reason for event in events if isinstance(event, Failed)]:
        raise RuntimeError(f"{len(failed)} runs failed: {failed[0]}")
    own = sum(event.seconds for event in events if isinstance(event, Finished))
    detail = f"{len(jobs)} runs in {wall:.0f} s on {cores} cores, {own / len(jobs):.2f} s each"
    yield Finding("cores busy, %", 100 * used / (wall * cores), BUSY, True, detail)
    yield Finding("lost per run, seconds", (wall * cores - own) / len(jobs), LOST, False)


def _children_seconds() -> float:
    """Processor time of all processes that were started here and have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _killed(scratch: Path) -> Finding:
    alone, killed = scratch / "alone", scratch / "killed"
    began = time.monotonic()
    _start(alone).wait()
    seconds = time.monotonic() - began
    chance = random.Random(0)
    finished: list[int] = []
    while len(finished) < KILLS:
        running = _start(killed)
        # The first seconds of each start are imports, so that a kill mostly meets a training.
        try:
            running.wait(timeout=chance.uniform(0.2, 0.6) * seconds)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
        else:
            break
        finished.append(len(list((killed / "runs").glob("*/record.json"))))
    _start(killed).wait()
    keys = [run.key for run in killed_study(scratch).runs()]
    same = [_came_to(alone / "runs" / key) == _came_to(killed / "runs" / key) for key in keys]
    same.append(_without_seconds(alone) == _without_seconds(killed))
    return Finding(
        f"same bits after {KILLS} kills, of {len(keys)} runs and their study",
        sum(same) if len(finished) == KILLS else 0,
        len(same),
        True,
        f"finished at each kill: {', '.join(map(str, finished))}",
    )


def _start(study: Path) -> subprocess.Popen[bytes]:
    """The study in processes of their own, which a signal to the group reaches together."""
    return subprocess.Popen([*COMMAND, str(study)], cwd=ROOT, start_new_session=True)


def _came_to(folder: Path) -> dict[str, Any]:
    """What must not depend on kills; nothing, if there is no record."""
    run = RunFolder(folder)
    if not run.record.is_file():
        return {}
    record = json.loads(run.record.read_text(encoding="utf-8"))
    del record["outcome"]["seconds"]
    files = [*run.predictions.values(), run.metrics, run.model]
    return {"record": record, **{file.name: file.read_bytes() for file in files}}


def _without_seconds(study: Path) -> StudyRecord | Path:
    """The record of a study without what the clock said; the folder itself if there is none."""
    path = study / "record.json"
    if not path.is_file():
        return study
    record = StudyRecord.from_json(path.read_text(encoding="utf-8"))
    return replace(
        record,
        name="",
        variants=tuple(replace(variant, seconds=0.0) for variant in record.variants),
        runs=tuple(
            replace(
                run, seconds=0.0, curve=tuple(replace(point, seconds=0.0) for point in run.curve)
            )
            for run in record.runs
        ),
    )


def main() -> None:
    """Do the study of twelve runs in the folder that is named, from wherever it stands."""
    study = Path(sys.argv[1])
    run_study(killed_study(study.parent), study)


if __name__ == "__main__":
    main()
