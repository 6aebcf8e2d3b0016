"""`regard claims`: the table, one statement, the page, records that are kept, and exit codes."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest
from tests.factories import claims as made_up_claims
from tests.factories.claims import LINES, TOPIC, squares_are_even
from tests.factories.command_line import exit_code

import regard.claims
from regard.claims.engine import claim
from regard.cli import claims as claims_verb
from regard.core.errors import RegardError
from regard.core.records.claim import Finding
from regard.views.text.claims import rerun_command

NAMES = ["squares-are-even", "squares-are-odd", "squares-are-large", "squares-are-learned"]


@pytest.fixture(autouse=True)
def made_up_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    """The only topic there is."""
    topics = {TOPIC: "claims"}
    monkeypatch.setattr(regard.claims, "TOPICS", topics)
    monkeypatch.setattr(claims_verb, "TOPICS", topics)
    monkeypatch.setitem(sys.modules, "regard.claims.made_up_claims", made_up_claims)


def test_the_table_has_a_row_a_claim_and_a_summary(capsys: pytest.CaptureFixture[str]) -> None:
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
    assert "[known to be wrong] Squares are odd." in shown.out
    assert lines[-1].startswith(
        "4 statements: 1 hold; 1 hold under a condition; 1 fail, 1 of them known to be wrong; 1 not run. "
        "All verdicts are as expected."
    )


def test_a_verdict_that_is_not_as_expected_is_flagged_and_leaves_with_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    always = made_up_claims.squares_are_odd.decide
    monkeypatch.setattr(
        made_up_claims,
        "squares_are_even",
        claim(statement="S", formula="F", source="–", proof="numeric")(always),
    )
    assert exit_code(["claims"]) == 1
    shown = capsys.readouterr().out
    assert "[NOT AS EXPECTED] S" in shown
    assert "NOT AS EXPECTED: squares-are-odd." in shown.splitlines()[-1]


def breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of the claims stops with an error, such as a search that finds no boundary."""

    @claim(statement="S", formula="F", source="–", proof="numeric")
    def squares_are_even(*, n: int = 4) -> Finding:
        raise RegardError(f"There is no boundary for {n}.")

    monkeypatch.setattr(made_up_claims, "squares_are_even", squares_are_even)


def test_one_that_fails_to_run_is_named_and_the_others_are_run_and_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    breaks(monkeypatch)
    kept = tmp_path / "kept.json"
    assert exit_code(["claims", "--out", str(kept)]) == 1
    shown = capsys.readouterr()
    assert "  ! failed to run  squares-are-even" in shown.out
    assert "(failed to run: There is no boundary for 4.)" in " ".join(shown.out.split())
    assert "1 failed to run. NOT AS EXPECTED: squares-are-even." in shown.out.splitlines()[-1]
    assert "squares-are-even failed to run: There is no boundary for 4." in shown.err
    assert [record["name"] for record in json.loads(kept.read_text("utf-8"))] == NAMES
    page = tmp_path / "page.html"
    for source in ([], ["--from", str(kept)]):
        assert exit_code(["claims", "page", str(page), *source]) == 1
        assert "Failed to run: There is no boundary for 4." in page.read_text("utf-8")


def test_settings_that_cannot_be_decided_are_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    @claim(statement="S", formula="F", source="–", proof="numeric")
    def squares_are_even(*, n: int = 4) -> Finding:
        return Finding(verdict="holds", because=str([1, 2][n]), figures={}, picture=LINES)

    monkeypatch.setattr(made_up_claims, "squares_are_even", squares_are_even)
    assert exit_code(["claims", "show", "squares-are-even", "--set", "n=9"]) == 2
    assert capsys.readouterr().err == (
        "error: The claim 'squares-are-even' cannot be decided with n=9 (IndexError: list index out of "
        "range). Use values nearer the usual ones: n=4.\n"
    )


def test_a_topic_that_is_asked_for_twice_is_run_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["claims", "--json", "--topic", TOPIC, "--topic", TOPIC]) == 0
    assert len(json.loads(capsys.readouterr().out)) == len(NAMES)


@pytest.mark.parametrize("text", ["{}", "[]"])
def test_records_that_are_none_are_refused(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "none.json"
    path.write_text(text, encoding="utf-8")
    assert exit_code(["claims", "--from", str(path)]) == 2
    assert "does not hold records of claims" in capsys.readouterr().err


def test_a_topic_without_records_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "kept.json"
    assert exit_code(["claims", "--out", str(path)]) == 0
    monkeypatch.setattr(claims_verb, "TOPICS", {"cubes": "cubes", TOPIC: "claims"})
    capsys.readouterr()
    assert exit_code(["claims", "--from", str(path), "--topic", "cubes"]) == 2
    assert f"has no records of the topic cubes; it has: {TOPIC}." in capsys.readouterr().err
    assert exit_code(["claims", "--from", str(path), "--topic", "cubes", "--topic", TOPIC]) == 0


def test_a_page_does_not_take_the_place_of_the_records(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert exit_code(["claims", "--out", "kept.json"]) == 0
    kept = Path("kept.json").read_bytes()
    Path("link.json").symlink_to("kept.json")
    Path("same.json").hardlink_to("kept.json")
    capsys.readouterr()
    for page in ("kept.json", "./kept.json", "link.json", "same.json"):
        assert exit_code(["claims", "page", page, "--from", "kept.json"]) == 2
        assert (
            f"The page '{Path(page)}' and --from kept.json are one file" in capsys.readouterr().err
        )
    assert (
        exit_code(["claims", "page", "new.html", "--out", "../" + tmp_path.name + "/new.html"]) == 2
    )
    assert "would take the place of the records" in capsys.readouterr().err
    assert Path("kept.json").read_bytes() == kept
    assert not Path("new.html").exists()


def test_json_is_a_list_of_records(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["claims", "--json", "--topic", TOPIC]) == 0
    assert [record["name"] for record in json.loads(capsys.readouterr().out)] == NAMES


def test_show_runs_one_with_settings_and_leaves_with_zero_whatever_comes_out(
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
    assert again == ["again:", "regard", "claims", "show", "squares-are-even", *settings]


def test_what_show_says_to_type_gives_the_same_again(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["claims", "show", "squares-are-even", "--set", "n=6", "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    command = shlex.split(rerun_command(squares_are_even.run(n=6)))[1:]
    assert exit_code([*command, "--json"]) == 0
    second = json.loads(capsys.readouterr().out)
    assert {**first, "seconds": 0} == {**second, "seconds": 0}


@pytest.mark.parametrize("name", ["even.svg", "even.png"])
def test_show_draws_the_picture(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    assert exit_code(["claims", "show", "squares-are-even", "--plot", str(path)]) == 0
    assert path.read_bytes()[:5] in {b"<?xml", b"\x89PNG\r"}


def test_a_page_can_be_written_from_kept_records(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, page, again = tmp_path / "kept.json", tmp_path / "a.html", tmp_path / "b.html"
    assert exit_code(["claims", "page", str(page), "--out", str(kept)]) == 0
    assert capsys.readouterr().out.splitlines()[0] == str(page)
    monkeypatch.setattr(claims_verb, "_run", None)  # nothing may be run
    assert exit_code(["claims", "page", str(again), "--from", str(kept)]) == 0
    assert again.read_text(encoding="utf-8") == page.read_text(encoding="utf-8")
    capsys.readouterr()
    assert exit_code(["claims", "--from", str(kept)]) == 0
    assert capsys.readouterr().out.startswith(TOPIC)


def test_with_trained_what_is_missing_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["claims", "--trained", "--json"]) == 0
    last = json.loads(capsys.readouterr().out)[-1]
    assert last["waits"] == "There are no squares in this folder. Fetch them."


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["draw"], "Unknown action 'draw'"),
        (
            ["--topic", "made up clams"],
            "Unknown topic 'made up clams'. Did you mean 'made up claims'?",
        ),
        (["show"], "`regard claims show` needs the name of a statement"),
        (["page"], "`regard claims page` needs the file to write"),
        (["run", "squares-are-even"], "regard claims show squares-are-even"),
        (
            ["show", "squares-are-evn"],
            "Unknown claim 'squares-are-evn'. Did you mean 'squares-are-even'?",
        ),
        (
            ["show", "squares-are-even", "--set", "m=3"],
            "Unknown parameter of the claim 'squares-are-even' 'm'",
        ),
        (["show", "squares-are-even", "--set", "n"], "--set n: write it as OPTION=VALUE"),
        (["show", "squares-are-even", "--set", "n=1.5"], "n=1.5: of the claim 'squares-are-even'"),
        (["show", "squares-are-even", "--plot", "a.pdf"], "End the name in .svg or .png"),
        (["--set", "n=3"], "--set does not go with `regard claims run`, but with: show"),
        (
            ["show", "squares-are-even", "--trained"],
            "--trained does not go with `regard claims show`",
        ),
        (["page", "a.html", "--json"], "--json does not go with `regard claims page`"),
        (
            ["--from", "a.json", "--trained"],
            "runs nothing, so --trained and --out have nothing to do",
        ),
        (["--from", "none.json"], "'none.json' cannot be read"),
        (["page", "."], "'.' is a folder"),
    ],
)
def test_a_mistake_is_one_line_that_helps(
    arguments: list[str],
    complaint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert exit_code(["claims", *arguments]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("error: ")
    assert complaint in shown
    assert list(tmp_path.iterdir()) == []
