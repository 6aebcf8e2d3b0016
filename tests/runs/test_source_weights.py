"""Which row of an attention is read while which token is written."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.factories.untrained_runs import untrained_run
from torch import Tensor

from regard.core.batches import END, START
from regard.core.masks import Padding

SOURCE = torch.tensor([[4, 5, 6, END], [7, 4, END, 0]])
LENGTHS = torch.tensor([4, 3])
GIVEN = torch.tensor([[START, 5, 6, 7, 4], [START, 8, 9, 5, 6]])

TRANSFORMER = {"name": "transformer", "model_dim": 8, "num_heads": 2, "num_layers": 2}
MODELS: list[dict[str, Any]] = [
    {"wiring": "before", "mechanism": "additive"},
    {"wiring": "after", "mechanism": "additive"},
    {"wiring": "after", "mechanism": "dot", "input_feeding": True},
    {**TRANSFORMER, "feed_forward_dim": 8, "tie": "target"},
]


@pytest.mark.parametrize("options", MODELS[:3])
def test_a_row_is_what_the_step_reads_that_writes_its_token(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = untrained_run(**options)
    rows = run.source_weights(SOURCE, LENGTHS, GIVEN)["cross/0"]
    model: Any = run.model
    read, queries = model.decoder._read, []

    def reading(source: Any, query: Tensor) -> Tensor:
        queries.append(query)
        return read(source, query)

    monkeypatch.setattr(model.decoder, "_read", reading)
    with torch.inference_mode():
        memory = model._encode(SOURCE, LENGTHS).memory
        state = model.start(SOURCE, LENGTHS)
        for place in range(GIVEN.shape[1]):
            queries.clear()
            # The logits of this step are those of the token after GIVEN[:, place].
            state = model.step(state, GIVEN[:, place]).state
            (query,) = queries
            used = model.decoder.mechanism.weights(
                query[:, None], memory[:, None], Padding(LENGTHS)
            )
            torch.testing.assert_close(rows[:, :, place], used[:, :, 0])
    # So small a model still reads differently from step to step.
    assert (rows[:, :, 0] - rows[:, :, 3]).abs().max() > 1e-4


@pytest.mark.parametrize("options", MODELS)
def test_a_row_knows_nothing_of_the_token_it_is_read_for(options: dict[str, Any]) -> None:
    run = untrained_run(**options)
    whole = run.source_weights(SOURCE, LENGTHS, GIVEN)
    for place in range(1, GIVEN.shape[1] + 1):
        for name, rows in run.source_weights(SOURCE, LENGTHS, GIVEN[:, :place]).items():
            torch.testing.assert_close(rows, whole[name][:, :, :place])


@pytest.mark.parametrize("options", MODELS)
def test_only_attention_over_the_source_is_given(options: dict[str, Any]) -> None:
    run = untrained_run(**options)
    weights = run.source_weights(SOURCE, LENGTHS, GIVEN)
    assert list(weights) == [f"cross/{layer}" for layer in range(options.get("num_layers", 1))]
    assert all(rows.shape == (2, rows.shape[1], 5, 4) for rows in weights.values())
    assert all((rows[1, :, :, 3] == 0).all() for rows in weights.values())
    assert run.reads_source


def test_a_model_without_attention_reads_no_source() -> None:
    run = untrained_run(mechanism="none")
    assert not run.reads_source
    assert run.source_weights(SOURCE, LENGTHS, GIVEN) == {}
