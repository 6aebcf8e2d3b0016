"""Prices: counted as the counter counts, the same however long a sequence is extended from."""

from __future__ import annotations

import pytest
from tests.factories.calibration import made_up_calibration

from regard.core.cost import AttentionShape
from regard.costs import predict as pricing
from regard.costs.predict import PriceByLength, extended_time, parabola, price, price_at
from regard.costs.trace import Workload
from regard.costs.workloads import attention_workload


def retention(length: int) -> Workload:
    shape = AttentionShape(
        num_heads=2, query_length=length, key_length=length, key_dim=8, value_dim=8, causal=True
    )
    return attention_workload("retention", shape, "forward")


def test_a_long_sequence_is_extended_from_shorter_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pricing, "TRACED_LENGTH", 256)
    monkeypatch.setattr(pricing, "MANY_CALLS", 50)
    prices = PriceByLength(retention, made_up_calibration())
    extended, traced = prices.at(512), price(retention(512), made_up_calibration())
    assert 512 not in prices._traces
    assert extended.operations == pytest.approx(traced.operations)
    assert extended.moved_bytes == pytest.approx(traced.moved_bytes)
    assert extended.seconds == pytest.approx(traced.seconds, rel=0.05)


def test_what_has_few_calls_is_traced_at_any_length() -> None:
    def scaled_dot(length: int) -> Workload:
        shape = AttentionShape(query_length=length, key_length=length, key_dim=8, value_dim=8)
        return attention_workload("scaled_dot", shape, "forward")

    found = price_at(scaled_dot, 4096, None)
    assert found.products == 4 * 4096**2 * 8
    assert found.seconds is None


def test_no_length_is_traced_twice() -> None:
    made = []

    def make(length: int) -> Workload:
        made.append(length)
        return retention(length)

    prices = PriceByLength(make, None)
    first = prices.at(100)
    assert prices.at(100) is first
    assert made == [100]


def test_a_parabola_goes_on_as_it_is() -> None:
    assert parabola((1, 2, 4), (1.0, 4.0, 16.0), 10) == pytest.approx(100)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        ((1.0, 2.0, 4.0), 10.0),
        ((1.0, 2.2, 4.0), 4.0 + 0.9 * 6),
        ((2.0, 2.0, 1.9), 1.9),
    ],
)
def test_a_time_grows_with_the_operations(seconds: tuple[float, ...], expected: float) -> None:
    assert extended_time((1.0, 2.0, 4.0), seconds, 10.0) == pytest.approx(expected)
