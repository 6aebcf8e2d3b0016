"""The conformance suite: its table, its documentation, reports, factories, assertions."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.conformance.broken.sound import Plain

import regard.conformance
from regard.conformance import CHECKS, Report, check_mechanism
from regard.conformance.case import CheckFailed, assert_close, assert_finite
from regard.core.errors import RegardError
from regard.core.mechanism import Mechanism

DOCUMENT = Path(__file__).parents[2] / "docs" / "conformance.md"


def test_the_document_lists_exactly_the_checks() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", DOCUMENT.read_text("utf-8"), re.MULTILINE)
    assert dict(rows) == {name: check.description for name, check in CHECKS.items()}
    assert len(rows) == len(CHECKS)


@pytest.mark.parametrize("name", CHECKS)
def test_every_entry_names_a_documented_function(name: str) -> None:
    function = getattr(import_module(f"regard.conformance.{CHECKS[name].module}"), name)
    assert function.__doc__


def test_exports() -> None:
    for name in regard.conformance.__all__:
        assert getattr(regard.conformance, name) is not None
    with pytest.raises(AttributeError, match="It exports: CHECKS"):
        regard.conformance.check_mechanisms  # noqa: B018


def test_a_factory_is_called_with_the_sizes() -> None:
    given: dict[str, Any] = {}

    def build(**sizes: Any) -> Mechanism:
        given.update(sizes)
        return Plain(num_heads=sizes["num_heads"])

    report = check_mechanism(build, name="mine", only=["state_form"])
    assert report.passed
    assert report.records[0].mechanism == "mine"
    assert set(given) == {"query_dim", "key_dim", "num_heads", "max_length"}


def test_a_factory_takes_no_options() -> None:
    with pytest.raises(RegardError, match="num_heads"):
        check_mechanism(lambda **_: Plain(num_heads=4), options={"num_heads": 2})


def test_the_same_seed_gives_the_same_report() -> None:
    class Random(Plain):
        def attend(self, *args: Any) -> torch.Tensor:
            return super().attend(*args) * 2

    once, again = (check_mechanism(Random, only=["forward_equals_weights"]) for _ in range(2))
    assert once == again
    other = check_mechanism(Random, only=["forward_equals_weights"], seed=1)
    assert other.records[0].worst != once.records[0].worst


def test_checks_do_not_change_the_global_generator() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    check_mechanism(Plain, only=["state_form", "gradient_check"])
    assert torch.equal(torch.rand(3), expected)


def test_assert_close_reports_the_worst_element() -> None:
    expected = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    with pytest.raises(CheckFailed) as failure:
        assert_close(expected + torch.tensor([[0.0, 0.5], [0.1, 0.0]]), expected, "sums")
    assert str(failure.value) == "sums: element [0, 1] should be 2 and is 2.5 (error 0.5)"
    with pytest.raises(CheckFailed, match=r"element \[1\] should be 0 and is nan"):
        assert_close(torch.tensor([9.0, float("nan")]), torch.zeros(2), "sums")
    with pytest.raises(CheckFailed, match=r"shape should be \(2,\) and is \(3,\)"):
        assert_close(torch.zeros(3), torch.zeros(2), "sums")
    with pytest.raises(CheckFailed, match="is inf"):
        assert_finite(torch.tensor([1e30, float("inf")]), "outputs")


def test_reports_add_up() -> None:
    one = check_mechanism(Plain, only=["state_form"])
    assert len((one + one).records) == 2
    assert Report(()).passed
