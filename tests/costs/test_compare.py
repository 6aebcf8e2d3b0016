"""Rows, crossings and notes of a comparison."""

from __future__ import annotations

from typing import Any

import pytest
from tests.factories.calibration import made_up_calibration

from regard.core.records.cost import CostRow
from regard.costs.compare import Comparison, Setting
from regard.costs.measure import measured_rows

SMALL = Setting(length=64, num_heads=2, head_dim=8)


def test_rows_are_sorted_by_time_and_those_that_do_not_fit_say_why() -> None:
    compared = Comparison(SMALL, made_up_calibration())
    rows = compared.mechanisms(["general", "retention", "scaled_dot"])
    assert {row.name for row in rows} == {"general", "scaled_dot"}
    times = [row.seconds or 0.0 for row in rows]
    assert times == sorted(times)
    (refused,) = compared.not_priced
    assert refused.name == "retention"
    assert "Causal()" in refused.reason


def test_layers_have_formulas_in_their_width_and_decoding_needs_a_step() -> None:
    decoding = Setting(length=16, num_heads=2, head_dim=4, mode="decode")
    compared = Comparison(decoding, None)
    rows = {row.name: row for row in compared.layers()}
    assert rows["lstm"].formula == "16w²"
    assert [each.name for each in compared.not_priced] == ["convolution"]


def test_features_that_outgrow_the_keys_are_marked() -> None:
    wide = Setting(length=16, num_heads=1, head_dim=64, causal=True)
    (taylor,) = Comparison(wide, None).mechanisms(["taylor"])
    assert taylor.note.startswith("made for heads of width 16: at 64 its state is ")
    (elu,) = Comparison(wide, None).mechanisms(["elu"])
    assert elu.note == ""


@pytest.mark.parametrize(
    ("rival", "growth", "sentence"),
    [
        ("elu", 500.0, "elu beats scaled_dot from n = "),
        ("elu", 0.5, "elu beats scaled_dot at every length from n = 32"),
        ("elu", 1e9, "elu never beats scaled_dot, up to n = 8192"),
        ("lstm", 500.0, "self-attention beats an LSTM layer below n = "),
        ("lstm", 0.5, "an LSTM layer beats self-attention at every length from n = 32"),
        ("lstm", 1e9, "self-attention beats an LSTM layer at every length up to n = 8192"),
    ],
)
def test_crossings_are_told_in_words(
    rival: str, growth: float, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = Comparison(SMALL, made_up_calibration())
    before = "self-attention" if rival == "lstm" else "scaled_dot"
    held: dict[str, Any] = {before: None, rival: None}
    compared.contenders = held

    def height(_: Comparison, name: str, length: int) -> float:
        return growth * length if name == rival else float(length * length)

    monkeypatch.setattr(Comparison, "_height", height)
    (crossing,) = compared.crossings([rival])
    assert crossing.sentence.startswith(sentence)


def test_all_figures_have_formulas_and_a_short_form_is_told() -> None:
    causal = Setting(length=64, num_heads=2, head_dim=8, causal=True)
    compared = Comparison(causal, None)
    compared.mechanisms(["elu", "scaled_dot"])
    exact = compared.formulas("scaled_dot")
    assert exact.by_figure[0] == ("products", "4n²d", 4 * 64 * 64 * 8)
    assert exact.at_this_length == ""
    assert compared.formulas("elu").at_this_length.startswith("At n = 64 another form is taken")


def test_what_needs_more_memory_than_there_is_is_not_run() -> None:
    row = CostRow(
        name="huge",
        family="score",
        formula="",
        operations=1,
        peak_bytes=3 << 30,
        moved_bytes=1,
        state=0,
        parameters=0,
        sequential_steps=1,
        longest_path=1,
        seconds=None,
    )
    (kept,) = measured_rows(
        [row], recipes={}, free_bytes=1 << 30, begin=lambda: None, tell=lambda _: None
    )
    assert kept.measured_seconds is None
    assert kept.note.startswith("not run: it takes 3.0 GiB and 1.0 GiB are free")
