"""Plug-ins: named by the user, recorded in folders, and never imported because a folder names them."""

from __future__ import annotations

import json
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Annotated, Any

import pytest
from tests.factories.command_line import exit_code
from tests.factories.toy_pronunciation import tiny_sections, write_dictionary

from regard.core import registry
from regard.core.errors import RegardError
from regard.core.options import Introduced
from regard.mechanisms import REGISTRY, mechanism_class
from regard.mechanisms.scores.dot_product import DotAttention
from regard.runs import spec as spec_module
from regard.runs.folder import RunFolder
from regard.runs.load import load
from regard.runs.plugins import activate_names, load_plugins, validate_plugins
from regard.runs.spec import RunSpec, spec_key
from regard.runs.train import begin_run, read_spec, resume_run
from regard.studies.folder import StudyFolder
from regard.studies.prepare import PreparedStudy
from regard.studies.spec import StudySpec
from regard.studies.study import run_study
from regard.training import checkpoint
from regard.training.options import TrainingOptions

pytestmark = pytest.mark.usefixtures("no_plugins")

# Writes a marker when it is imported.
MINE = """
from pathlib import Path

from regard.mechanisms import DotAttention

Path(__file__).with_name("imported").touch()


class Mine(DotAttention):
    pass
"""


class ChangedTraining(TrainingOptions):
    """Training options with one that was added later; its default has changed since."""

    jitter: Annotated[float, Introduced(0.0)] = 0.5


class LaterTraining(TrainingOptions):
    """Training options with one that was added later."""

    jitter: Annotated[float, Introduced(0.0)] = 0.0


@pytest.fixture
def mine(tmp_path: Path) -> str:
    file = tmp_path / "mine.py"
    file.write_text(MINE)
    return f"{file}:Mine"


@pytest.fixture
def sections(tmp_path: Path) -> dict[str, Any]:
    pairs = write_dictionary(tmp_path / "words.dict", count=60)
    found = tiny_sections(pairs, threads=1)
    found["model"]["mechanism"] = "Mine"
    return found


def forget(tmp_path: Path) -> None:
    """As in a new process."""
    REGISTRY.plugins.clear()
    (tmp_path / "imported").unlink()


def test_run_folder_never_imports(tmp_path: Path, mine: str, sections: dict[str, Any]) -> None:
    assert load_plugins([mine]) == ["Mine"]
    run = RunFolder(tmp_path / "run")
    assert begin_run(RunSpec.from_sections(sections), run)
    recorded = json.loads(run.spec.read_text())["plugins"]["Mine"]
    assert recorded["target"] == mine
    forget(tmp_path)
    run.manifest.remove([run.record])
    for action in (
        ["predict", str(run.path), "ab"],
        ["train", "--resume", str(run.path)],
        ["train", "pronounce", "--init-from", str(run.path)],
    ):
        assert exit_code(action) == 2
    for call in (lambda: load(run.path), lambda: resume_run(run)):
        with pytest.raises(RegardError, match=f"(?s){recorded['sha256']}.*--plugin {mine}"):
            call()
    assert not (tmp_path / "imported").exists()
    assert exit_code(["predict", str(run.path), "ab", "--plugin", mine]) == 0


def test_changed_plugin(tmp_path: Path, mine: str, sections: dict[str, Any]) -> None:
    load_plugins([mine])
    run = RunFolder(tmp_path / "run")
    begin_run(RunSpec.from_sections(sections), run)
    (tmp_path / "mine.py").write_text(MINE + "# changed\n")
    load_plugins([mine])
    with pytest.raises(RegardError, match="The plug-in 'Mine' changed"):
        read_spec(run)
    with pytest.warns(UserWarning, match="The plug-in 'Mine' changed"):
        load(run.path)


def test_study_folder_never_imports(tmp_path: Path, mine: str, sections: dict[str, Any]) -> None:
    load_plugins([mine])
    study = StudySpec.from_sections(
        {**sections, "sweep": {"mechanism": ["dot", "Mine"]}, "seeds": 1}
    )
    folder = StudyFolder(tmp_path / "study")
    run_study(study, folder.path)
    keys = json.loads(folder.study.read_text())["keys"]
    forget(tmp_path)
    assert exit_code(["report", str(folder.path)]) == 2
    with pytest.raises(RegardError, match=f"--plugin {mine}"):
        PreparedStudy.read(folder)
    assert not (tmp_path / "imported").exists()
    assert exit_code(["report", str(folder.path), "--plugin", mine]) == 0
    assert [run.key for run in PreparedStudy.read(folder).study.runs()] == keys
    (tmp_path / "mine.py").write_text(MINE + "# changed\n")
    load_plugins([mine])
    with pytest.raises(RegardError, match="The plug-in 'Mine' changed"):
        run_study(study, folder.path)


def test_added_options_change_no_keys(
    tmp_path: Path, sections: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    sections["model"]["mechanism"] = "dot"
    before = RunSpec.from_sections(sections)
    recorded = before.as_sections()
    monkeypatch.setattr(spec_module, "TrainingOptions", LaterTraining)
    after = RunSpec.from_sections(sections)
    assert after.training.as_dict()["jitter"] == 0.0
    assert spec_key(after) == spec_key(before)
    monkeypatch.setattr(spec_module, "TrainingOptions", ChangedTraining)
    assert spec_key(RunSpec.from_sections(sections)) != spec_key(before)
    assert spec_key(RunSpec.from_sections(recorded, is_record=True)) == spec_key(before)


def test_old_folders_resume(
    tmp_path: Path, sections: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The options of an older version lack one that this version has."""
    sections["model"]["mechanism"] = "dot"
    study = {**sections, "sweep": {"cell": ["lstm", "gru"]}, "seeds": 1}
    folder = StudyFolder(tmp_path / "study")
    run_study(StudySpec.from_sections(study), folder.path)
    runs = [RunFolder(path) for path in folder.runs.iterdir()]
    runs[0].record.unlink()
    for module in (spec_module, checkpoint):
        monkeypatch.setattr(module, "TrainingOptions", LaterTraining)
    assert resume_run(runs[0])
    run_study(StudySpec.from_sections(study), folder.path)
    for module in (spec_module, checkpoint):
        monkeypatch.setattr(module, "TrainingOptions", ChangedTraining)
    runs[1].record.unlink()
    assert resume_run(runs[1])
    keys = {run.key for run in PreparedStudy.read(folder).study.runs()}
    assert keys == {run.path.name for run in runs}


@pytest.mark.parametrize(
    ("path", "value", "shown"),
    [
        (("training", "steps"), 0, r"training\.steps=0"),
        (("model", "hidden_dim"), "wide", r"model\.hidden_dim=wide"),
        (("seed",), -1, "seed=-1"),
        (("plugins",), {"Mine": {"target": 3}}, "plugins="),
    ],
)
def test_invalid_value_in_spec_json(
    tmp_path: Path, sections: dict[str, Any], path: tuple[str, ...], value: Any, shown: str
) -> None:
    sections["model"]["mechanism"] = "dot"
    stored = RunSpec.from_sections(sections).as_sections()
    inner = stored
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    run = RunFolder(tmp_path)
    run.manifest.create()
    run.write_json(run.spec, stored)
    with pytest.raises(RegardError, match=f"spec.json.*{shown}"):
        read_spec(run)


@pytest.fixture
def entry_points(tmp_path: Path, mine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with the mechanisms Mine and dot."""
    monkeypatch.syspath_prepend(str(tmp_path))
    points = {
        name: EntryPoint(name, "mine:Mine", "regard.mechanisms") for name in ("theirs", "dot")
    }
    known = {"regard.mechanisms": points}
    monkeypatch.setattr(registry, "_entry_points", lambda group: known.get(group, {}))


@pytest.mark.usefixtures("entry_points")
def test_entry_points_are_imported_only_if_named(tmp_path: Path) -> None:
    marker = tmp_path / "imported"
    assert "theirs" in REGISTRY.names()
    with pytest.raises(RegardError, match=r"theirs = mine:Mine.*--plugin theirs"):
        mechanism_class("theirs")
    assert not marker.exists()
    activate_names([{"model": {"mechanism": ["dot", "theirs"]}}, None])
    assert marker.exists()
    assert mechanism_class("theirs").__name__ == "Mine"
    assert load_plugins(["theirs"]) == ["theirs"]


@pytest.mark.usefixtures("entry_points")
def test_entry_point_cannot_replace_a_builtin() -> None:
    assert mechanism_class("dot") is DotAttention
    with pytest.raises(RegardError, match="--plugin dot"):
        load_plugins(["dot"])


@pytest.mark.parametrize("thing", ["Nothing", "Path", "NUMBER"])
def test_invalid_targets(tmp_path: Path, thing: str) -> None:
    (tmp_path / "mine.py").write_text("from pathlib import Path\nNUMBER = 3\n")
    with pytest.raises(RegardError, match=thing):
        load_plugins([f"{tmp_path / 'mine.py'}:{thing}"])
    with pytest.raises(RegardError, match="nowhere"):
        load_plugins(["nowhere"])


def test_model_without_traits_is_refused(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("from torch import nn\nclass Net(nn.Module): pass\n")
    with pytest.raises(RegardError, match="Net declares no traits"):
        load_plugins([f"{tmp_path / 'net.py'}:Net"])


@pytest.mark.parametrize(
    ("target", "way_out"), [("a/mine.py:Mine", "a/mine.py:Mine"), ("Mine", "FILE.py:Mine")]
)
def test_missing_plugin_names_file_and_class(target: str, way_out: str) -> None:
    """A class of an interactive session has no file, so its record has none."""
    with pytest.raises(RegardError, match=rf"--plugin {way_out}\.$"):
        validate_plugins({"Mine": {"target": target, "sha256": "0"}})
