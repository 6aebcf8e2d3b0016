"""Claims about the costs of layers: right verdicts, and others where the statement is broken."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from regard.claims import layer_costs as topic
from regard.claims.engine import Claim, MedianInterval
from regard.claims.experiments.layer_costs import (
    Count,
    boundary,
    layers_until_all_meet,
    steps_until_read,
    window_reach,
)
from regard.core.mechanism import Step
from regard.core.records.claim import ClaimRecord, Finding
from regard.layers.recurrent import Recurrent


def found(claim: Claim, **changes: object) -> Finding:
    record: ClaimRecord = claim.run(**changes)
    assert record.finding is not None
    return record.finding


@pytest.mark.parametrize(
    ("claim", "changes", "constant"),
    [
        (topic.self_attention_takes_n_squared_d, {}, 4),
        (topic.recurrent_layer_takes_n_d_squared, {}, 16),
        (topic.recurrent_layer_takes_n_d_squared, {"cell": "gru"}, 12),
        (topic.recurrent_layer_takes_n_d_squared, {"cell": "tanh"}, 4),
        (topic.convolution_takes_k_n_d_squared, {}, 2),
    ],
)
def test_products_are_a_constant_times_the_term(
    claim: Claim, changes: dict[str, object], constant: int
) -> None:
    finding = found(claim, **changes)
    assert finding.verdict == "holds"
    assert finding.figures["least_constant"] == finding.figures["greatest_constant"] == constant


def test_with_projections_there_is_no_one_constant() -> None:
    """(8nd² + 4n²d)/n²d = 4 + 8d/n: from 4 + 8·16/40 to 4 + 8·16/8."""
    finding = found(topic.self_attention_takes_n_squared_d, with_projections=True)
    assert finding.verdict == "fails"
    assert finding.figures["least_constant"] == pytest.approx(7.2)
    assert finding.figures["greatest_constant"] == pytest.approx(20.0)


def test_a_wrong_term_is_found_out() -> None:
    finding = topic.proportional(
        lambda n, d: 2 * n * d,
        lambda n, _d: n * n,
        topic.SMALL_GRID,
        layer="a made-up layer",
        written="n²",
    )
    assert finding.verdict == "fails"


def test_heads_have_the_products_of_one() -> None:
    """8nd² + 4n²d at n = 32, d = 64."""
    finding = found(topic.heads_cost_what_one_costs)
    assert finding.verdict == "holds if"
    assert finding.figures["products"] == 8 * 32 * 64**2 + 4 * 32**2 * 64
    assert "h ≤ 16" in finding.boundary


def test_with_enough_tolerance_any_number_of_heads_costs_the_same() -> None:
    assert found(topic.heads_cost_what_one_costs, tolerance=1.0).verdict == "holds"


def test_heads_with_other_products_are_found_out() -> None:
    assert topic.heads_verdict([10, 12], all_within=True) == "fails"
    assert "products, whatever h" in found(topic.heads_cost_what_one_costs).because


def test_where_self_attention_is_cheaper() -> None:
    finding = found(topic.self_attention_is_cheaper_below_d)
    assert finding.verdict == "holds if"
    assert list(finding.figures.values()) == [1.0, 2.0, 1.0, 0.0]
    assert "tanh" not in finding.boundary


@pytest.mark.parametrize(
    ("first", "second", "least"),
    [
        (lambda n, _d: n * n, lambda n, _d: 10 * n, 10),
        (lambda _n, _d: 2, lambda _n, _d: 1, 0),
    ],
)
def test_boundaries_are_found_by_halving(first: Count, second: Count, least: int) -> None:
    assert boundary(first, second, d=16) == least


@pytest.mark.parametrize(
    ("shares", "verdict"),
    [
        ({"lstm": 0.5, "gru": 0.1, "tanh": 0.2}, "holds"),
        ({"lstm": 1.5, "gru": 0.1, "tanh": 0.2}, "holds if"),
        ({"lstm": 1.5, "gru": 1.1, "tanh": 1.2}, "fails"),
    ],
)
def test_times_are_judged_by_their_intervals(
    shares: dict[str, float], verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made_up(cell: str, lengths: list[int], **_: object) -> dict[int, MedianInterval]:
        middle = shares[cell]
        return {n: MedianInterval(middle, 0.9 * middle, 1.05 * middle) for n in lengths}

    monkeypatch.setattr(topic, "time_ratios", made_up)
    assert found(topic.self_attention_is_faster_below_d).verdict == verdict


def test_times_are_measured() -> None:
    finding = found(topic.self_attention_is_faster_below_d, d=16, num_heads=2, rounds=2)
    assert all(isinstance(value, float) and value > 0 for value in finding.figures.values())


def test_sequential_steps() -> None:
    """Projection, attention, output: 3 operators in turn; an LSTM adds one for every token."""
    finding = found(topic.sequential_steps_are_constant)
    assert finding.verdict == "holds"
    assert finding.figures["attention"] == 3
    assert finding.figures["per_token"] == 1.0
    assert found(topic.sequential_steps_are_constant, cell="gru").verdict == "holds"


def test_paths() -> None:
    finding = found(topic.path_length_is_constant)
    assert finding.verdict == "holds"
    assert finding.figures == {"attention": 1, "recurrent": 32}


def test_a_window_has_longer_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic, "mechanism_reach", lambda _name, n: window_reach(n, 2))
    assert found(topic.path_length_is_constant).verdict == "fails"


def test_window_paths() -> None:
    finding = found(topic.window_path_is_n_over_r)
    assert finding.verdict == "holds"
    assert finding.figures["wrong"] == 0


def test_another_formula_of_the_path_is_found_out() -> None:
    """n = 5, r = 3: two layers, though 5 // 3 = 1."""
    paths = {(n, r): layers_until_all_meet(window_reach(n, r)) for n, r in [(5, 3), (7, 3)]}
    assert paths == {(5, 3): 2, (7, 3): 2}
    assert topic.path_faults(paths, lambda n, r: n // r) == ["n = 5, r = 3: 2 layers, not 1."]


def test_positions_that_never_meet_refute_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    assert layers_until_all_meet(np.eye(3, dtype=bool)) is None
    monkeypatch.setattr(topic, "mechanism_reach", lambda _name, n: np.eye(n, dtype=bool))
    finding = found(topic.path_length_is_constant)
    assert finding.verdict == "fails"
    assert finding.figures["attention"] == "never"
    monkeypatch.setattr(topic, "window_reach", lambda n, _r: np.eye(n, dtype=bool))
    assert found(topic.window_path_is_n_over_r).verdict == "fails"


class Skipping(Recurrent):
    """Hands the state before the last one on as well: half as many steps lead to the last output."""

    def step(self, state: Any, x: Tensor) -> Step:
        earlier = getattr(self, "earlier", None)
        self.earlier = None if not bool(state.position.any()) else state
        if earlier is None:
            return super().step(state, x)
        both = state._replace(hidden=state.hidden + earlier.hidden)
        return super().step(both, x)


def test_a_layer_with_a_shorter_way_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = Recurrent(model_dim=4, hidden_dim=4)
    assert [steps_until_read(layer, n=n) for n in (1, 2, 5)] == [1, 2, 5]
    assert steps_until_read(Skipping(model_dim=4, hidden_dim=4), n=9) < 9
    monkeypatch.setattr(topic, "Recurrent", Skipping)
    finding = found(topic.path_length_is_constant)
    assert finding.verdict == "fails"
    assert 16 <= int(finding.figures["recurrent"]) < 32


def test_a_layer_without_a_memory_has_no_way() -> None:
    layer = Recurrent(model_dim=4, hidden_dim=4, cell="tanh")
    torch.nn.init.zeros_(layer.layer.weight_hh_l0)  # type: ignore[arg-type]
    assert steps_until_read(layer, n=3) == 0


def test_softmax_attention_is_quadratic() -> None:
    """Products 4n²d and 5 + 1 operations a pair: (4d + 6)n², so twice the length is four times as much."""
    finding = found(topic.softmax_attention_is_quadratic)
    assert finding.verdict == "holds"
    assert finding.figures["second_difference"] == (4 * 16 + 6) * 2 * 32**2
    assert finding.figures["doubling"] == pytest.approx(4.0)


def test_linear_attention_is_not() -> None:
    assert found(topic.softmax_attention_is_quadratic, mechanism="elu").verdict == "fails"


def test_softmax_attention_is_not_exponential() -> None:
    """From n = 32 to 64 fourfold, from 288 to 320 by (10/9)²."""
    finding = found(topic.softmax_attention_is_exponential)
    assert finding.verdict == "fails"
    assert finding.figures["first_factor"] == pytest.approx(4.0)
    assert finding.figures["last_factor"] == pytest.approx((10 / 9) ** 2)
    assert "exponential" in finding.counter_example


def test_what_is_exponential_is_called_so(monkeypatch: pytest.MonkeyPatch) -> None:
    made_up = ([1, 2, 3, 4], [3, 9, 27, 81])
    monkeypatch.setattr(topic, "growth", lambda *_names, **_sizes: made_up)
    assert found(topic.softmax_attention_is_exponential).verdict == "holds"
    assert found(topic.softmax_attention_is_quadratic).verdict == "fails"
