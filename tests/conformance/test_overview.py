"""The overview of mechanisms, its records, and `regard overview`."""

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
    build_overview,
    declared_cost,
    token_vectors,
    tokenise,
)
from regard.conformance.suite import check_subject
from regard.core.errors import RegardError
from regard.core.records.overview import MechanismRecord, Overview
from regard.mechanisms import MECHANISMS

TWO = ("location", "delta")


@pytest.fixture(scope="module", autouse=True)
def _few_checks() -> object:
    """Two checks instead of all, for speed."""
    with pytest.MonkeyPatch.context() as patch:
        few = ("weights_nonnegative", "inputs_not_mutated")
        patch.setattr(
            "regard.conformance.overview.check_subject",
            lambda subject, *, seed: check_subject(subject, only=few, seed=seed),
        )
        yield


@pytest.fixture(scope="module")
def two() -> Overview:
    return build_overview(only=TWO)


@pytest.fixture(scope="module")
def table() -> Overview:
    return build_overview()


def run(*arguments: str) -> int | str | None:
    """The exit code of `regard overview`."""
    try:
        main(["overview", *arguments])
    except SystemExit as stop:
        return stop.code
    return 0


def test_equal_words_have_equal_vectors_and_similar_words_similar_ones() -> None:
    cat, cats, dog, again = token_vectors(["cat", "cats", "dog", "Cat"])
    assert torch.equal(cat, again)
    assert cat @ cats > 2 * abs(cat @ dog)
    # The scaled dot product of a word with itself is 3.
    torch.testing.assert_close(cat @ cat / len(cat) ** 0.5, torch.tensor(3.0))


def test_every_pair_of_words_has_a_weight(two: Overview) -> None:
    assert two.tokens == tuple(DEFAULT_SENTENCE.split())
    for record in two.mechanisms:
        assert [len(row) for row in record.weights] == [len(two.tokens)] * len(two.tokens)


def test_records_hold_capabilities_and_check_outcomes(two: Overview) -> None:
    location, delta = two.mechanisms
    assert (location.causal, location.signed) == (False, False)
    assert (delta.causal, delta.signed) == (True, True)
    assert all(weight == 0 for i, row in enumerate(delta.weights) for weight in row[i + 1 :])
    assert "causal only" in delta.capabilities
    outcomes = {
        record.name: [check.outcome for check in record.checks] for record in two.mechanisms
    }
    assert outcomes == {"location": ["passed"] * 2, "delta": ["not_applicable", "passed"]}
    assert delta.checks[0].detail
    assert two.totals() == {"passed": 3, "not_applicable": 1}


def test_every_mechanism_has_finite_weights_and_costs(table: Overview) -> None:
    assert [record.name for record in table.mechanisms] == list(MECHANISMS)
    assert Overview.from_json(table.as_json()) == table  # and with it, every number is finite
    assert all(record.costs[-1].cost.flops > 0 for record in table.mechanisms)


@pytest.mark.parametrize("name", ["dot", "scaled_dot", "taylor", "polynomial", "retention"])
def test_content_based_attention_finds_the_repeated_word(table: Overview, name: str) -> None:
    (record,) = (record for record in table.mechanisms if record.name == name)
    # The second "cat" attends to the first more than to any other earlier word.
    row = record.weights[8][:8]
    assert max(row) == row[1]


def test_window_weights_are_a_band(table: Overview) -> None:
    (window,) = (record for record in table.mechanisms if record.name == "window")
    assert window.weights_options == "radius=2"
    for i, row in enumerate(window.weights):
        assert [j for j, weight in enumerate(row) if weight] == [
            j for j in range(len(row)) if abs(i - j) <= 2
        ]


def test_costs_are_for_doubling_lengths_and_allocate_no_tables(two: Overview) -> None:
    for record in two.mechanisms:
        assert tuple(cost.length for cost in record.costs) == LENGTHS
    longest = declared_cost("synthesizer_random", length=LENGTHS[-1], width=64)
    assert longest.cost.parameters == 8 * LENGTHS[-1] ** 2


def test_only_kernels_have_a_form(two: Overview) -> None:
    assert declared_cost("elu", length=16384, width=64).form == "chunked"
    assert two.mechanisms[0].costs[0].form is None


def test_the_same_seed_gives_the_same_overview(two: Overview) -> None:
    again = build_overview(only=reversed(TWO))
    assert again == two
    assert (
        build_overview(only=["location"], seed=1).mechanisms[0].weights != two.mechanisms[0].weights
    )


def test_json_round_trip(two: Overview) -> None:
    assert Overview.from_json(two.as_json()) == two


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"mechanisms": [{}], "tokens": []}'])
def test_other_json_is_rejected(text: str) -> None:
    with pytest.raises(RegardError, match=r"not a valid Overview.* `regard overview --json`"):
        Overview.from_json(text)


def test_progress_callbacks() -> None:
    calls: list[str | MechanismRecord] = []
    found = build_overview(only=["location"], begin=calls.append, done=calls.append)
    assert calls == ["location", found.mechanisms[0]]


@pytest.mark.parametrize(
    ("sentence", "message"),
    [
        ("  ", r"0 words.* 1 to 32"),
        ("no " * (MAX_TOKENS + 1), r"33 words.* 1 to 32"),
        ("a " + "b" * 41, r"'b+…' has 41 .* up to 40"),
    ],
)
def test_sentences_are_bounded(sentence: str, message: str) -> None:
    with pytest.raises(RegardError, match=message):
        tokenise(sentence)


def test_the_verb_writes_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "new" / "overview.html"
    options = [f"--only={name}" for name in TWO]
    assert run(f"--out={page}", *options, "--sentence=a rose <script> is a rose") == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines() == [
        str(page),
        "2 mechanisms, 6 words",
        "3 checks passed, 0 failed",
        "1 does not apply (reasons on the page)",
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
        (["--out=."], "'.' is a folder"),
    ],
)
def test_errors_are_raised_before_the_work(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RegardError) as error:
        run_verb("overview", arguments)
    assert str(error.value).startswith(message)
    assert list(tmp_path.iterdir()) == []
