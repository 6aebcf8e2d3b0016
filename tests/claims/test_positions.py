"""Shifts are rotations, and the order is seen with positions only; broken variants come out otherwise."""

from __future__ import annotations

import math

import pytest
import sympy
import torch
from torch import Tensor

from regard.claims import claims_of, positions
from regard.claims.engine import Claim
from regard.claims.positions import (
    OMEGA,
    SEEN,
    SHIFT,
    TIME,
    order_gaps,
    order_is_unseen_by_every_mechanism,
    order_is_unseen_without_positions,
    orthogonality_rest,
    positions_show_the_order,
    products_by_distance,
    rotation,
    shift_matrix_is_orthogonal,
    shift_rest,
    shifting_is_one_linear_map,
    solved_rest,
)
from regard.core.errors import RegardError
from regard.core.records.claim import MatrixPicture
from regard.layers.positions import SinusoidalPositions
from regard.mechanisms import MECHANISMS, build_mechanism


def verdict(claim: Claim, **changes: object) -> str:
    finding = claim.run(**changes).finding
    assert finding is not None
    return finding.verdict


def test_every_verdict_is_the_known_one() -> None:
    assert {claim.name: verdict(claim) for claim in claims_of("positions")} == {
        "shifting-is-one-linear-map": "holds",
        "shift-matrix-is-orthogonal": "holds",
        "order-is-unseen-without-positions": "holds",
        "positions-show-the-order": "holds",
        "order-is-unseen-by-every-mechanism": "holds if",
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
    assert shift_rest(rotation(OMEGA * SHIFT)) == sympy.zeros(2, 1)
    assert shift_rest(block) != sympy.zeros(2, 1)


def test_the_matrix_solved_from_two_positions_is_the_rotation_and_no_other() -> None:
    assert solved_rest(rotation(OMEGA * SHIFT)) == sympy.zeros(2, 2)
    assert solved_rest(rotation(OMEGA * (SHIFT + TIME))) != sympy.zeros(2, 2)


def test_a_layer_whose_matrices_stretch_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = SinusoidalPositions.shift_matrix

    def sheared(self: SinusoidalPositions, shift: int) -> Tensor:
        matrix = right(self, shift)
        matrix[0, 1] += 0.1  # the trace, and with it the products, stays as it is
        return matrix

    monkeypatch.setattr(SinusoidalPositions, "shift_matrix", sheared)
    finding = shift_matrix_is_orthogonal.run().finding
    assert finding is not None
    assert finding.verdict == "fails"
    assert float(finding.figures["skew"]) > 0.05 > float(finding.figures["error"])


def test_a_stretched_rotation_is_not_orthogonal() -> None:
    assert orthogonality_rest(rotation(OMEGA)) == sympy.zeros(2, 2)
    assert orthogonality_rest(2 * rotation(OMEGA)) == 3 * sympy.eye(2)


def test_the_matrix_of_one_pair_can_be_checked_by_hand() -> None:
    finding = shifting_is_one_linear_map.run(width=2, shift=1).finding
    assert finding is not None
    assert isinstance(finding.picture, MatrixPicture)
    expected = ((math.cos(1), math.sin(1)), (-math.sin(1), math.cos(1)))
    assert [list(row) for row in finding.picture.values] == pytest.approx(
        [pytest.approx(list(row)) for row in expected]
    )


@pytest.mark.parametrize("shift", [-1, -600, 0])
def test_a_shift_may_go_back(shift: int) -> None:
    assert verdict(shifting_is_one_linear_map, shift=shift) == "holds"


@pytest.mark.parametrize("positions_tried", [16, 100_000])
def test_rounding_far_out_is_no_counter_example(positions_tried: int) -> None:
    assert verdict(shifting_is_one_linear_map, positions=positions_tried) == "holds"


def test_a_layer_that_shifts_backwards_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = SinusoidalPositions.shift_matrix

    def backwards(self: SinusoidalPositions, shift: int) -> Tensor:
        return right(self, shift).T

    monkeypatch.setattr(SinusoidalPositions, "shift_matrix", backwards)
    finding = shifting_is_one_linear_map.run().finding
    assert finding is not None
    assert finding.verdict == "fails"
    assert finding.figures["error"] > 0.5  # type: ignore[operator]


def test_a_table_with_longer_vectors_breaks_the_products(monkeypatch: pytest.MonkeyPatch) -> None:
    right = SinusoidalPositions.table
    monkeypatch.setattr(
        SinusoidalPositions, "table", lambda self, places: 1.1 * right(self, places)
    )
    assert verdict(shift_matrix_is_orthogonal) == "fails"


def test_the_product_of_one_pair_is_the_cosine_of_the_distance() -> None:
    products, expected = products_by_distance(width=2, farthest=3, base=10_000.0)
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
def test_what_brings_the_order_in_is_found(change: dict[str, object]) -> None:
    finding = order_is_unseen_without_positions.run(**change).finding
    assert finding is not None
    assert finding.verdict == "fails"
    assert max(finding.figures.values()) > 1e-3  # type: ignore[operator]


def test_an_unknown_kind_of_positions_is_refused() -> None:
    with pytest.raises(RegardError, match=r"Unknown position 'rotar'\. Did you mean 'rotary'"):
        order_is_unseen_without_positions.run(position="rotar")


def test_alibi_alone_does_not_tell_a_text_from_its_mirror_image() -> None:
    gaps = order_gaps("alibi", "scaled_dot", length=12, seed=3)
    assert gaps["reversal"] < SEEN < 1e-3 < gaps["at random"]


def test_positions_that_are_not_seen_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_learned(position: str, *words: object, **options: object) -> dict[str, float]:
        blind = position in {"none", "learned"}
        return {"reversal": 0.0 if blind else 1.0}

    monkeypatch.setattr(positions, "order_gaps", without_learned)
    finding = positions_show_the_order.run().finding
    assert finding is not None
    assert finding.verdict == "fails"
    assert finding.counter_example == "no permutation changes anything with: learned"


def test_those_that_do_not_see_the_order_are_those_that_declare_it() -> None:
    finding = order_is_unseen_by_every_mechanism.run(seed=5).finding
    assert finding is not None
    for name in MECHANISMS:
        promised = build_mechanism(name, query_dim=8, key_dim=8, max_length=8).capabilities
        sees = promised.position_aware or promised.requires_causal
        assert (float(finding.figures[name]) > SEEN) == sees, name


@pytest.mark.parametrize(
    ("names", "expected"),
    [(["dot"], "holds"), (["location"], "fails"), (["dot", "delta"], "holds if")],
)
def test_the_verdict_follows_the_mechanisms_there_are(
    names: list[str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(positions, "MECHANISMS", {name: MECHANISMS[name] for name in names})
    assert verdict(order_is_unseen_by_every_mechanism) == expected
