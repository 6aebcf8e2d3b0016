"""The local executor: errors, kills, stops, parallel and sequential jobs."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.factories.jobs import comparable_outputs, crashing_job, slow_job, toy_job

from regard.core.errors import RegardError
from regard.studies.execution.jobs import Event, Failed, Finished, Job, Progressed, Started, try_job
from regard.studies.execution.local import LocalExecutor, core_groups
from regard.training.checkpoint import read_checkpoint

ROOT = Path(__file__).parents[3]
EXAMPLE = f"{ROOT / 'examples' / 'my_attention.py'}:CosineAttention"


def kinds(events: Sequence[Event], job: Job) -> list[type]:
    """The events of a job without progress."""
    return [type(one) for one in events if one.job == job and not isinstance(one, Progressed)]


class Mixed(NamedTuple):
    """Jobs of all kinds by key, and their events."""

    jobs: dict[str, Job]
    events: list[Event]


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Mixed:
    study = tmp_path_factory.mktemp("mixed")
    timed = {"steps": 6, "seconds": 3600.0}
    jobs = [
        toy_job(study, key="timed", training=timed),
        toy_job(study, key="long", model={"mechanism": "location", "max_length": 1}),
        toy_job(study, key="broken", training={"learning_rate": 1e30, "warmup_steps": 0}),
        toy_job(study, key="own", model={"mechanism": "CosineAttention"}, plugins=(EXAMPLE,)),
        toy_job(study, key="timed too", training=timed),
        toy_job(study, key="there"),
    ]
    by_key = {job.key: job for job in jobs}
    by_key["there"].folder.mkdir(parents=True)
    (by_key["there"].folder / "record.json").write_text("{}")
    by_key["own"].failure.parent.mkdir()
    by_key["own"].failure.write_text('{"reason": "of yesterday"}')
    return Mixed(by_key, list(LocalExecutor(2).run([*jobs, by_key["own"]])))


def test_failed_job_does_not_stop_the_others(mixed: Mixed) -> None:
    reasons = {one.job.key: one.reason for one in mixed.events if isinstance(one, Failed)}
    assert reasons.keys() == {"long", "broken"}
    assert "max_length=1" in reasons["long"]
    assert "Training diverged at step" in reasons["broken"]
    failure = json.loads(mixed.jobs["long"].failure.read_text())
    assert failure["reason"] == reasons["long"]
    assert (failure["variant"], failure["seed"]) == ("toy", 0)
    assert failure["traceback"].startswith("Traceback")
    finished = {one.job.key for one in mixed.events if isinstance(one, Finished)}
    assert finished == {"own", "timed", "timed too", "there"}


def test_failed_jobs_are_retried_and_finished_ones_not(mixed: Mixed) -> None:
    there, own = mixed.jobs["there"], mixed.jobs["own"]
    assert mixed.events[0] == Finished(there, 0.0)
    assert kinds(mixed.events, there) == [Finished]
    assert kinds(mixed.events, own) == [Started, Finished]  # once, though it was given twice
    assert not own.failure.exists()
    assert list(LocalExecutor().run([own, there])) == [Finished(own, 0.0), Finished(there, 0.0)]


def test_timed_jobs_run_alone(mixed: Mixed) -> None:
    order = [(type(one), one.job.key) for one in mixed.events if not isinstance(one, Progressed)]
    alone = ("timed", "timed too")
    assert order[-4:] == [(kind, key) for key in alone for kind in (Started, Finished)]


def test_plugins_are_loaded_in_workers(mixed: Mixed) -> None:
    record = json.loads((mixed.jobs["own"].folder / "record.json").read_text())
    assert record["spec"]["model"]["mechanism"] == "CosineAttention"


@pytest.mark.stress
def test_killed_worker_is_retried_once(tmp_path: Path) -> None:
    once = crashing_job(tmp_path, calls=30)
    always = crashing_job(tmp_path, calls=0, name="Always")
    events = list(LocalExecutor(1).run([once, always]))
    assert (tmp_path / "Crashing.crashed").exists()
    assert kinds(events, once) == [Started, Started, Finished]
    steps = [one.step for one in events if isinstance(one, Progressed) and one.job == once]
    assert steps[0] == 0
    assert any(0 < step < 12 for step in steps)  # resumed from a checkpoint
    alone = crashing_job(tmp_path / "alone", calls=-1)
    try_job(alone, lambda _: None)
    assert comparable_outputs(once.folder) == comparable_outputs(alone.folder)
    assert kinds(events, always) == [Started, Started, Failed]
    assert "SIGKILL" in json.loads(always.failure.read_text())["reason"]


STUDY = """
import pickle, sys
from regard.studies.execution.jobs import Progressed
from regard.studies.execution.local import LocalExecutor

if __name__ == "__main__":
    try:
        for event in LocalExecutor(1).run([pickle.load(sys.stdin.buffer)]):
            if isinstance(event, Progressed) and event.step:
                print("running", flush=True)
    except KeyboardInterrupt:
        print("stopped", flush=True)
"""


@pytest.mark.parametrize(
    "signal_name",
    [
        pytest.param("SIGINT", marks=pytest.mark.stress),
        pytest.param("SIGTERM", marks=pytest.mark.stress),
        "SIGKILL",
    ],
)
def test_stopped_study_is_bit_reproducible(tmp_path: Path, signal_name: str) -> None:
    """The signal is sent to all processes, as from a terminal; SIGKILL to the parent only."""
    script = tmp_path / "study.py"
    script.write_text(STUDY)
    job, whole = slow_job(tmp_path / "stopped"), slow_job(tmp_path / "whole")
    (tmp_path / "job").write_bytes(pickle.dumps(job))
    with (tmp_path / "job").open("rb") as file:
        running = subprocess.Popen(
            [sys.executable, str(script)],
            stdin=file,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
    assert running.stdout is not None
    assert running.stdout.readline() == "running\n"
    if signal_name == "SIGKILL":
        running.kill()
    else:
        os.killpg(running.pid, getattr(signal, signal_name))
    # The pipe closes when the last process has ended.
    output = running.stdout.read().split()
    running.wait()
    assert ("stopped" in output) == (signal_name != "SIGKILL")
    assert not job.is_finished
    checkpoint = read_checkpoint(job.folder / "checkpoint.safetensors")
    assert 0 < checkpoint.metadata["state"]["step"] < 100
    for one in (job, whole):
        (one.folder.parents[1] / "hurry").touch()
        assert try_job(one, lambda _: None).state == "finished"
    assert comparable_outputs(job.folder) == comparable_outputs(whole.folder)


def test_script_without_main_guard(tmp_path: Path) -> None:
    script = tmp_path / "unguarded.py"
    script.write_text(
        "from pathlib import Path\n"
        "from regard.studies.execution.jobs import Job\n"
        "from regard.studies.execution.local import LocalExecutor\n"
        "job = Job(key='key', variant='variant', seed=0, sections={}, folder=Path('study/runs/key'))\n"
        "list(LocalExecutor(1).run([job]))\n"
    )
    ended = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert 'if __name__ == "__main__":' in ended.stderr.splitlines()[-1]


@pytest.mark.parametrize("workers", [0, -1, True])
def test_invalid_number_of_workers(workers: int) -> None:
    with pytest.raises(RegardError, match=r"workers=.* at least 1"):
        LocalExecutor(workers)


def test_core_groups() -> None:
    assert core_groups([2, 3, 5, 7], 2) == [[2, 3], [5, 7]]
    assert core_groups([2, 3, 5, 7], 3) == [[2], [3], [5, 7]]
    assert core_groups([4], 2) == [[4], [4]]
