"""`regard.look`: what can be looked at, comparison of two models, saving, notebooks."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.factories import tiny_runs
from tests.factories.tiny_runs import train_tiny
from torch import nn

import regard
from regard.core.errors import RegardError
from regard.core.records.look import LookRecord
from regard.explain import RunSource, ZeroHead
from regard.layers.multi_head import MultiHead


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("runs")
    found = {
        name: train_tiny(getattr(tiny_runs, name), place / name).path
        for name in ("seq2seq", "classifier")
    }
    return {**found, "other": train_tiny(tiny_runs.seq2seq, place / "other", seed=3).path}


def test_a_run_by_folder_loaded_or_as_source(runs: dict[str, Path]) -> None:
    loaded = regard.load(runs["seq2seq"])
    records = [
        regard.look(run, "cafe", faithfulness=False).record
        for run in (runs["seq2seq"], str(runs["seq2seq"]), loaded, RunSource(loaded))
    ]
    assert len({record.as_json() for record in records}) == 1


def test_two_runs_on_the_same_output(runs: dict[str, Path]) -> None:
    lines: list[str] = []
    view = regard.look(
        [runs["seq2seq"], runs["other"]], "cafe", faithfulness=False, log=lines.append
    )
    one, other = view.records
    assert one.prediction != other.prediction
    known = [token for token in one.axes["output"].tokens if token != "<unknown>"]
    assert list(other.axes["output"].tokens) == known
    assert (
        other.prediction == regard.look(runs["other"], "cafe", faithfulness=False).record.prediction
    )
    assert any("not of its own" in line for line in lines)
    assert isinstance(json.loads(view.as_json()), list)
    with pytest.raises(RegardError, match="3 models: give one, or two"):
        regard.look([runs["seq2seq"]] * 3, "cafe")


def test_a_label_is_no_output_of_a_model_that_writes(runs: dict[str, Path]) -> None:
    alone = regard.look(runs["seq2seq"], "cafe", faithfulness=False).record
    view = regard.look([runs["classifier"], runs["seq2seq"]], "cafe", faithfulness=False)
    assert view.records[1].axes == alone.axes


def test_two_runs_take_the_same_kind_of_input(runs: dict[str, Path], tmp_path: Path) -> None:
    pictures = train_tiny(tiny_runs.images, tmp_path / "images").path
    with pytest.raises(
        RegardError, match=r"takes tokens, .* takes images: two models are compared"
    ):
        regard.look([runs["seq2seq"], pictures], "cafe", faithfulness=False)


def test_items_have_their_reference(runs: dict[str, Path]) -> None:
    record = regard.look(runs["classifier"], item=1, faithfulness=False).record
    assert record.reference in ("good", "bad")
    with pytest.raises(RegardError, match="Give one of two"):
        regard.look(runs["classifier"], "a film", item=1)
    with pytest.raises(RegardError, match="Give one of two"):
        regard.look(runs["classifier"])


def test_faithfulness_is_measured_and_kept(runs: dict[str, Path]) -> None:
    lines: list[str] = []
    first = regard.look(runs["classifier"], "a dull film", log=lines.append).record
    assert {each.method for each in first.faithfulness} >= {"weights", "attribution"}
    assert (runs["classifier"] / "faithfulness.json").is_file()
    assert [line for line in lines if line.startswith("measuring")] == lines
    again = regard.look(runs["classifier"], "a dull film", log=lines.append).record
    assert again.faithfulness == first.faithfulness
    assert len(lines) == 1
    regard.load(runs["classifier"])  # the folder is still that of a finished run


def test_names_of_methods_and_heads(runs: dict[str, Path]) -> None:
    names = ["value_zeroing", "weights"]
    for methods in (names, "value_zeroing, weights"):
        record = regard.look(runs["seq2seq"], "cafe", method=methods, faithfulness=False).record
        assert [each.name for each in record.methods] == names
    changed = regard.look(
        runs["seq2seq"],
        "cafe",
        head="cross/0.1",
        interventions=[ZeroHead("cross/0", 0)],
        faithfulness=False,
    )
    assert changed.record.maps[0].limits == (0.0,)


def test_a_module() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = MultiHead(model_dim=8, num_heads=2)
            self.output = nn.Linear(8, 3)

        def forward(self, x: torch.Tensor) -> Any:
            return self.output(self.attention(x).mean(dim=1))

    view = regard.look(Model().eval(), torch.randn(1, 4, 8), names=list("abcd"))
    assert view.record.axes["input"].tokens == ("a", "b", "c", "d")
    assert view.record.prediction.startswith("output ")
    assert view.record.model == "Model"


def test_names_are_of_modules_only(runs: dict[str, Path]) -> None:
    with pytest.raises(RegardError, match="names and explain are those of a module"):
        regard.look(runs["seq2seq"], "cafe", names=["a"])


def test_saving(runs: dict[str, Path], tmp_path: Path) -> None:
    view = regard.look(runs["seq2seq"], "cafe", faithfulness=False)
    view.save(tmp_path / "a.html")
    assert "<script" in (tmp_path / "a.html").read_text()
    view.save(tmp_path / "a.svg", view="row", head="cross/0.1", query=1, width="85mm")
    assert 'width="85.00mm"' in (tmp_path / "a.svg").read_text()
    view.save(tmp_path / "b.svg", view="map", head="cross/0", method="value_zeroing")
    assert "Value zeroing" in (tmp_path / "b.svg").read_text()
    view.save(str(tmp_path / "a.png"))
    with pytest.raises(RegardError, match=r"\.svg or \.png"):
        view.save(tmp_path / "a.gif")
    assert LookRecord.from_json(view.as_json()) == view.record


def test_a_notebook_shows_the_page_in_a_frame(runs: dict[str, Path]) -> None:
    view = regard.look(runs["classifier"], 'a "dull" <b>film</b>', faithfulness=False)
    shown = view._repr_html_()
    assert shown.count("<") == shown.count(">") == 2
    assert shown.startswith("<iframe")
    (document,) = [part for part in shown.split('"') if part.startswith("&lt;!")]
    assert html.unescape(document) == view.page()
    assert 'sandbox="allow-scripts"' in shown
