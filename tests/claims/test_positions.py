"""Claims about positional encodings: verdicts, and deliberately wrong variants."""

from __future__ import annotations

import math

import pytest
import sympy
import torch
from torch import Tensor

from regard.claims import list_claims, positions
from regard.claims.engine import Claim
from regard.claims.positions import (
    OMEGA,
    SHIFT,
    TIME,
    TOLERANCE,
    every_mechanism_is_permutation_equivariant,
    orthogonality_residual,
    permutation_errors,
    positions_break_permutation_equivariance,
    products_by_distance,
    rotation,
    self_attention_is_permutation_equivariant,
    shift_matrix_is_orthogonal,
    shift_residual,
    shifting_is_one_linear_map,
    solved_residual,
)
from regard.core.errors import RegardError
from regard.core.records.claim import MatrixFigure
from regard.layers.positions import SinusoidalPositions
from regard.mechanisms import MECHANISMS, build_mechanism


def verdict(claim: Claim, **changes: object) -> str:
    finding = claim.run(**changes).finding
    assert finding is not None
    return finding.verdict


def test_verdicts() -> None:
    assert {claim.name: verdict(claim) for claim in list_claims("positions")} == {
        "shifting-is-one-linear-map": "holds",
        "shift-matrix-is-orthogonal": "holds",
        "self-attention-is-permutation-equivariant": "holds",
        "positions-break-permutation-equivariance": "holds",
        "every-mechanism-is-permutation-equivariant": "holds if",
    }


@pytest.mark.parametrize(
    "block",
    [
        rotation(-OMEGA * SHIFT),
        rotation(OMEGA),
        2 * rotation(OMEGA * SHIFT),
        sympy.eye(2),
    ],
    ids=["backwards", "by one", "twice as long", "unmoved"],
)
def test_no_other_block_is_a_shift(block: sympy.Matrix) -> None:
    assert shift_residual(rotation(OMEGA * SHIFT)) == sympy.zeros(2, 1)
    assert shift_residual(block) != sympy.zeros(2, 1)


def test_the_matrix_solved_from_two_positions_is_the_rotation() -> None:
    assert solved_residual(rotation(OMEGA * SHIFT)) == sympy.zeros(2, 2)
    assert solved_residual(rotation(OMEGA * (SHIFT + TIME))) != sympy.zeros(2, 2)


def test_sheared_matrices_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    original = SinusoidalPositions.shift_matrix

    def sheared(self: SinusoidalPositions, shift: int) -> Tensor:
        matrix = original(self, shift)
        matrix[0, 1] += 0.1  # the trace, and so the dot products, are unchanged
        return matrix

    monkeypatch.setattr(SinusoidalPositions, "shift_matrix", sheared)
    finding = shift_matrix_is_orthogonal.run().finding
    assert finding is not None
    assert finding.verdict == "fails"
    assert float(finding.values["skew"]) > 0.05 > float(finding.values["error"])


def test_a_stretched_rotation_is_not_orthogonal() -> None:
    assert orthogonality_residual(rotation(OMEGA)) == sympy.zeros(2, 2)
    assert orthogonality_residual(2 * rotation(OMEGA)) == 3 * sympy.eye(2)


def test_shift_matrix_of_one_pair() -> None:
    finding = shifting_is_one_linear_map.run(model_dim=2, shift=1).finding
    assert finding is not None
    assert isinstance(finding.figure, MatrixFigure)
    expected = ((math.cos(1), math.sin(1)), (-math.sin(1), math.cos(1)))
    assert [list(row) for row in finding.figure.values] == pytest.approx(
        [pytest.approx(list(row)) for row in expected]
    )


@pytest.mark.parametrize("shift", [-1, -600, 0])
def test_negative_shifts(shift: int) -> None:
    assert verdict(shifting_is_one_linear_map, shift=shift) == "holds"


@pytest.mark.parametrize("positions_tried", [16, 100_000])
def test_rounding_at_large_positions(positions_tried: int) -> None:
    assert verdict(shifting_is_one_linear_map, positions=positions_tried) == "holds"


def test_backward_shift_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    original = SinusoidalPositions.shift_matrix

    def backwards(self: SinusoidalPositions, shift: int) -> Tensor:
        return original(self, shift).T

    monkeypatch.setattr(SinusoidalPositions, "shift_matrix", backwards)
    finding = shifting_is_one_linear_map.run().finding
    assert finding is not None
    assert finding.verdict == "fails"
    assert finding.values["error"] > 0.5  # type: ignore[operator]


def test_scaled_table_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    original = SinusoidalPositions.table
    monkeypatch.setattr(
        SinusoidalPositions, "table", lambda self, places: 1.1 * original(self, places)
    )
    assert verdict(shift_matrix_is_orthogonal) == "fails"


def test_dot_product_of_one_pair_is_the_cosine() -> None:
    products, expected = products_by_distance(model_dim=2, max_distance=3, base=10_000.0)
    by_hand = torch.tensor([math.cos(distance) for distance in range(4)], dtype=torch.float64)
    torch.testing.assert_close(expected, by_hand)
    torch.testing.assert_close(products, by_hand.expand(3, 4))


@pytest.mark.parametrize(
    "change",
    [
        {"position": "sinusoidal"},
        {"position": "learned"},
        {"position": "rotary"},
        {"position": "alibi"},
        {"causal": True},
        {"mechanism": "window"},
        {"mechanism": "synthesizer_random"},
    ],
    ids=lambda change: "-".join(map(str, change.values())),
)
def test_settings_that_break_equivariance(change: dict[str, object]) -> None:
    finding = self_attention_is_permutation_equivariant.run(**change).finding
    assert finding is not None
    assert finding.verdict == "fails"
    assert max(finding.values.values()) > 1e-3  # type: ignore[operator]


def test_error_for_an_unknown_position() -> None:
    with pytest.raises(RegardError, match=r"'rotar'.*'rotary'"):
        self_attention_is_permutation_equivariant.run(position="rotar")


def test_alibi_is_symmetric_under_reversal() -> None:
    errors = permutation_errors("alibi", "scaled_dot", length=12, seed=3)
    assert errors["reversal"] < TOLERANCE < 1e-3 < errors["random"]


def test_equivariant_positions_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_learned(position: str, *arguments: object, **options: object) -> dict[str, float]:
        equivariant = position in {"none", "learned"}
        return {"reversal": 0.0 if equivariant else 1.0}

    monkeypatch.setattr(positions, "permutation_errors", without_learned)
    finding = positions_break_permutation_equivariance.run().finding
    assert finding is not None
    assert finding.verdict == "fails"
    assert finding.counter_example == "no permutation changes the output with: learned"


def test_equivariant_mechanisms_declare_it() -> None:
    finding = every_mechanism_is_permutation_equivariant.run(seed=5).finding
    assert finding is not None
    for name in MECHANISMS:
        declared = build_mechanism(name, query_dim=8, key_dim=8, max_length=8).capabilities
        order_aware = declared.position_aware or declared.requires_causal
        assert (float(finding.values[name]) > TOLERANCE) == order_aware, name


@pytest.mark.parametrize(
    ("names", "expected"),
    [(["dot"], "holds"), (["location"], "fails"), (["dot", "delta"], "holds if")],
)
def test_verdict_depends_on_the_mechanisms(
    names: list[str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(positions, "MECHANISMS", {name: MECHANISMS[name] for name in names})
    assert verdict(every_mechanism_is_permutation_equivariant) == expected
