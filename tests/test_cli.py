"""The command line: its table of verbs, its errors, its exit codes."""

from __future__ import annotations

import json
import sys
import types
from importlib import import_module

import pytest

from regard.cli.main import VERBS, Verb, main
from regard.core.errors import RegardError
from regard.mechanisms import MECHANISMS


def exit_code(arguments: list[str]) -> int | str | None:
    try:
        main(arguments)
    except SystemExit as stop:
        return stop.code
    return 0


@pytest.fixture
def broken_verb(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A verb called `broken`, whose `run` each test provides."""
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
    assert import_module(verb.module).run.__doc__
    assert verb.example.startswith(f"regard {name}")
    assert exit_code([name, "--help"]) == 0
    assert verb.example in capsys.readouterr().out


def test_a_mistyped_verb_is_told_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["lst"]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("error: Unknown verb 'lst'. Did you mean 'list'? Choose from: ")


def test_a_mistyped_option_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["list", "--jsno"]) == 2
    assert "--jsno" in capsys.readouterr().err


def test_a_users_mistake_is_one_line(
    broken_verb: types.ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    def run() -> None:
        raise RegardError("No such thing. Try another.")

    broken_verb.run = run  # type: ignore[attr-defined]
    assert exit_code(["broken"]) == 2
    assert capsys.readouterr().err == "error: No such thing. Try another.\n"


def test_our_own_mistake_keeps_its_traceback(broken_verb: types.ModuleType) -> None:
    def run() -> None:
        raise ZeroDivisionError

    broken_verb.run = run  # type: ignore[attr-defined]
    with pytest.raises(ZeroDivisionError):
        main(["broken"])


def test_an_interrupt_is_silent(
    broken_verb: types.ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    def run() -> None:
        raise KeyboardInterrupt

    broken_verb.run = run  # type: ignore[attr-defined]
    assert exit_code(["broken"]) == 130
    assert capsys.readouterr().err == ""


def test_list_groups_by_family(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["list"]) == 0
    blocks = capsys.readouterr().out.strip().split("\n\n")
    names = {block.splitlines()[0]: block.splitlines()[1:] for block in blocks}
    assert list(names) == list(dict.fromkeys(entry.family for entry in MECHANISMS.values()))
    assert sum(len(lines) for lines in names.values()) == len(MECHANISMS)
    assert "softmax of q·k" in names["score"][0]


def test_list_as_json_holds_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["list", "--json"]) == 0
    records = json.loads(capsys.readouterr().out)
    assert [record["name"] for record in records] == list(MECHANISMS)
    assert records[0]["class_name"] == "DotAttention"
