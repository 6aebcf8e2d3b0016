"""Python equals the command line: every verb has a function with its options, and the same result."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.factories.calibration import dummy_calibration
from tests.factories.command_line import exit_code
from tests.factories.toy_pronunciation import write_dictionary

import regard
from regard.api import LookView, planning
from regard.api.options import constructor_options, given_options, load_plugins, run_spec
from regard.cli.main import VERBS, verb_function
from regard.core.errors import RegardError
from regard.mechanisms import mechanism_class
from regard.mechanisms.scores.dot_product import ScaledDotAttention
from regard.runs.plugins import registered_plugins
from regard.studies.folder import StudyFolder

# verb → its functions; several for a verb with several actions
FUNCTIONS: dict[str, tuple[Callable[..., Any], ...]] = {
    "study": (regard.study,),
    "report": (regard.report,),
    "overview": (regard.overview,),
    "train": (regard.train,),
    "plan": (regard.plan,),
    "predict": (regard.predict,),
    "look": (regard.look, LookView.save),
    "data": (regard.data.describe,),
    "check": (regard.check,),
    "cost": (regard.cost,),
    "claims": (regard.claims.run, regard.claims.show),
    "list": (regard.list_names,),
}
# Options of what is printed, and arguments that select the function; `from` is a keyword of Python.
OUTPUT = {"json", "csv", "action", "help_settings"}
RENAMED = {
    ("claims", "from"): "source",
    ("claims", "target"): "page",
    ("look", "arguments"): "input",
    **{("look", name): "path" for name in ("out", "svg", "png")},
}

TINY = {
    "model.embedding_dim": 4,
    "model.hidden_dim": 8,
    "task.validation_fraction": 0.1,
}
TINY_FLAGS = [word for name, value in TINY.items() for word in ("--set", f"{name}={value}")]


class MyAttention(ScaledDotAttention):
    """A mechanism of a user."""


@pytest.fixture(autouse=True)
def folder(no_plugins: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a dummy calibration."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(planning, "load_or_calibrate", lambda **_: dummy_calibration())
    write_dictionary(tmp_path / "words.dict", count=60)
    return tmp_path


def shown(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What a command prints."""
    capsys.readouterr()
    assert exit_code(arguments) == 0
    return capsys.readouterr().out


def options_of(verb: str) -> set[str]:
    """The arguments and options of a verb, as Python names."""
    app = typer.Typer(add_completion=False)
    app.command()(verb_function(verb))
    return {
        max(each.opts, key=len).removeprefix("--").replace("-", "_")
        for each in typer.main.get_command(app).params
    }


def test_every_verb_has_a_function() -> None:
    assert set(FUNCTIONS) == set(VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_options_are_keywords(verb: str) -> None:
    known = {
        name for function in FUNCTIONS[verb] for name in inspect.signature(function).parameters
    }
    options = {RENAMED.get((verb, name), name) for name in options_of(verb)}
    assert options - known <= OUTPUT


COMPUTING = [verb for verb in VERBS if verb not in ("data", "list")]
ARGUMENTS = {
    "report": ["studies/none"],
    "predict": ["runs/none", "text"],
    "look": ["runs/none", "text"],
    "check": ["dot"],
    "study": ["--recipe", "pronounce-quick", "--sweep", "cell=lstm,gru"],
    "train": ["pronounce"],
    "plan": ["pronounce"],
}


@pytest.mark.parametrize("verb", COMPUTING)
def test_every_computing_verb_has_device_and_threads(verb: str) -> None:
    assert {"device", "threads"} <= options_of(verb)


@pytest.mark.parametrize("verb", COMPUTING)
@pytest.mark.parametrize("device", ["abacus", "cuda:99"])
def test_missing_device_is_named(
    verb: str, device: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code([verb, *ARGUMENTS.get(verb, []), "--device", device]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith(f"error: --device {device}: ")
    assert shown.endswith("cpu, auto.\n")
    assert shown.count("\n") == 1


def test_device_of_a_recipe_with_pretraining() -> None:
    """The stage before has the same device."""
    spec = run_spec("closed_book_qa", {"device": "auto", "recipe": "closed_book_qa"})
    assert spec.pretraining is None or spec.pretraining.training.device == "auto"
    assert spec.training.device == "auto"


@pytest.mark.parametrize("verb", VERBS)
def test_defaults_are_those_of_the_command(verb: str) -> None:
    command = inspect.signature(verb_function(verb)).parameters
    for function in FUNCTIONS[verb]:
        for name, own in inspect.signature(function).parameters.items():
            given = command[name].default if name in command else None
            if given is not None and given is not inspect.Parameter.empty:
                assert own.default == given, name


def test_train_and_predict(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = ["--recipe", "pronounce-quick", "--train-file", "words.dict", "--steps", "3"]
    command = ["train", "pronounce", *data, *TINY_FLAGS, "--seed", "1", "--threads", "1"]
    record = json.loads(shown([*command, "--out", "a", "--json"], capsys))
    lines: list[str] = []
    run = regard.train(
        "pronounce",
        recipe="pronounce-quick",
        train_file=folder / "words.dict",
        set=TINY,
        steps=3,
        seed=1,
        threads=1,
        out="b",
        log=lines.append,
    )
    assert run is not None
    assert lines[0] == "reading the data"
    assert run.record["scores"] == record["scores"]
    assert run.record["spec"] == record["spec"]
    outputs = regard.predict(run, ["abc", "fed"])
    assert shown(["predict", "a", "abc", "fed"], capsys).splitlines() == outputs
    report = regard.predict("b", score="words.dict", out="scores.txt")
    assert Path("scores.txt").read_text() == shown(
        ["predict", "a", "--score", "words.dict"], capsys
    )
    assert not isinstance(report, list)
    assert len(report.predictions) == 60
    assert capsys.readouterr().out == ""  # functions print nothing


def test_plan(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"model.model_dim": 16, "model.num_layers": 1}
    sizes |= {"task.vocabulary_size": 100, "task.batch_tokens": 200}
    flags = [word for name, value in sizes.items() for word in ("--set", f"{name}={value}")]
    command = ["plan", "translate", "--length", "8", "--only", *flags, "--json"]
    report = regard.plan("translate", length=8, only=True, set=sizes, memory=4e9)
    found = json.loads(shown([*command, "--memory", "4GB"], capsys))
    assert found == json.loads(json.dumps(report.as_json()))
    assert isinstance(report, planning.PlanReport)
    assert report.plan.memory.peak < report.limits.memory == 4e9
    assert report.alternatives is None


def test_cost(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.costs.compare.LENGTHS", (32, 64))
    monkeypatch.setattr("regard.costs.compare.LAYER_NAMES", ("lstm", "self-attention"))
    sizes = ["--length", "32", "--heads", "2", "--head-dim", "8", "--no-calibrate", "--only", "dot"]
    found = json.loads(shown(["cost", *sizes, "--json"], capsys))
    report = regard.cost(length=32, heads=2, head_dim=8, no_calibrate=True, only=["dot"])
    assert {**found, "command": ""} == json.loads(report.as_json())


def test_check(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["check", "window", "--set", "radius=2", "--only", "forward_equals_weights"]
    report = regard.check("window", set={"radius": 2}, only=["forward_equals_weights"])
    assert shown(command, capsys) == report.as_text() + "\n"
    assert regard.check(MyAttention, only=["forward_equals_weights"]).passed


def test_data_describe(capsys: pytest.CaptureFixture[str]) -> None:
    Path("pairs.tsv").write_text("a rose\tune rose\nox\tun bœuf\n")
    found = json.loads(shown(["data", "describe", "pairs.tsv", "--json"], capsys))
    described = regard.data.describe(Path("pairs.tsv"), source_column=0)
    assert found == json.loads(json.dumps(described.as_json()))


def test_claims(capsys: pytest.CaptureFixture[str]) -> None:
    name = "self-attention-is-permutation-equivariant"
    found = json.loads(shown(["claims", "show", name, "--set", "causal=true", "--json"], capsys))
    record = json.loads(regard.claims.show(name, set={"causal": True}).as_json())
    assert {**record, "seconds": 0} == {**found, "seconds": 0}


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(shown(["list", "--json"], capsys)) == regard.list_names()
    found = json.loads(shown(["list", "models", "--json"], capsys))
    assert {"models": found} == regard.list_names("models")


def test_overview(capsys: pytest.CaptureFixture[str]) -> None:
    found = shown(["overview", "--only", "dot", "--sentence", "a rose", "--json"], capsys)
    overview = regard.overview(only=["dot"], sentence="a rose", out="page.html")
    assert json.loads(found) == json.loads(overview.as_json())
    assert Path("page.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_study_and_report(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = {**TINY, "task.test_fraction": 0.2, "task.beam_size": 1, "training.evaluate_every": 1}
    events: list[Any] = []
    record = regard.study(
        recipe="pronounce-quick",
        train_file="words.dict",
        sweep={"cell": ["lstm", "gru"]},
        seeds=[3],
        steps=2,
        set=sizes,
        workers=1,
        on_event=events.append,
    )
    assert [variant.name for variant in record.variants] == ["lstm", "gru"]
    assert record.seeds == (3,)
    assert events
    assert (folder / "studies/cell/page.html").is_file()
    assert json.loads(shown(["report", "studies/cell", "--json"], capsys)) == json.loads(
        regard.report("studies/cell", out="other.html").as_json()
    )
    assert (folder / "other.html").is_file()


def test_report_imports_no_plugin_of_the_folder(folder: Path) -> None:
    """Only plug-ins that the user names are imported, not those that study.json names."""
    (folder / "evil.py").write_text("raise SystemExit('imported')\n")
    StudyFolder(folder).write(folder / "study.json", {"plugins": ["evil.py:Evil"]})
    with pytest.raises(RegardError, match="not a study file"):
        regard.report(folder)


def test_plugin_may_be_a_class_or_an_object() -> None:
    assert load_plugins(MyAttention) == ["MyAttention"]
    assert mechanism_class("MyAttention") is MyAttention
    assert load_plugins([MyAttention()]) == ["MyAttention"]
    [(_, plugin)] = registered_plugins()
    assert plugin.target == f"{Path(__file__).absolute()}:MyAttention"


def test_unknown_keyword_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="stpes"):
        regard.train("pronounce", stpes=3)  # type: ignore[call-arg]


def test_given_options() -> None:
    given = given_options({"source_column": 0, "header": False, "set": {}, "steps": 0})
    assert given == {"source_column": "0", "steps": 0}
    assert constructor_options(["radius=3"]) == constructor_options({"radius": 3})
