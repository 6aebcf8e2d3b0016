"""The Ray executor on a local cluster, with a killed process."""

from __future__ import annotations

import builtins
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.factories.jobs import comparable_outputs, crashing_job, toy_job
from tests.factories.toy_pronunciation import tiny_sections, write_dictionary

from regard.core.errors import RegardError
from regard.studies.execution.jobs import Executor, Failed, Finished, Progressed, Started
from regard.studies.execution.local import LocalExecutor
from regard.studies.execution.ray import RayExecutor
from regard.studies.spec import StudySpec
from regard.studies.study import run_study


# Not by importing it: a study sets Ray up before that.
@pytest.mark.stress
@pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed")
def test_killed_process_is_retried(tmp_path: Path) -> None:
    bad = {"mechanism": "location", "max_length": 1}
    jobs = [
        crashing_job(tmp_path / "ray", calls=30),
        *(toy_job(tmp_path / "ray", seed=seed) for seed in (0, 1)),
        toy_job(tmp_path / "ray", key="bad", model=bad),
    ]
    events = list(RayExecutor().run(jobs))
    assert (tmp_path / "ray" / "Crashing.crashed").exists()
    ends = {one.job.key: type(one) for one in events if isinstance(one, Finished | Failed)}
    assert ends == {"Crashing": Finished, "run0": Finished, "run1": Finished, "bad": Failed}
    assert Started(jobs[0]) in events
    steps = [one.step for one in events if isinstance(one, Progressed) and one.job is jobs[0]]
    assert any(0 < step < 12 for step in steps)  # it went on from its checkpoint
    assert "max_length=1" in json.loads(jobs[3].failure.read_text())["reason"]
    same = [
        crashing_job(tmp_path / "here", calls=-1),
        *(toy_job(tmp_path / "here", seed=seed) for seed in (0, 1)),
    ]
    list(LocalExecutor(1).run(same))
    for job, other in zip(jobs[:3], same, strict=True):
        assert comparable_outputs(job.folder) == comparable_outputs(other.folder)
    assert list(RayExecutor().run(jobs[:1])) == [Finished(jobs[0], 0.0)]


def test_missing_ray_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    really_import = builtins.__import__

    def without_ray(name: str, *arguments: Any, **words: Any) -> Any:
        if name == "ray":
            raise ImportError("No module named 'ray'")
        return really_import(name, *arguments, **words)

    monkeypatch.setattr(builtins, "__import__", without_ray)
    with pytest.raises(RegardError, match=r"pip install 'regard\[ray\]'"):
        RayExecutor()


@pytest.mark.stress
@pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed")
def test_repetitions_of_a_study_are_bit_identical(tmp_path: Path) -> None:
    """Two repetitions with one worker, with two, and on Ray: records, predictions, metrics, models."""
    data = write_dictionary(tmp_path / "words.dict")
    sections = {
        **tiny_sections(data),
        "sweep": {"mechanism": ["dot", "additive"]},
        "seeds": 2,
        "learning_rates": [1e-3, 1e-2],
        "tuning_seeds": 1,
    }
    executors: list[Executor] = [LocalExecutor(1), LocalExecutor(2), RayExecutor()]
    found = []
    for number, executor in enumerate([*executors, *executors]):
        folder = tmp_path / f"repetition-{number}"
        record = run_study(StudySpec.from_sections(sections), folder, executor=executor)
        assert record.is_finished
        runs = {path.name: comparable_outputs(path) for path in (folder / "runs").iterdir()}
        assert len(runs) == 2 * (2 + 2)
        found.append((record.verdicts, [run.scores for run in record.runs], runs))
    assert all(one == found[0] for one in found)
