"""`regard claims`: the table, one claim, the page, saved records, and exit codes."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest
from tests.factories import claims as test_claims
from tests.factories.claims import LINES, TOPIC, squares_are_even
from tests.factories.command_line import exit_code

import regard.claims
from regard.claims.engine import claim
from regard.core.errors import RegardError
from regard.core.records.claim import Finding
from regard.views.text.claims import command_parts

NAMES = ["squares-are-even", "squares-are-odd", "squares-are-large", "squares-are-learned"]


@pytest.fixture(autouse=True)
def only_test_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace all topics by the test claims."""
    topics = {TOPIC: "test_claims"}
    monkeypatch.setattr(regard.claims, "TOPICS", topics)
    monkeypatch.setitem(sys.modules, "regard.claims.test_claims", test_claims)


def test_table_and_summary(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["claims"]) == 0
    shown = capsys.readouterr()
    lines = shown.out.splitlines()
    assert lines[0] == TOPIC
    assert [line.split()[0] for line in lines if line.startswith("  ") and line[2] != " "] == [
        "✓",
        "✗",
        "◐",
        "○",
    ]
    assert all(name in shown.out for name in NAMES)
    assert "[known to be false] Squares are odd." in shown.out
    assert lines[-1].startswith(
        "4 claims: 1 hold; 1 hold under a condition; 1 fail, 1 of them known to be false; 1 not run. "
        "All verdicts are as expected."
    )


def test_an_unexpected_verdict_exits_with_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    always = test_claims.squares_are_odd.decide
    monkeypatch.setattr(
        test_claims,
        "squares_are_even",
        claim(statement="S", formula="F", source="–", proof="numeric")(always),
    )
    assert exit_code(["claims"]) == 1
    shown = capsys.readouterr().out
    assert "[NOT AS EXPECTED] S" in shown
    assert "NOT AS EXPECTED: squares-are-odd." in shown.splitlines()[-1]


def breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the first claim raise an error."""

    @claim(statement="S", formula="F", source="–", proof="numeric")
    def squares_are_even(*, n: int = 4) -> Finding:
        raise RegardError(f"There is no boundary for {n}.")

    monkeypatch.setattr(test_claims, "squares_are_even", squares_are_even)


def test_an_error_is_reported_and_the_other_claims_are_saved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    breaks(monkeypatch)
    saved = tmp_path / "saved.json"
    assert exit_code(["claims", "--out", str(saved)]) == 1
    shown = capsys.readouterr()
    assert "  ! failed to run  squares-are-even" in shown.out
    assert "(failed to run: There is no boundary for 4.)" in " ".join(shown.out.split())
    assert "1 failed to run. NOT AS EXPECTED: squares-are-even." in shown.out.splitlines()[-1]
    assert "squares-are-even failed to run: There is no boundary for 4." in shown.err
    assert [record["name"] for record in json.loads(saved.read_text("utf-8"))] == NAMES
    page = tmp_path / "page.html"
    for source in ([], ["--from", str(saved)]):
        assert exit_code(["claims", "page", str(page), *source]) == 1
        assert "Failed to run: There is no boundary for 4." in page.read_text("utf-8")


def test_setting_errors_are_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    @claim(statement="S", formula="F", source="–", proof="numeric")
    def squares_are_even(*, n: int = 4) -> Finding:
        return Finding(verdict="holds", reason=str([1, 2][n]), values={}, figure=LINES)

    monkeypatch.setattr(test_claims, "squares_are_even", squares_are_even)
    assert exit_code(["claims", "show", "squares-are-even", "--set", "n=9"]) == 2
    assert capsys.readouterr().err == (
        "error: The claim 'squares-are-even' cannot be decided with n=9 (IndexError: list index out of "
        "range). Use values closer to the defaults: n=4.\n"
    )


def test_a_repeated_topic_runs_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["claims", "--json", "--topic", TOPIC, "--topic", TOPIC]) == 0
    assert len(json.loads(capsys.readouterr().out)) == len(NAMES)


@pytest.mark.parametrize("text", ["{}", "[]"])
def test_error_for_a_file_without_records(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "none.json"
    path.write_text(text, encoding="utf-8")
    assert exit_code(["claims", "--from", str(path)]) == 2
    assert "is not a file of claim records" in capsys.readouterr().err


def test_error_for_a_topic_without_records(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "saved.json"
    assert exit_code(["claims", "--out", str(path)]) == 0
    monkeypatch.setattr(regard.claims, "TOPICS", {"cubes": "cubes", TOPIC: "test_claims"})
    capsys.readouterr()
    assert exit_code(["claims", "--from", str(path), "--topic", "cubes"]) == 2
    assert f"has no records of the topic cubes. Choose from: {TOPIC}." in capsys.readouterr().err
    assert exit_code(["claims", "--from", str(path), "--topic", "cubes", "--topic", TOPIC]) == 0


def test_error_if_the_page_would_overwrite_the_records(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert exit_code(["claims", "--out", "saved.json"]) == 0
    saved = Path("saved.json").read_bytes()
    Path("link.json").symlink_to("saved.json")
    Path("same.json").hardlink_to("saved.json")
    capsys.readouterr()
    for page in ("saved.json", "./saved.json", "link.json", "same.json"):
        assert exit_code(["claims", "page", page, "--from", "saved.json"]) == 2
        assert (
            f"The page '{Path(page)}' and --from saved.json are the same file"
            in capsys.readouterr().err
        )
    assert (
        exit_code(["claims", "page", "new.html", "--out", "../" + tmp_path.name + "/new.html"]) == 2
    )
    assert "would overwrite" in capsys.readouterr().err
    assert Path("saved.json").read_bytes() == saved
    assert not Path("new.html").exists()


def test_json_is_a_list_of_records(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["claims", "--json", "--topic", TOPIC]) == 0
    assert [record["name"] for record in json.loads(capsys.readouterr().out)] == NAMES


def test_show_exits_with_zero_for_every_verdict(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert (
        exit_code(["claims", "show", "squares-are-even", "--set", "n=3", "--set", "scale=2"]) == 0
    )
    shown = capsys.readouterr().out
    assert "✗ fails" in shown
    assert "EXPECTED" not in shown
    assert "because: 3² is 9 & 4 < 2.0." in shown
    assert "counter-example: 9 is odd" in shown
    assert 'verdict="fails" if n % 2 else "holds"' in shown
    # The text "4" is quoted, since 4 would be read as a number.
    again = shlex.split(shown.splitlines()[-1])
    settings = ["--set", "n=3", "--set", "name='4'", "--set", "scale=2.0"]
    assert again == ["rerun:", "regard", "claims", "show", "squares-are-even", *settings]


def test_the_rerun_command_reproduces_the_record(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["claims", "show", "squares-are-even", "--set", "n=6", "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    command = shlex.split(" ".join(command_parts(squares_are_even.run(n=6))))[1:]
    assert exit_code([*command, "--json"]) == 0
    second = json.loads(capsys.readouterr().out)
    assert {**first, "seconds": 0} == {**second, "seconds": 0}


@pytest.mark.parametrize("name", ["even.svg", "even.png"])
def test_show_saves_the_figure(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    assert exit_code(["claims", "show", "squares-are-even", "--plot", str(path)]) == 0
    assert path.read_bytes()[:5] in {b"<svg ", b"<?xml", b"\x89PNG\r"}


def test_a_page_from_saved_records(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    saved, page, again = tmp_path / "saved.json", tmp_path / "a.html", tmp_path / "b.html"
    assert exit_code(["claims", "page", str(page), "--out", str(saved)]) == 0
    assert capsys.readouterr().out.splitlines()[0] == str(page)
    monkeypatch.setattr("regard.claims.engine.run_claims", None)  # nothing may be run
    assert exit_code(["claims", "page", str(again), "--from", str(saved)]) == 0
    assert again.read_text(encoding="utf-8") == page.read_text(encoding="utf-8")
    capsys.readouterr()
    assert exit_code(["claims", "--from", str(saved)]) == 0
    assert capsys.readouterr().out.startswith(TOPIC)


def test_missing_dependencies_with_trained(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["claims", "--trained", "--json"]) == 0
    last = json.loads(capsys.readouterr().out)[-1]
    assert last["skip_reason"] == "There are no squares in this folder. Fetch them."


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["draw"], "Unknown action 'draw'"),
        (
            ["--topic", "clams"],
            "Unknown topic 'clams'. Did you mean 'claims'?",
        ),
        (["show"], "`regard claims show` needs the name of a claim"),
        (["page"], "`regard claims page` needs a file name"),
        (["run", "squares-are-even"], "regard claims show squares-are-even"),
        (
            ["show", "squares-are-evn"],
            "Unknown claim 'squares-are-evn'. Did you mean 'squares-are-even'?",
        ),
        (
            ["show", "squares-are-even", "--set", "m=3"],
            "'squares-are-even' 'm'",
        ),
        (["show", "squares-are-even", "--set", "n"], "--set n: "),
        (
            ["show", "squares-are-even", "--set", "n=1.5"],
            "n=1.5: setting of the claim 'squares-are-even'",
        ),
        (["show", "squares-are-even", "--plot", "a.pdf"], ".svg or .png"),
        (["--set", "n=3"], "--set cannot be used with `regard claims run`, only with: show"),
        (
            ["show", "squares-are-even", "--trained"],
            "--trained cannot be used with `regard claims show`",
        ),
        (["page", "a.html", "--json"], "--json cannot be used with `regard claims page`"),
        (
            ["--from", "a.json", "--trained"],
            "cannot be combined with --trained or --out",
        ),
        (["--from", "none.json"], "'none.json' cannot be read"),
        (["page", "."], "'.' is a folder"),
    ],
)
def test_usage_errors(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert exit_code(["claims", *arguments]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("error: ")
    assert message in shown
    assert list(tmp_path.iterdir()) == []
