"""The claim engine: running claims, errors, settings and ranges, verdicts, bisection, timing, counting."""

from __future__ import annotations

import math

import pytest
import torch
from tests.factories.claims import CLAIMS, LINES, squares_are_even, squares_are_learned
from torch import nn

from regard.claims import TOPICS, list_claims
from regard.claims.engine import (
    MAX_VALUE,
    Claim,
    bisect_last_true,
    claim,
    count_ops,
    interleaved_seconds,
    layer_call,
    mechanism_call,
    median_interval,
    num_threads,
    ratio_interval,
    run_claims,
    run_with_settings,
    verdict_over,
)
from regard.core.errors import MissingDependencyError, RegardError
from regard.core.records.claim import VERDICTS, ClaimRecord, Finding


def raising(error: Exception, cause: Exception | None = None) -> Claim:
    """A claim that raises an error."""

    @claim(statement="–", formula="–", source="–", proof="numeric")
    def broken() -> Finding:
        raise error from cause

    return broken


@claim(statement="–", formula="–", source="–", proof="numeric")
def has_a_fourth(*, n: int = 4, root: float = 2.0) -> Finding:
    """Raises different errors, depending on the settings."""
    if n == 8:
        raise RegardError("n=8: there are no eight.")
    if n == 9:
        raise MemoryError
    ways = {5: 1 / (root - 1), 6: [0] * 6, 7: 0.0}
    return Finding(
        verdict="holds",
        reason=f"{list(range(n))[3]} {ways.get(n)} {root**n}",
        values={},
        figure=LINES,
    )


def test_training_claims_run_only_on_request() -> None:
    assert [record.skip_reason[:9] for record in run_claims(CLAIMS)] == ["", "", "", "it trains"]
    (record,) = run_claims([squares_are_learned], trained=True)
    assert record.finding is None
    assert record.skip_reason == "There are no squares in this folder. Fetch them."
    assert record.error == ""


def test_callbacks_before_and_after_each_claim() -> None:
    events: list[str] = []

    def on_start(started: Claim) -> None:
        events.append(f"begin {started.name}")

    def on_done(record: ClaimRecord) -> None:
        events.append(f"done {record.name}")

    run_claims(CLAIMS[:2], on_start=on_start, on_done=on_done)
    assert events == [
        "begin squares-are-even",
        "done squares-are-even",
        "begin squares-are-odd",
        "done squares-are-odd",
    ]


def test_missing_dependencies_are_skipped() -> None:
    missing = MissingDependencyError("There is no package. Install it.")
    wrapped = RegardError("In the variant 'a': There is no package. Install it.")
    for broken in (raising(missing), raising(wrapped, missing)):
        (record,) = run_claims([broken])
        assert record.skip_reason.endswith("There is no package. Install it.")
        assert record.error == ""


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (RegardError("There is no boundary."), "There is no boundary."),
        (ZeroDivisionError(), "ZeroDivisionError (test_engine.py, line 38)"),
        (RuntimeError("one\n  two"), "RuntimeError: one two (test_engine.py, line 38)"),
    ],
)
def test_an_error_does_not_stop_other_claims(error: Exception, message: str) -> None:
    finished: list[ClaimRecord] = []
    records = run_claims([raising(error), squares_are_even], on_done=finished.append)
    assert finished == records
    assert [record.name for record in records] == ["broken", "squares-are-even"]
    assert (records[0].finding, records[0].skip_reason, records[0].error) == (None, "", message)
    assert records[1].finding is not None


def test_keyboard_interrupt_stops_all_claims() -> None:
    @claim(statement="–", formula="–", source="–", proof="numeric")
    def interrupted() -> Finding:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_claims([interrupted, squares_are_even])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n": 3}, "cannot be decided with n=3 (IndexError: list index out of range). Use values"),
        ({"root": 1.0, "n": 5}, "with root=1.0, n=5 (ZeroDivisionError: float division by zero)"),
        (
            {"root": 1e300},
            "with root=1e+300 (OverflowError: (34, 'Numerical result out of range'))",
        ),
        ({"n": 9}, "with n=9 (MemoryError). Use values closer to the defaults: n=4."),
        ({"n": 8}, "n=8: there are no eight."),
    ],
)
def test_setting_errors_are_one_line(changes: dict[str, object], message: str) -> None:
    with pytest.raises(RegardError) as raised:
        run_with_settings(has_a_fourth, **changes)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
    assert ("'has-a-fourth'" in str(raised.value)) == (changes != {"n": 8})


def test_errors_without_changed_settings_are_raised() -> None:
    assert run_with_settings(has_a_fourth).finding is not None
    with pytest.raises(ZeroDivisionError):
        run_with_settings(raising(ZeroDivisionError()))


@pytest.mark.parametrize(
    ("satisfied", "verdict"), [(["a", "b"], "holds"), (["b"], "holds if"), ([], "fails")]
)
def test_verdict_over_cases(satisfied: list[str], verdict: str) -> None:
    assert verdict_over(satisfied, {"a": 1.0, "b": 2.0}) == verdict


def test_bisection_finds_the_boundary() -> None:
    assert bisect_last_true(lambda x: x <= 0.3, low=0.0, high=1.0) == pytest.approx(0.3)


def test_bisection_of_an_always_true_predicate() -> None:
    assert bisect_last_true(lambda _: True, low=0.0, high=1.0) == 1.0


def test_bisection_of_an_always_false_predicate() -> None:
    assert bisect_last_true(lambda _: False, low=0.0, high=1.0) is None


def test_median_interval_of_fifteen_values() -> None:
    """P(3 or fewer of 15 below the median) = 576/32768 < 2.5 % < P(4 or fewer) = 1941/32768."""
    found = median_interval([float(value) for value in range(1, 16)])
    assert (found.median, found.low, found.high) == (8.0, 4.0, 12.0)


def test_median_interval_of_few_values() -> None:
    assert median_interval([3.0, 1.0, 2.0]) == (2.0, 1.0, 3.0)


def test_ratio_per_round() -> None:
    """A slow round slows both, so the ratio is 2 in each."""
    assert ratio_interval([2.0, 20.0, 4.0], [1.0, 10.0, 2.0]) == (2.0, 2.0, 2.0)


def test_calls_are_interleaved_after_a_warm_up() -> None:
    called: list[str] = []
    calls = {name: (lambda name=name: called.append(name)) for name in "ab"}
    times = interleaved_seconds(calls, rounds=3)
    assert "".join(called) == "ab" * 4
    assert {name: len(each) for name, each in times.items()} == {"a": 3, "b": 3}


def test_number_of_threads_is_restored() -> None:
    before = torch.get_num_threads()
    with num_threads(1):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before


def test_count_of_a_linear_layer() -> None:
    """3 · 2 · 4 · 5 matmul FLOPs and 3 · 5 bias additions."""
    counter = count_ops(layer_call(nn.Linear(4, 5), n=3, d=4))
    assert counter.matmul_flops == 120
    assert counter.flops == 135


def test_count_of_dot_attention() -> None:
    """Scores and values: 2 · 2n²d."""
    assert count_ops(mechanism_call("dot", n=3, d=5)).matmul_flops == 4 * 9 * 5


# Claims of `limits` have their own tests of settings.
ALL_CLAIMS = [claim for topic in TOPICS if topic != "limits" for claim in list_claims(topic)]
# The excluded one trains a large model for a step.
FAST_CLAIMS = [
    claim
    for claim in ALL_CLAIMS
    if not claim.trained and claim.name != "base-transformer-is-untrainable-on-one-machine"
]


@pytest.mark.parametrize("claim", ALL_CLAIMS, ids=lambda claim: claim.name)
def test_defaults_are_within_the_ranges(claim: Claim) -> None:
    assert set(claim.ranges) <= set(claim.defaults)
    for name, (low, high) in claim.ranges.items():
        value = claim.defaults[name]
        assert isinstance(value, int | float)
        assert low <= value <= high


@pytest.mark.parametrize("claim", ALL_CLAIMS, ids=lambda claim: claim.name)
def test_every_numeric_setting_has_a_range(claim: Claim) -> None:
    """Except seeds, and vocabularies of models on the meta device."""
    free = {"seed", "vocabulary"}
    numbers = {
        name
        for name, value in claim.defaults.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    assert numbers - free <= set(claim.ranges)


# The minimum of these conflicts with the default of another setting.
CONFLICTS = {
    ("kl-has-to-be-maximised", "n"),
    ("padded-keys-have-zero-weight", "length"),
    ("zero-scores-mask-padding", "length"),
    ("transformer-parameter-count", "model_dim"),
    ("self-attention-is-faster-below-d", "d"),
}


@pytest.mark.parametrize("claim", FAST_CLAIMS, ids=lambda claim: claim.name)
def test_minimum_of_each_setting_is_decided(claim: Claim) -> None:
    for name, (low, _) in claim.ranges.items():
        if (claim.name, name) in CONFLICTS:
            continue
        finding = claim.run(**{name: type(claim.defaults[name])(low)}).finding
        assert finding is not None
        assert finding.verdict in VERDICTS
        numbers = [value for value in finding.values.values() if isinstance(value, float)]
        assert all(map(math.isfinite, numbers))


@pytest.mark.parametrize(("name", "setting"), sorted(CONFLICTS))
def test_error_for_conflicting_settings(name: str, setting: str) -> None:
    claim = next(claim for claim in FAST_CLAIMS if claim.name == name)
    with pytest.raises(RegardError):
        claim.run(**{setting: claim.ranges[setting][0]})


@pytest.mark.parametrize("claim", ALL_CLAIMS, ids=lambda claim: claim.name)
def test_error_outside_the_ranges(claim: Claim) -> None:
    for name, (low, high) in claim.ranges.items():
        kind = type(claim.defaults[name])
        for value in (low - 1, high + 1 if high < MAX_VALUE else 2 * high):
            with pytest.raises(RegardError, match=f"{name}=.* from "):
                claim.run(**{name: kind(value)})
