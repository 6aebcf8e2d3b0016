"""Study execution: core utilisation, overhead per run, and recovery from kills.

Runs are tiny: a synthetic language of a few hundred words, a second or two each, so that the overhead of
the executor shows. Both time measurements use one worker per core.

- Utilisation: CPU time of all workers over the time of all cores, from start to end; starting the workers
  counts as overhead.
- Overhead per run: available core seconds minus the seconds of training and scoring, divided by the
number of
  runs. It includes starting workers, loading data, building models and waiting.
- Kills: all processes of a study are killed by SIGKILL at random times and restarted. The results of each
run and
  the study record must be bit-identical to an undisturbed study, except for seconds.
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

from tests.factories.toy_pronunciation import toy_sections, write_dictionary

from benchmarks.measurement import Measurement
from regard.core.records.study import StudyRecord
from regard.runs.folder import RunFolder
from regard.studies.execution.jobs import Failed, Finished, Job
from regard.studies.execution.local import LocalExecutor
from regard.studies.spec import StudySpec
from regard.studies.study import run_study

MIN_UTILISATION, MAX_OVERHEAD = 85.0, 0.5
MECHANISMS = ("dot", "scaled_dot", "general", "additive")
GRID_SEEDS, KILLED_SEEDS = 10, 3
KILLS = 5
STEPS = 150
ROOT = Path(__file__).parents[1]
COMMAND = [sys.executable, "-m", "benchmarks.study_execution"]


def study_execution() -> Iterator[Measurement]:
    """A grid of 40 runs, then 12 runs with and without kills."""
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
    """Twelve runs with frequent checkpoints, so that kills fall between two of them."""
    training = {"steps": STEPS, "evaluate_every": 50, "checkpoint_every": 20}
    sections = toy_sections(_words(scratch), training=training, threads=1)
    sections.pop("seed", None)
    return StudySpec.from_sections(
        {**sections, "sweep": {"mechanism": list(MECHANISMS)}, "seeds": KILLED_SEEDS}
    )


def _words(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    pairs = folder / "words.dict"
    return pairs if pairs.exists() else write_dictionary(pairs)


def _grid(study: Path) -> Iterator[Measurement]:
    jobs = toy_grid(study)
    cores = len(os.sched_getaffinity(0))
    before, began = _children_seconds(), time.monotonic()
    events = list(LocalExecutor().run(jobs))
    wall, used = time.monotonic() - began, _children_seconds() - before
    if failed := [event.reason for event in events if isinstance(event, Failed)]:
        raise RuntimeError(f"{len(failed)} runs failed: {failed[0]}")
    own = sum(event.seconds for event in events if isinstance(event, Finished))
    detail = f"{len(jobs)} runs in {wall:.0f} s on {cores} cores, {own / len(jobs):.2f} s each"
    yield Measurement(
        "core utilisation, %", 100 * used / (wall * cores), MIN_UTILISATION, True, detail
    )
    yield Measurement(
        "overhead per run, seconds", (wall * cores - own) / len(jobs), MAX_OVERHEAD, False
    )


def _children_seconds() -> float:
    """CPU time of all finished child processes."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _killed(scratch: Path) -> Measurement:
    alone, killed = scratch / "alone", scratch / "killed"
    began = time.monotonic()
    _start(alone).wait()
    seconds = time.monotonic() - began
    rng = random.Random(0)
    finished: list[int] = []
    while len(finished) < KILLS:
        running = _start(killed)
        # The first seconds are imports; later kills mostly hit a training.
        try:
            running.wait(timeout=rng.uniform(0.2, 0.6) * seconds)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
        else:
            break
        finished.append(len(list((killed / "runs").glob("*/record.json"))))
    _start(killed).wait()
    keys = [run.key for run in killed_study(scratch).runs()]
    identical = [_results(alone / "runs" / key) == _results(killed / "runs" / key) for key in keys]
    identical.append(_without_seconds(alone) == _without_seconds(killed))
    return Measurement(
        f"bit-identical after {KILLS} kills, of {len(keys)} runs and their study",
        sum(identical) if len(finished) == KILLS else 0,
        len(identical),
        True,
        f"finished at each kill: {', '.join(map(str, finished))}",
    )


def _start(study: Path) -> subprocess.Popen[bytes]:
    """Start the study in its own process group, so that one signal reaches all processes."""
    return subprocess.Popen([*COMMAND, str(study)], cwd=ROOT, start_new_session=True)


def _results(folder: Path) -> dict[str, Any]:
    """Results that must not depend on kills; empty without a record."""
    run = RunFolder(folder)
    if not run.record.is_file():
        return {}
    record = json.loads(run.record.read_text(encoding="utf-8"))
    del record["outcome"]["seconds"], record["outcome"]["evaluation_seconds"]
    files = [*run.predictions.values(), run.metrics, run.model]
    return {"record": record, **{file.name: file.read_bytes() for file in files}}


def _without_seconds(study: Path) -> StudyRecord | Path:
    """The study record without times; the folder itself if there is none."""
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
                run,
                seconds=0.0,
                evaluation_seconds=0.0,
                curve=tuple(replace(point, seconds=0.0) for point in run.curve),
            )
            for run in record.runs
        ),
    )


def main() -> None:
    """Run or resume the study of twelve runs in the folder of the command line."""
    study = Path(sys.argv[1])
    run_study(killed_study(study.parent), study)


if __name__ == "__main__":
    main()
