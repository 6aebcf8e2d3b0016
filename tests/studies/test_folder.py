"""Study folders that were killed, edited, linked, or whose runs were removed or extended."""

from __future__ import annotations

import json
import shutil
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest
from tests.factories.toy_pronunciation import tiny_sections, write_dictionary

from regard import api
from regard.core.errors import RegardError
from regard.core.records.study import StudyRecord
from regard.runs.folder import RunFolder
from regard.runs.train import resume_run
from regard.studies.execution.jobs import Event, Finished, Job, run_job, write_failure
from regard.studies.folder import StudyFolder
from regard.studies.prepare import PreparedStudy
from regard.studies.spec import StudySpec
from regard.studies.study import run_study


class InProcess:
    """An executor without worker processes; `skipped` runs fail."""

    def __init__(self, skipped: int = -1) -> None:
        self.skipped = skipped

    def run(self, jobs: Sequence[Job]) -> Generator[Event, None, None]:
        for number, job in enumerate(jobs):
            if number == self.skipped:
                write_failure(job, reason="out of memory")
                continue
            run_job(job.sections, job.folder)
            yield Finished(job, 0.0)


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> StudySpec:
    words = write_dictionary(tmp_path_factory.mktemp("words") / "words.dict", count=60)
    sections = tiny_sections(words, threads=1)
    return StudySpec.from_sections({**sections, "sweep": {"mechanism": ["dot"]}, "seeds": 2})


def run(spec: StudySpec, path: Path, *, skipped: int = -1) -> StudyRecord:
    return run_study(spec, path, name="study", executor=InProcess(skipped))


@pytest.fixture(scope="module")
def original(spec: StudySpec, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("original") / "study"
    run(spec, path)
    return path


@pytest.fixture
def study(original: Path, tmp_path: Path) -> StudyFolder:
    shutil.copytree(original, tmp_path / "study")
    return StudyFolder(tmp_path / "study")


def test_study_killed_while_its_folder_is_made_resumes(spec: StudySpec, tmp_path: Path) -> None:
    folder = StudyFolder(tmp_path / "study")
    folder.runs.mkdir(parents=True)
    (folder.path / ".regard.left").write_text("half")
    assert run(spec, folder.path).seeds == (0, 1)
    assert not (folder.path / ".regard.left").exists()


def test_study_killed_before_its_file_resumes(
    spec: StudySpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(PreparedStudy, "write", die)
        with pytest.raises(KeyboardInterrupt):
            run(spec, tmp_path / "study")
    assert run(spec, tmp_path / "study").seeds == (0, 1)


def test_other_runs_are_not_a_study(spec: StudySpec, tmp_path: Path) -> None:
    (tmp_path / "mine/runs/pronounce-1").mkdir(parents=True)
    with pytest.raises(RegardError, match="not empty and not a study folder"):
        run(spec, tmp_path / "mine")


def test_temporary_files_are_removed(spec: StudySpec, study: StudyFolder) -> None:
    for folder in (study.path, study.failures, study.figures):
        folder.mkdir(exist_ok=True)
        (folder / ".regard.left").write_text("half")
    run(spec, study.path)
    assert not list(study.path.rglob(".regard.*"))


def test_removed_study_file_is_written_again(spec: StudySpec, study: StudyFolder) -> None:
    """The way out of a damaged study.json."""
    before = study.record.read_text()
    study.study.write_text(study.study.read_text().replace("dot", "general"))
    with pytest.raises(RegardError, match=r"study\.json' was modified.*remove it and run"):
        run(spec, study.path)
    study.study.unlink()
    assert run(spec, study.path).as_json() == before


def test_edited_record_is_refused_and_compared_again(study: StudyFolder) -> None:
    before = study.record.read_text()
    record = json.loads(before)
    record["headline"] = ["dot is best"]
    study.record.write_text(json.dumps(record))
    with pytest.raises(RegardError, match=r"record\.json' was modified.*regard report"):
        api.report(study.path, from_record=True)
    assert api.report(study.path).as_json() == before
    assert api.report(study.path, from_record=True).as_json() == before


def test_missing_finished_run_is_an_error_of_the_report(
    spec: StudySpec, study: StudyFolder
) -> None:
    before = json.loads(study.record.read_text())
    shutil.rmtree(next(study.runs.iterdir()))
    with pytest.raises(RegardError, match=r"is missing.*run the study again"):
        api.report(study.path)
    again = json.loads(run(spec, study.path).as_json())
    assert [one["scores"] for one in again["runs"]] == [one["scores"] for one in before["runs"]]


def test_extended_run_is_noticed(spec: StudySpec, study: StudyFolder) -> None:
    folder = RunFolder(next(study.runs.iterdir()))
    assert resume_run(folder, extend=2) is not None
    with pytest.raises(RegardError, match=r"contains another run.*It was extended"):
        api.report(study.path)
    with pytest.raises(RegardError, match="contains another run"):
        run(spec, study.path)


def test_failures_are_read_as_written(spec: StudySpec, tmp_path: Path) -> None:
    record = run(spec, tmp_path / "study", skipped=1)
    assert [one.state for one in record.runs] == ["finished", "failed"]
    folder = StudyFolder(tmp_path / "study")
    failure = folder.failure(record.runs[1].key)
    written = failure.read_text()
    failure.write_text(written.replace("memory", "time"))
    with pytest.raises(RegardError, match="was modified"):
        api.report(folder.path)
    failure.unlink()
    with pytest.raises(RegardError, match=f"{failure.name}' cannot be read"):
        api.report(folder.path)
    failure.write_text(written)
    again = api.report(folder.path)
    assert isinstance(again, StudyRecord)
    assert again.runs[1].reason == "out of memory"
    assert [one.state for one in run(spec, folder.path).runs] == ["finished", "finished"]


@pytest.mark.parametrize("name", ["runs", "record.json", "figures", "page.html"])
def test_links_are_refused(spec: StudySpec, study: StudyFolder, name: str) -> None:
    path = study.path / name
    if path.exists():
        path.rename(study.path.with_name("elsewhere"))
    path.symlink_to(study.path.with_name("elsewhere"))
    with pytest.raises(RegardError, match=f"{name}' is a symbolic link"):
        api.report(study.path)
    with pytest.raises(RegardError, match=f"{name}' is a symbolic link"):
        run(spec, study.path)


def test_failure_before_a_finished_run_is_ignored(study: StudyFolder) -> None:
    before = study.record.read_text()
    key = next(study.runs.iterdir()).name
    study.write(study.failure(key), {"reason": "earlier"})
    assert api.report(study.path).as_json() == before
