"""`regard check`: output, exit codes, errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from regard.cli.main import main

EXAMPLE = str(Path(__file__).parents[2] / "examples" / "my_attention.py")
COSINE = f"{EXAMPLE}:CosineAttention"

BROKEN = """
from my_attention import CosineAttention

class Doubled(CosineAttention):
    def attend(self, *args):
        return 2 * super().attend(*args)

class Raising(CosineAttention):
    def attend(self, *args):
        raise KeyError("nothing here")

class Demanding(CosineAttention):
    def __init__(self, *, flavour, num_heads=1):
        super().__init__(num_heads=num_heads)

class Unbuildable(CosineAttention):
    def __init__(self):
        raise OSError("no disk")

class Unrelated: ...

number = 3
"""


def run(*arguments: str) -> int | str | None:
    try:
        main(["check", *arguments])
    except SystemExit as stop:
        return stop.code
    return 0


@pytest.fixture
def broken(tmp_path: Path) -> str:
    """A file next to a copy of the example, which it imports."""
    (tmp_path / "my_attention.py").write_text(Path(EXAMPLE).read_text(encoding="utf-8"))
    (tmp_path / "broken.py").write_text(BROKEN)
    return str(tmp_path / "broken.py")


def test_the_example_passes_with_reasons_for_checks_that_do_not_apply(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(COSINE, "--set", "temperature=3") == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.startswith("CosineAttention: ")
    assert ", 0 failed, " in head
    words = [line.split() for line in lines]
    assert ["passed", "forward_equals_weights"] in words
    reasons = [line.split(maxsplit=4)[4] for line in lines if "does not apply" in line]
    assert reasons
    assert all(reasons)


def test_a_failure_shows_the_details_and_exits_with_1(
    broken: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(f"{broken}:Doubled", "--only", "forward_equals_weights", "--seed", "5") == 1
    shown = capsys.readouterr().out
    assert "Doubled: 0 passed, 1 failed, 0 do not apply" in shown
    assert "FAILED" in shown
    assert "should be" in shown
    assert f"regard check {broken}:Doubled --only forward_equals_weights --seed 5" in shown


def test_the_command_shown_repeats_the_options(
    broken: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run(f"{broken}:Doubled", "--only", "forward_equals_weights", "--set", "temperature=2.0")
    assert "--seed 0 --set temperature=2.0" in capsys.readouterr().out


def test_an_exception_is_a_failed_check(broken: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(f"{broken}:Raising", "--only", "forward_equals_weights") == 1
    assert "raised KeyError: 'nothing here'" in capsys.readouterr().out


def test_a_constructor_that_fails_fails_the_checks(
    broken: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(f"{broken}:Unbuildable", "--only", "state_form") == 1
    assert "raised OSError: no disk" in capsys.readouterr().out


def test_json_has_one_record_per_check(broken: str, capsys: pytest.CaptureFixture[str]) -> None:
    checks = ["forward_equals_weights", "rejects_overlong", "state_form"]
    only = [argument for check in checks for argument in ("--only", check)]
    assert run(f"{broken}:Doubled", *only, "--json") == 1
    records = json.loads(capsys.readouterr().out)
    assert [record["check"] for record in records] == checks
    assert [record["outcome"] for record in records] == ["failed", "not_applicable", "passed"]
    assert set(records[0]["worst"]) == {"index", "expected", "got"}
    assert records[1]["detail"] == "it declares no max_length"
    assert {record["seed"] for record in records} == {0}


def test_several_mechanisms_are_tallied(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("location", "synthesizer_random", "--only", "state_form") == 0
    shown = capsys.readouterr().out
    assert "location: 1 passed, 0 failed, 0 do not apply" in shown
    assert "2 mechanisms: 2 passed, 0 failed, 0 do not apply" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["scaled_dt"], "Unknown mechanism 'scaled_dt'. Did you mean 'scaled_dot'?"),
        (["nowhere.py:Mine"], "nowhere.py"),
        (["nowhere.py"], "nowhere.py:ClassName"),
        (["no_such_module:Mine"], "'no_such_module' cannot be imported: ModuleNotFoundError"),
        ([f"{EXAMPLE}:CosinAttention"], "Did you mean 'CosineAttention'?"),
        ([f"{EXAMPLE}:ScoredMechanism"], "does not define scores"),
        ([COSINE, "--only", "state_frm"], "Unknown check 'state_frm'. Did you mean 'state_form'?"),
        ([COSINE, "--set", "temprature=2"], "Did you mean 'temperature'?"),
        ([COSINE, "--set", "temperature"], "--set temperature: use OPTION=VALUE"),
        (["regard.mechanisms", "--set", "radius=2"], "radius"),
        (["location", "--set", "max_length=0"], "max_length=0"),
    ],
)
def test_an_error_is_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("error: ")
    assert shown.err.count("\n") == 1
    assert message in shown.err


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Demanding", "Demanding needs flavour"),
        ("Unrelated", "Unrelated is a class"),
        ("number", "number is a int"),
    ],
)
def test_other_objects_are_rejected(
    broken: str, name: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(f"{broken}:{name}") == 2
    assert message in capsys.readouterr().err


def test_a_file_with_a_syntax_error_is_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "typo.py"
    path.write_text("class Mine(\n")
    assert run(f"{path}:Mine") == 2
    assert "cannot be imported: SyntaxError" in capsys.readouterr().err
