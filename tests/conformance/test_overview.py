"""The survey, its records, and the verb that shows them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from regard.cli.main import main, run_verb
from regard.conformance.overview import (
    DEFAULT_SENTENCE,
    LENGTHS,
    MAX_TOKENS,
    price,
    survey,
    token_vectors,
    tokenise,
)
from regard.conformance.suite import check_subject
from regard.core.errors import RegardError
from regard.core.records.overview import MechanismRecord, Survey
from regard.mechanisms import MECHANISMS

TWO = ("location", "delta")


@pytest.fixture(scope="module", autouse=True)
def _few_checks() -> object:
    """Two checks instead of all: what a check does is not at stake here."""
    with pytest.MonkeyPatch.context() as patch:
        few = ("weights_nonnegative", "inputs_not_mutated")
        patch.setattr(
            "regard.conformance.overview.check_subject",
            lambda subject, *, seed: check_subject(subject, only=few, seed=seed),
        )
        yield


@pytest.fixture(scope="module")
def two() -> Survey:
    return survey(only=TWO)


@pytest.fixture(scope="module")
def table() -> Survey:
    return survey()


def run(*arguments: str) -> int | str | None:
    """The exit code of `regard survey`."""
    try:
        main(["survey", *arguments])
    except SystemExit as stop:
        return stop.code
    return 0


def test_equal_words_are_equal_and_similar_ones_similar() -> None:
    cat, cats, dog, again = token_vectors(["cat", "cats", "dog", "Cat"])
    assert torch.equal(cat, again)
    assert cat @ cats > 2 * abs(cat @ dog)
    # A word and itself score 3 in scaled dot attention.
    torch.testing.assert_close(cat @ cat / len(cat) ** 0.5, torch.tensor(3.0))


def test_every_pair_of_words_has_a_weight(two: Survey) -> None:
    assert two.tokens == tuple(DEFAULT_SENTENCE.split())
    for record in two.mechanisms:
        assert [len(row) for row in record.weights] == [len(two.tokens)] * len(two.tokens)


def test_records_say_how_a_mechanism_was_looked_at(two: Survey) -> None:
    location, delta = two.mechanisms
    assert (location.causal, location.signed) == (False, False)
    assert (delta.causal, delta.signed) == (True, True)
    assert all(weight == 0 for i, row in enumerate(delta.weights) for weight in row[i + 1 :])
    assert "reads the past only" in delta.capabilities
    outcomes = {
        record.name: [check.outcome for check in record.checks] for record in two.mechanisms
    }
    assert outcomes == {"location": ["passed"] * 2, "delta": ["not_applicable", "passed"]}
    assert delta.checks[0].detail
    assert two.totals() == {"passed": 3, "not_applicable": 1}


def test_the_whole_table_is_pictured_and_priced(table: Survey) -> None:
    assert [record.name for record in table.mechanisms] == list(MECHANISMS)
    assert Survey.from_json(table.as_json()) == table  # and with it, every number is finite
    assert all(record.costs[-1].cost.operations > 0 for record in table.mechanisms)


@pytest.mark.parametrize("name", ["dot", "scaled_dot", "taylor", "polynomial", "retention"])
def test_what_compares_contents_finds_the_repeated_word(table: Survey, name: str) -> None:
    (record,) = (record for record in table.mechanisms if record.name == name)
    # The second "cat" reads the first more than any other word before it.
    row = record.weights[8][:8]
    assert max(row) == row[1]


def test_a_window_is_a_band(table: Survey) -> None:
    (window,) = (record for record in table.mechanisms if record.name == "window")
    assert window.weights_options == "radius=2"
    for i, row in enumerate(window.weights):
        assert [j for j, weight in enumerate(row) if weight] == [
            j for j in range(len(row)) if abs(i - j) <= 2
        ]


def test_costs_are_for_doubling_lengths_and_allocate_no_tables(two: Survey) -> None:
    for record in two.mechanisms:
        assert tuple(cost.length for cost in record.costs) == LENGTHS
    longest = price("synthesizer_random", length=LENGTHS[-1], width=64)
    assert longest.cost.parameters == 8 * LENGTHS[-1] ** 2


def test_the_form_is_named_for_kernels_only(two: Survey) -> None:
    assert price("elu", length=16384, width=64).form == "chunked"
    assert two.mechanisms[0].costs[0].form is None


def test_the_same_seed_gives_the_same_survey(two: Survey) -> None:
    again = survey(only=reversed(TWO))
    assert again == two
    assert survey(only=["location"], seed=1).mechanisms[0].weights != two.mechanisms[0].weights


def test_json_round_trip(two: Survey) -> None:
    assert Survey.from_json(two.as_json()) == two


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"mechanisms": [{}], "tokens": []}'])
def test_other_json_is_refused(text: str) -> None:
    with pytest.raises(RegardError, match=r"not a survey .* `regard survey --json`"):
        Survey.from_json(text)


def test_progress_is_told() -> None:
    told: list[str | MechanismRecord] = []
    found = survey(only=["location"], begin=told.append, done=told.append)
    assert told == ["location", found.mechanisms[0]]


@pytest.mark.parametrize(
    ("sentence", "message"),
    [
        ("  ", r"has 0 words; a picture shows 1 to 32\. Give it some\."),
        ("no " * (MAX_TOKENS + 1), r"has 33 words; a picture shows 1 to 32\. Shorten it\."),
        ("a " + "b" * 41, r"The word 'b+…' has 41 letters; .* up to 40\. Shorten it"),
    ],
)
def test_sentences_are_bounded(sentence: str, message: str) -> None:
    with pytest.raises(RegardError, match=message):
        tokenise(sentence)


def test_the_verb_writes_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "new" / "survey.html"
    options = [f"--only={name}" for name in TWO]
    assert run(f"--out={page}", *options, "--sentence=a rose <script> is a rose") == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines() == [
        str(page),
        "2 mechanisms read 6 words",
        "3 checks passed, 0 failed",
        "1 does not apply, and the page says why",
    ]
    assert [line.split()[1] for line in shown.err.splitlines()[-2:]] == list(TWO)
    html = page.read_text(encoding="utf-8")
    assert html.count('class="card"') == 2
    assert "rose → &lt;script&gt;" in html
    assert html.count("<script>") == 1


def test_the_verb_prints_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--json", "--only=delta", "--sentence=a b", "--seed=3") == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["seed"], printed["tokens"]) == (3, ["a", "b"])
    path = tmp_path / "records.json"
    assert run("--json", "--only=delta", "--sentence=a b", "--seed=3", f"--out={path}") == 0
    assert json.loads(path.read_text(encoding="utf-8")) == printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only=dleta"], "Unknown mechanism 'dleta'. Did you mean 'delta'?"),
        (["--sentence="], "The sentence has 0 words"),
        (["--out=."], "'.' is a folder; give the path of a file, such as page.html."),
    ],
)
def test_mistakes_are_told_before_the_work(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RegardError) as refusal:
        run_verb("survey", arguments)
    assert str(refusal.value).startswith(message)
    assert list(tmp_path.iterdir()) == []
