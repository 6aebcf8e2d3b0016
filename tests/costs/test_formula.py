"""Closed-form formulas: exact, verified, formatted."""

from __future__ import annotations

from fractions import Fraction

import pytest

from regard.core.errors import RegardError
from regard.costs.compare import Setting, mechanism_candidate
from regard.costs.formula import Polynomial, closed_form, interpolate


@pytest.mark.parametrize(
    ("figure", "formula"),
    [
        (lambda n, d: 4 * n * n * d + 6 * n * n, "4n²d + 6n²"),
        (lambda n, d: n * (2 * d**3 + d**2 - 5 * d) - 7, "n·(2d³ + d² − 5d) − 7"),
        (lambda n, d: n * d * (d + 1) // 2, "1/2·nd² + 1/2·nd"),
        (lambda n, _: -n, "-n"),
        (lambda _n, _d: 0, "0"),
        (lambda _, d: d**6, "d⁶"),
    ],
)
def test_a_polynomial_is_found_exactly(figure, formula: str) -> None:  # type: ignore[no-untyped-def]
    found = closed_form(figure, width=24)
    assert found is not None
    assert found.as_text() == formula
    assert found.at(1024, 24) == figure(1024, 24)


def test_a_formula_in_the_length_alone() -> None:
    found = closed_form(lambda n, d: 3 * n * n + n * d.bit_length(), width=20)
    assert found is not None
    assert found.as_text() == "3n² + 5n (d = 20)"


@pytest.mark.parametrize(
    "figure",
    [
        lambda n, _: n * n.bit_length(),
        lambda n, _: n**3,
        lambda n, _: n // 1024,
    ],
)
def test_other_functions_have_no_formula(figure) -> None:  # type: ignore[no-untyped-def]
    assert closed_form(figure, width=16) is None


def test_a_count_that_raises_has_no_formula() -> None:
    def figure(length: int, width: int) -> int:
        raise RegardError("too long")

    assert closed_form(figure, width=16) is None


def test_a_degree_above_six_is_not_fitted() -> None:
    found = closed_form(lambda n, d: n * d**7, width=4)
    assert found is not None
    assert found.as_text() == f"{4**7}n (d = 4)"


def test_the_leading_terms_have_the_highest_power_of_the_length() -> None:
    found = Polynomial(
        {(1, 3): Fraction(2), (1, 2): Fraction(6), (1, 1): Fraction(5), (0, 9): Fraction(1)}
    )
    assert found.leading().as_text(most_terms=2) == "n·(2d³ + 6d² + …)"
    assert Polynomial({(0, 3): Fraction(1), (0, 0): Fraction(1)}).leading().as_text() == "d³ + 1"


def test_interpolation_is_exact() -> None:
    assert interpolate([2, 3, 5], [8, 27, 125]) == [Fraction(30), Fraction(-31), Fraction(10)]


@pytest.mark.parametrize(
    ("name", "mode", "formula"),
    [
        ("scaled_dot", "forward", "2n²d"),
        ("scaled_dot", "train", "7n²d"),
        ("scaled_dot", "decode", "4nd"),
        ("elu", "forward", "4nd² + 256nd"),
    ],
)
def test_formulas_of_mechanisms(name: str, mode, formula: str) -> None:  # type: ignore[no-untyped-def]
    setting = Setting(length=64, num_heads=2, head_dim=16, causal=True, mode=mode)
    assert mechanism_candidate(name, setting, None).formula(mode) == formula
