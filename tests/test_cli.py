"""The command line: verbs, errors, exit codes."""

from __future__ import annotations

import json
import os
import sys
import types
from pathlib import Path

import pytest
from tests.factories.command_line import exit_code

import regard
from regard.cli.main import VERBS, Verb, main, verb_function
from regard.cli.mechanisms import summary
from regard.core.errors import RegardError
from regard.core.records.overview import CheckRecord, MechanismRecord, Overview
from regard.mechanisms import MECHANISMS


@pytest.fixture
def broken_verb(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A verb called `broken`, whose `run_broken` each test provides."""
    module = types.ModuleType("broken_verb")
    monkeypatch.setitem(sys.modules, "broken_verb", module)
    monkeypatch.setitem(VERBS, "broken", Verb(module="broken_verb", help="Break.", example="-"))
    return module


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_help_lists_every_verb(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(arguments) == 0
    shown = capsys.readouterr().out
    for name, verb in VERBS.items():
        assert name in shown
        assert verb.help in shown


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_has_help_with_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    verb = VERBS[name]
    assert verb_function(name).__doc__
    assert verb.example.startswith(f"regard {name}")
    assert exit_code([name, "--help"]) == 0
    assert verb.example in capsys.readouterr().out


def test_an_unknown_verb_suggests_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["lst"]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("error: Unknown verb 'lst'. Did you mean 'list'? Choose from: ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["list", "--jsno"], "--jsno"),
        (["check"], "TARGET"),
        (["overview", "--only"], "--only"),
    ],
)
def test_an_option_error_is_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("error: ")
    assert message in shown.err
    assert shown.err.endswith(f". `regard {arguments[0]} --help` shows the options.\n")
    assert shown.err.count("\n") == 1


@pytest.mark.parametrize("verb", [["check", "dot"], ["overview"]])
@pytest.mark.parametrize("seed", ["-1", str(2**63), "1.5", "many"])
def test_a_seed_out_of_range_is_rejected(
    verb: list[str], seed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code([*verb, "--seed", seed]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: --seed {seed}: ")
    assert "9223372036854775807" in error


@pytest.mark.parametrize("seed", [0, 2**63 - 1])
def test_the_smallest_and_largest_seed_are_accepted(
    seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["check", "dot", "--only", "forward_equals_weights", "--json", "--seed", str(seed)]
    assert exit_code(arguments) == 0
    assert json.loads(capsys.readouterr().out)[0]["seed"] == seed


@pytest.fixture
def no_overview(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The current folder of an overview that must be rejected before any work is done."""

    def work(**kwargs: object) -> None:
        raise AssertionError("the overview was built")

    monkeypatch.setattr("regard.conformance.overview.build_overview", work)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "-"], "--json"),
        (["--out", "-", "--json"], "--out overview.html"),
        (["--out", "pipe"], "'pipe'"),
        (["--out", "file/page.html"], "file'"),
        (["--out", "."], "'.'"),
        (["--sentence", "a \udcff rose"], r"'a \udcff rose'"),
    ],
)
def test_overview_rejects_bad_arguments_before_the_work(
    arguments: list[str], message: str, no_overview: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(no_overview / "pipe")
    (no_overview / "file").write_text("")
    assert exit_code(["overview", *arguments]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("error: ")
    assert message in shown
    assert sorted(path.name for path in no_overview.iterdir()) == ["file", "pipe"]


def test_summary_uses_singular_nouns() -> None:
    checks = tuple(
        CheckRecord(name=outcome, description="", outcome=outcome, detail="")
        for outcome in ("passed", "not_applicable")
    )
    mechanism = MechanismRecord(
        name="dot",
        family="score",
        summary="",
        reference="",
        capabilities=(),
        causal=False,
        signed=False,
        weights_options="",
        weights=((1.0,),),
        checks=checks,
        cost_head_dim=64,
        costs=(),
    )
    one = Overview(version="1", seed=0, tokens=("a",), num_heads=8, mechanisms=(mechanism,))
    assert summary(one, path=Path("page.html")).splitlines() == [
        "page.html",
        "1 mechanism, 1 word",
        "1 check passed, 0 failed",
        "1 does not apply (reasons on the page)",
    ]


def test_an_unknown_export_suggests_the_nearest() -> None:
    with pytest.raises(AttributeError, match=r"'MultiHed'.* Did you mean 'MultiHead'\?$"):
        regard.MultiHed  # noqa: B018


def test_dir_lists_the_exports_only() -> None:
    shown = [name for name in dir(regard) if not name.startswith("__")]
    assert shown == sorted(regard.__all__)


def test_a_regard_error_is_one_line(
    broken_verb: types.ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    def run() -> None:
        raise RegardError("No such thing. Try another.")

    broken_verb.run_broken = run  # type: ignore[attr-defined]
    assert exit_code(["broken"]) == 2
    assert capsys.readouterr().err == "error: No such thing. Try another.\n"


def test_other_exceptions_keep_their_traceback(broken_verb: types.ModuleType) -> None:
    def run() -> None:
        raise ZeroDivisionError

    broken_verb.run_broken = run  # type: ignore[attr-defined]
    with pytest.raises(ZeroDivisionError):
        main(["broken"])


def test_an_interrupt_is_silent(
    broken_verb: types.ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    def run() -> None:
        raise KeyboardInterrupt

    broken_verb.run_broken = run  # type: ignore[attr-defined]
    assert exit_code(["broken"]) == 130
    assert capsys.readouterr().err == ""


def test_list_groups_by_family(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["list", "mechanisms"]) == 0
    blocks = capsys.readouterr().out.strip().split("\n\n")
    names = {block.splitlines()[0]: block.splitlines()[1:] for block in blocks}
    assert list(names) == list(dict.fromkeys(entry.family for entry in MECHANISMS.values()))
    assert sum(len(lines) for lines in names.values()) == len(MECHANISMS)
    assert "softmax of q·k" in names["score"][0]


def test_list_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["list", "mechanisms", "--json"]) == 0
    records = json.loads(capsys.readouterr().out)
    assert [record["name"] for record in records] == list(MECHANISMS)
    assert records[0]["class_name"] == "DotAttention"


def test_list_has_all_kinds(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["list"]) == 0
    shown = capsys.readouterr().out
    for line in (
        "mechanisms: kernel\n",
        "\nmodels\n",
        "\n  transformer  ",
        "\n  pronounce-quick  ",
    ):
        assert line in shown
    assert exit_code(["list", "model"]) == 2
    assert "Did you mean 'models'? Choose from: datasets, mechanisms" in capsys.readouterr().err
