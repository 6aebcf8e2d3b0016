"""`regard look` on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.factories.command_line import regard

from regard.runs.folder import RunFolder


@pytest.fixture
def run(recurrent_run: RunFolder) -> str:
    return str(recurrent_run.path)


def test_the_page_is_look_html(run: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = regard("look", run, "cafe")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == regard("predict", run, "cafe").stdout.strip()
    assert "wrote look.html" in ran.stderr
    assert "<script" in (tmp_path / "look.html").read_text()


def test_figures_and_json(run: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first, second = tmp_path / "a.svg", tmp_path / "b.svg"
    options = (
        "--view",
        "map",
        "--head",
        "cross/0.1",
        "--width",
        "3.5in",
        "--method",
        "weights,rollout",
    )
    ran = regard("look", run, "cafe", "--svg", first, "--png", tmp_path / "a.png", *options)
    assert ran.returncode == 0, ran.stderr
    assert regard("look", run, "cafe", "--svg", second, *options).returncode == 0
    assert first.read_bytes() == second.read_bytes()
    ElementTree.fromstring(first.read_text())
    assert not (tmp_path / "look.html").exists()
    printed = regard(
        "look", run, "cafe", "--json", "--method", "weights", "--method", "value_zeroing"
    )
    record = json.loads(printed.stdout)
    assert [each["name"] for each in record["methods"]] == ["weights", "value_zeroing"]
    assert not (tmp_path / "look.html").exists()


def test_two_runs_and_items(run: str, tmp_path: Path) -> None:
    both = regard("look", run, run, "cafe", "--svg", tmp_path / "a.svg", "--view", "heads")
    assert both.returncode == 0, both.stderr
    assert [line.partition(": ")[0] for line in both.stdout.splitlines()] == [run, run]
    assert " minus" in (tmp_path / "a.svg").read_text()
    item = regard("look", run, "--item", 1, "--svg", tmp_path / "b.svg")
    assert item.returncode == 0, item.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Missing argument"),
        (("RUN",), "and an input: regard look RUN"),
        (("RUN", "ca", "fe"), 'one argument: regard look RUN "ca fe"'),
        (("nothing", "cafe"), "'nothing' is no run folder and no pretrained model"),
        (("RUN", "RUN", "RUN", "cafe"), "3 models are given"),
        (("RUN", " "), "The text is empty"),
        (("RUN", "caf\udcff"), "at character 4"),
        (("RUN", "cafe", "--item", "1"), "remove 'cafe', or --item"),
        (("RUN", "--item", "0"), "item 0: the"),
        (("RUN", "cafe", "--svg", "a.png"), "--svg a.png: the name of this file ends in .svg"),
        (("RUN", "cafe", "--out", "a.svg"), "--out a.svg: the name of this file ends in .html"),
        (("RUN", "cafe", "--view", "map"), "--view map: it is for figures"),
        (("RUN", "cafe", "--width", "85mm"), "--width 85mm: it is for figures"),
        (("RUN", "cafe", "--svg", "a.svg", "--width", "85"), "--width 85: give a width"),
        (("RUN", "cafe", "--svg", "a.svg", "--view", "maps"), "Unknown view 'maps'"),
        (("RUN", "cafe", "--head", "cross/0.9"), "--head cross/0.9: use LAYER.HEAD"),
        (("RUN", "cafe", "--method", "weight"), "Unknown method 'weight'"),
        (("RUN", "cafe", "--tokens", "3"), "--tokens 3"),
        (("RUN", "cafe", "--threads", "0"), "--threads 0"),
        (("hf:nowhere", "cafe"), "nowhere"),
    ],
)
def test_usage_errors(
    run: str,
    arguments: tuple[str, ...],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = regard("look", *(run if each == "RUN" else each for each in arguments))
    assert ran.returncode == 2
    assert message.replace("RUN", run) in ran.stderr
    assert not list(tmp_path.iterdir())
