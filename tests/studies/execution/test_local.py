"""Jobs done by processes of this machine: errors, kills, stops, and what runs beside what."""

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
from tests.factories.jobs import deadly_job, slow_job, toy_job, without_times

from regard.core.errors import RegardError
from regard.studies.execution.jobs import Event, Failed, Finished, Job, Progressed, Started, attempt
from regard.studies.execution.local import Processes, core_groups
from regard.training.checkpoint import read_checkpoint

ROOT = Path(__file__).parents[3]
EXAMPLE = f"{ROOT / 'examples' / 'my_attention.py'}:CosineAttention"


def kinds(events: Sequence[Event], job: Job) -> list[type]:
    """What was told of a job, progress left out."""
    return [type(one) for one in events if one.job == job and not isinstance(one, Progressed)]


class Mixed(NamedTuple):
    """Jobs of all kinds, by their keys, and what was told of them."""

    jobs: dict[str, Job]
    events: list[Event]


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Mixed:
    study = tmp_path_factory.mktemp("mixed")
    by_clock = {"steps": 6, "seconds": 3600.0}
    jobs = [
        toy_job(study, key="timed", training=by_clock),
        toy_job(study, key="long", model={"mechanism": "location", "max_length": 1}),
        toy_job(study, key="broken", training={"learning_rate": 1e30, "warmup_steps": 0}),
        toy_job(study, key="own", model={"mechanism": "CosineAttention"}, plugins=(EXAMPLE,)),
        toy_job(study, key="timed too", training=by_clock),
        toy_job(study, key="there"),
    ]
    by_key = {job.key: job for job in jobs}
    by_key["there"].folder.mkdir(parents=True)
    (by_key["there"].folder / "record.json").write_text("{}")
    by_key["own"].failure.parent.mkdir()
    by_key["own"].failure.write_text('{"reason": "of yesterday"}')
    return Mixed(by_key, list(Processes(2).run([*jobs, by_key["own"]])))


def test_a_variant_that_fails_does_not_stop_the_rest(mixed: Mixed) -> None:
    reasons = {one.job.key: one.reason for one in mixed.events if isinstance(one, Failed)}
    assert reasons.keys() == {"long", "broken"}
    assert "max_length=1" in reasons["long"]
    assert "Training broke down at step" in reasons["broken"]
    kept = json.loads(mixed.jobs["long"].failure.read_text())
    assert kept["reason"] == reasons["long"]
    assert (kept["variant"], kept["seed"]) == ("toy", 0)
    assert kept["traceback"].startswith("Traceback")
    finished = {one.job.key for one in mixed.events if isinstance(one, Finished)}
    assert finished == {"own", "timed", "timed too", "there"}


def test_finished_runs_are_not_run_again_and_failed_ones_are(mixed: Mixed) -> None:
    there, own = mixed.jobs["there"], mixed.jobs["own"]
    assert mixed.events[0] == Finished(there, 0.0)
    assert kinds(mixed.events, there) == [Finished]
    assert kinds(mixed.events, own) == [Started, Finished]  # once, though it was given twice
    assert not own.failure.exists()
    assert list(Processes().run([own, there])) == [Finished(own, 0.0), Finished(there, 0.0)]


def test_runs_that_the_clock_ends_have_the_machine_to_themselves(mixed: Mixed) -> None:
    order = [(type(one), one.job.key) for one in mixed.events if not isinstance(one, Progressed)]
    alone = ("timed", "timed too")
    assert order[-4:] == [(kind, key) for key in alone for kind in (Started, Finished)]


def test_a_mechanism_of_the_users_own_is_known_to_the_processes(mixed: Mixed) -> None:
    record = json.loads((mixed.jobs["own"].folder / "record.json").read_text())
    assert record["spec"]["model"]["mechanism"] == "CosineAttention"


def test_a_killed_process_has_its_run_taken_up_once(tmp_path: Path) -> None:
    once = deadly_job(tmp_path, calls=30)
    always = deadly_job(tmp_path, calls=0, name="Always")
    events = list(Processes(1).run([once, always]))
    assert (tmp_path / "Deadly.died").exists()
    assert kinds(events, once) == [Started, Started, Finished]
    steps = [one.step for one in events if isinstance(one, Progressed) and one.job == once]
    assert steps[0] == 0
    assert any(0 < step < 12 for step in steps)  # it went on from a checkpoint
    alone = deadly_job(tmp_path / "alone", calls=-1)
    attempt(alone, lambda _: None)
    assert without_times(once.folder) == without_times(alone.folder)
    assert kinds(events, always) == [Started, Started, Failed]
    assert "SIGKILL" in json.loads(always.failure.read_text())["reason"]


STUDY = """
import pickle, sys
from regard.studies.execution.jobs import Progressed
from regard.studies.execution.local import Processes

if __name__ == "__main__":
    try:
        for event in Processes(1).run([pickle.load(sys.stdin.buffer)]):
            if isinstance(event, Progressed) and event.step:
                print("going", flush=True)
    except KeyboardInterrupt:
        print("stopped", flush=True)
"""


@pytest.mark.parametrize("signal_name", ["SIGINT", "SIGTERM", "SIGKILL"])
def test_a_stopped_study_goes_on_and_ends_as_one_that_was_not(
    tmp_path: Path, signal_name: str
) -> None:
    """The signal goes to all processes, as from a terminal; SIGKILL to the first one alone."""
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
    assert running.stdout.readline() == "going\n"
    if signal_name == "SIGKILL":
        running.kill()
    else:
        os.killpg(running.pid, getattr(signal, signal_name))
    # It is at its end only when the last process has ended.
    said = running.stdout.read().split()
    running.wait()
    assert ("stopped" in said) == (signal_name != "SIGKILL")
    assert not job.is_finished
    checkpoint = read_checkpoint(job.folder / "checkpoint.safetensors")
    assert 0 < checkpoint.facts["counters"]["step"] < 100
    for one in (job, whole):
        (one.folder.parents[1] / "hurry").touch()
        assert attempt(one, lambda _: None).state == "finished"
    assert without_times(job.folder) == without_times(whole.folder)


def test_a_script_without_a_guard_is_told_so(tmp_path: Path) -> None:
    script = tmp_path / "unguarded.py"
    script.write_text(
        "from pathlib import Path\n"
        "from regard.studies.execution.jobs import Job\n"
        "from regard.studies.execution.local import Processes\n"
        "job = Job(key='key', variant='variant', seed=0, sections={}, folder=Path('study/runs/key'))\n"
        "list(Processes(1).run([job]))\n"
    )
    ended = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert 'if __name__ == "__main__":' in ended.stderr.splitlines()[-1]


@pytest.mark.parametrize("workers", [0, -1, True])
def test_a_number_of_workers_must_be_one(workers: int) -> None:
    with pytest.raises(RegardError, match=r"workers=.* at least 1"):
        Processes(workers)


def test_cores_are_shared_out_whole() -> None:
    assert core_groups([2, 3, 5, 7], 2) == [[2, 3], [5, 7]]
    assert core_groups([2, 3, 5, 7], 3) == [[2], [3], [5, 7]]
    assert core_groups([4], 2) == [[4], [4]]
