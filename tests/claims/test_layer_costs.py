"""Claims about the costs of layers: verdicts, and deliberately wrong variants."""

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
    crossing_length,
    layers_until_connected,
    recurrent_path_length,
    window_connectivity,
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
def test_flops_are_a_constant_times_the_term(
    claim: Claim, changes: dict[str, object], constant: int
) -> None:
    finding = found(claim, **changes)
    assert finding.verdict == "holds"
    assert finding.values["min_constant"] == finding.values["max_constant"] == constant


def test_with_projections_the_ratio_is_not_constant() -> None:
    """(8nd² + 4n²d)/n²d = 4 + 8d/n: from 4 + 8·16/40 to 4 + 8·16/8."""
    finding = found(topic.self_attention_takes_n_squared_d, with_projections=True)
    assert finding.verdict == "fails"
    assert finding.values["min_constant"] == pytest.approx(7.2)
    assert finding.values["max_constant"] == pytest.approx(20.0)


def test_a_wrong_term_fails() -> None:
    finding = topic.proportional(
        lambda n, d: 2 * n * d,
        lambda n, _d: n * n,
        topic.SMALL_GRID,
        layer="a dummy layer",
        formula="n²",
    )
    assert finding.verdict == "fails"


def test_heads_have_the_matmul_flops_of_one() -> None:
    """8nd² + 4n²d at n = 32, d = 64."""
    finding = found(topic.multi_head_costs_the_same_as_one_head)
    assert finding.verdict == "holds if"
    assert finding.values["matmul_flops"] == 8 * 32 * 64**2 + 4 * 32**2 * 64
    assert "h ≤ 16" in finding.condition


def test_with_enough_tolerance_all_heads_cost_the_same() -> None:
    assert found(topic.multi_head_costs_the_same_as_one_head, tolerance=1.0).verdict == "holds"


def test_heads_with_different_matmul_flops_fail() -> None:
    assert topic.heads_verdict([10, 12], all_within=True) == "fails"
    assert "matmul FLOPs for every h" in found(topic.multi_head_costs_the_same_as_one_head).reason


def test_lengths_at_which_self_attention_is_cheaper() -> None:
    finding = found(topic.self_attention_is_cheaper_below_d)
    assert finding.verdict == "holds if"
    assert list(finding.values.values()) == [1.0, 2.0, 1.0, 0.0]
    assert "tanh" not in finding.condition


@pytest.mark.parametrize(
    ("first", "second", "least"),
    [
        (lambda n, _d: n * n, lambda n, _d: 10 * n, 10),
        (lambda _n, _d: 2, lambda _n, _d: 1, 0),
    ],
)
def test_crossing_length(first: Count, second: Count, least: int) -> None:
    assert crossing_length(first, second, d=16) == least


@pytest.mark.parametrize(
    ("shares", "verdict"),
    [
        ({"lstm": 0.5, "gru": 0.1, "tanh": 0.2}, "holds"),
        ({"lstm": 1.5, "gru": 0.1, "tanh": 0.2}, "holds if"),
        ({"lstm": 1.5, "gru": 1.1, "tanh": 1.2}, "fails"),
    ],
)
def test_timing_verdict_uses_intervals(
    shares: dict[str, float], verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def synthetic(cell: str, lengths: list[int], **_: object) -> dict[int, MedianInterval]:
        middle = shares[cell]
        return {n: MedianInterval(middle, 0.9 * middle, 1.05 * middle) for n in lengths}

    monkeypatch.setattr(topic, "time_ratios", synthetic)
    assert found(topic.self_attention_is_faster_below_d).verdict == verdict


def test_timing() -> None:
    finding = found(topic.self_attention_is_faster_below_d, d=16, num_heads=2, rounds=2)
    assert all(isinstance(value, float) and value > 0 for value in finding.values.values())


def test_sequential_steps() -> None:
    """Projection, attention, output: 3 dependent operators; an LSTM adds one per token."""
    finding = found(topic.sequential_steps_are_constant)
    assert finding.verdict == "holds"
    assert finding.values["attention"] == 3
    assert finding.values["per_token"] == 1.0
    assert found(topic.sequential_steps_are_constant, cell="gru").verdict == "holds"


def test_path_lengths() -> None:
    finding = found(topic.path_length_is_constant)
    assert finding.verdict == "holds"
    assert finding.values == {"attention": 1, "recurrent": 32}


def test_a_window_has_longer_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic, "mechanism_connectivity", lambda _name, n: window_connectivity(n, 2))
    assert found(topic.path_length_is_constant).verdict == "fails"


def test_window_paths() -> None:
    finding = found(topic.window_path_is_n_over_r)
    assert finding.verdict == "holds"
    assert finding.values["wrong"] == 0


def test_a_wrong_path_formula_fails() -> None:
    """n = 5, r = 3: two layers, though 5 // 3 = 1."""
    paths = {(n, r): layers_until_connected(window_connectivity(n, r)) for n, r in [(5, 3), (7, 3)]}
    assert paths == {(5, 3): 2, (7, 3): 2}
    assert topic.path_mismatches(paths, lambda n, r: n // r) == [
        "n = 5, r = 3: 2 layers, expected 1."
    ]


def test_unconnected_positions_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    assert layers_until_connected(np.eye(3, dtype=bool)) is None
    monkeypatch.setattr(topic, "mechanism_connectivity", lambda _name, n: np.eye(n, dtype=bool))
    finding = found(topic.path_length_is_constant)
    assert finding.verdict == "fails"
    assert finding.values["attention"] == "never"
    monkeypatch.setattr(topic, "window_connectivity", lambda n, _r: np.eye(n, dtype=bool))
    assert found(topic.window_path_is_n_over_r).verdict == "fails"


class Skipping(Recurrent):
    """Adds the state before the previous one: paths have half as many steps."""

    def step(self, state: Any, x: Tensor) -> Step:
        earlier = getattr(self, "earlier", None)
        self.earlier = None if not bool(state.position.any()) else state
        if earlier is None:
            return super().step(state, x)
        both = state._replace(hidden=state.hidden + earlier.hidden)
        return super().step(both, x)


def test_a_skip_connection_shortens_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = Recurrent(model_dim=4, hidden_dim=4)
    assert [recurrent_path_length(layer, n=n) for n in (1, 2, 5)] == [1, 2, 5]
    assert recurrent_path_length(Skipping(model_dim=4, hidden_dim=4), n=9) < 9
    monkeypatch.setattr(topic, "Recurrent", Skipping)
    finding = found(topic.path_length_is_constant)
    assert finding.verdict == "fails"
    assert 16 <= int(finding.values["recurrent"]) < 32


def test_a_layer_without_recurrence_has_no_path() -> None:
    layer = Recurrent(model_dim=4, hidden_dim=4, cell="tanh")
    torch.nn.init.zeros_(layer.layer.weight_hh_l0)  # type: ignore[arg-type]
    assert recurrent_path_length(layer, n=3) == 0


def test_softmax_attention_is_quadratic() -> None:
    """Matmul FLOPs 4n²d and 6 operations per pair: (4d + 6)n², four times as much at twice the length."""
    finding = found(topic.softmax_attention_is_quadratic)
    assert finding.verdict == "holds"
    assert finding.values["second_difference"] == (4 * 16 + 6) * 2 * 32**2
    assert finding.values["doubling"] == pytest.approx(4.0)


def test_linear_attention_is_not_quadratic() -> None:
    assert found(topic.softmax_attention_is_quadratic, mechanism="elu").verdict == "fails"


def test_softmax_attention_is_not_exponential() -> None:
    """From n = 32 to 64 fourfold, from 288 to 320 by (10/9)²."""
    finding = found(topic.softmax_attention_is_exponential)
    assert finding.verdict == "fails"
    assert finding.values["first_factor"] == pytest.approx(4.0)
    assert finding.values["last_factor"] == pytest.approx((10 / 9) ** 2)
    assert "exponential" in finding.counter_example


def test_exponential_growth(monkeypatch: pytest.MonkeyPatch) -> None:
    growth = ([1, 2, 3, 4], [3, 9, 27, 81])
    monkeypatch.setattr(topic, "growth", lambda *_names, **_sizes: growth)
    assert found(topic.softmax_attention_is_exponential).verdict == "holds"
    assert found(topic.softmax_attention_is_quadratic).verdict == "fails"
