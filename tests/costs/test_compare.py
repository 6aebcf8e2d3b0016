"""Rows, crossovers and notes of a comparison."""

from __future__ import annotations

from typing import Any

import pytest
from tests.factories.calibration import dummy_calibration

from regard.core.records.cost import CostRow
from regard.costs.compare import Comparison, Setting, layer_candidate
from regard.costs.measure import measured_rows

SMALL = Setting(length=64, num_heads=2, head_dim=8)


def test_rows_are_sorted_by_time_and_unsupported_ones_have_reasons() -> None:
    compared = Comparison(SMALL, dummy_calibration())
    rows = compared.mechanisms(["general", "retention", "scaled_dot"])
    assert {row.name for row in rows} == {"general", "scaled_dot"}
    times = [row.seconds or 0.0 for row in rows]
    assert times == sorted(times)
    (unsupported,) = compared.unsupported
    assert unsupported.name == "retention"
    assert "Causal()" in unsupported.reason


def test_layers_have_formulas_in_their_width_and_decoding_needs_a_step() -> None:
    decoding = Setting(length=16, num_heads=2, head_dim=4, mode="decode")
    compared = Comparison(decoding, None)
    rows = {row.name: row for row in compared.layers()}
    assert rows["lstm"].formula == "16w²"
    assert [each.name for each in compared.unsupported] == ["convolution"]


def test_states_larger_than_the_keys_have_a_note() -> None:
    wide = Setting(length=16, num_heads=1, head_dim=64, causal=True)
    (taylor,) = Comparison(wide, None).mechanisms(["taylor"])
    assert taylor.note.startswith("meant for heads of width 16: at 64 its state is ")
    (elu,) = Comparison(wide, None).mechanisms(["elu"])
    assert elu.note == ""


@pytest.mark.parametrize(
    ("candidate", "growth", "sentence"),
    [
        ("elu", 500.0, "elu is faster than scaled_dot from n = "),
        ("elu", 0.5, "elu is faster than scaled_dot at every length from n = 32"),
        ("elu", 1e9, "elu is never faster than scaled_dot, up to n = 8192"),
        ("lstm", 500.0, "self-attention is faster than an LSTM layer below n = "),
        ("lstm", 0.5, "an LSTM layer is faster than self-attention at every length from n = 32"),
        ("lstm", 1e9, "self-attention is faster than an LSTM layer at every length up to n = 8192"),
    ],
)
def test_crossover_sentences(
    candidate: str, growth: float, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = Comparison(SMALL, dummy_calibration())
    baseline = "self-attention" if candidate == "lstm" else "scaled_dot"
    candidates: dict[str, Any] = {baseline: None, candidate: None}
    compared.candidates = candidates

    def value(_: Comparison, name: str, length: int) -> float:
        return growth * length if name == candidate else float(length * length)

    monkeypatch.setattr(Comparison, "_value", value)
    (crossover,) = compared.crossovers([candidate])
    assert crossover.sentence.startswith(sentence)


def test_all_fields_have_formulas_and_another_form_has_a_note() -> None:
    causal = Setting(length=64, num_heads=2, head_dim=8, causal=True)
    compared = Comparison(causal, None)
    compared.mechanisms(["elu", "scaled_dot"])
    exact = compared.formulas("scaled_dot")
    # Beyond 512 keys, torch's fused kernel skips those after the diagonal.
    assert exact.by_field[0] == ("matmul_flops", "2n²d + 1024nd", 4 * 64 * 64 * 8)
    assert "elementwise_ops" in exact.length_note
    assert compared.formulas("elu").length_note.startswith("At n = 64 another form")


def test_a_row_is_reported_before_the_next_is_estimated() -> None:
    events: list[str] = []
    setting = Setting(length=16, num_heads=1, head_dim=8)
    compared = Comparison(
        setting,
        None,
        log=events.append,
        on_row=lambda row: events.append(f"{row.name}: {row.flops}"),
    )
    rows = {row.name: row.flops for row in compared.mechanisms(["dot", "retention", "general"])}
    # Retention is causal only.
    assert events == [
        "dot",
        f"dot: {rows['dot']}",
        "retention",
        "general",
        f"general: {rows['general']}",
    ]


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("length", "width"), [(100, 64), (700, 256)])
def test_matmul_flops_of_self_attention_are_those_counted(
    length: int, width: int, causal: bool
) -> None:
    setting = Setting(length=length, num_heads=4, head_dim=width // 4, causal=causal)
    candidate = layer_candidate("self-attention", setting, None)
    counted, declared = candidate.declared(), candidate.declared_single(length, width)
    fields = ("matmul_flops", "backward_matmul_flops", "step_matmul_flops")
    assert [getattr(declared, name) for name in fields] == [
        getattr(counted, name) for name in fields
    ]


def test_rows_that_need_more_than_the_free_memory_are_not_run() -> None:
    row = CostRow(
        name="huge",
        family="score",
        formula="",
        flops=1,
        peak_bytes=3 << 30,
        traffic_bytes=1,
        state=0,
        parameters=0,
        sequential_steps=1,
        max_path_length=1,
        seconds=None,
    )
    (measured,) = measured_rows(
        [row], factories={}, free_bytes=1 << 30, setup=lambda: None, log=lambda _: None
    )
    assert measured.measured_seconds is None
    assert measured.note.startswith("not run: it takes 3.0 GiB and 1.0 GiB are free")
