"""Mechanisms per layer and slot: lists, patterns, and mechanisms and layers already built."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from regard.core.batches import TokenInput
from regard.core.errors import RegardError
from regard.layers.multi_head import MultiHead
from regard.mechanisms import build_mechanism
from regard.mechanisms.compatibility import mechanism_name
from regard.models import build_model
from regard.models.stack import per_layer

SIZES: dict[str, dict[str, Any]] = {
    "transformer": {"target_vocabulary": 11},
    "decoder_only": {"target_vocabulary": 11},
    "text_encoder": {"outputs": 2},
}


def built(name: str, **options: Any) -> Any:
    torch.manual_seed(0)
    sizes = {"model_dim": 12, "num_heads": 3, "num_layers": 4, "max_length": 20}
    return build_model(name, source=11, **SIZES[name], **(sizes | options)).eval()


def attentions(model: Any, slot: str = "attention") -> list[Any]:
    blocks = model.blocks if hasattr(model, "blocks") else model.decoder
    return [getattr(block, slot) for block in blocks]


def names(model: Any, slot: str = "attention") -> list[str]:
    return [mechanism_name(layer.mechanism) for layer in attentions(model, slot)]


@pytest.mark.parametrize("name", ["decoder_only", "text_encoder"])
@pytest.mark.parametrize(
    "mechanism",
    [
        ["window", "scaled_dot"],
        ["window", "scaled_dot", "window", "scaled_dot"],
        "window,scaled_dot*1",
        "window, scaled_dot, window, scaled_dot",
    ],
    ids=str,
)
def test_one_mechanism_per_layer(name: str, mechanism: Any) -> None:
    model = built(name, mechanism=mechanism, mechanism_options=[{"radius": 2}, {}])
    assert names(model) == ["window", "scaled_dot"] * 2
    assert [attentions(model)[layer].mechanism.window.radius for layer in (0, 2)] == [2, 2]


def test_slots_of_a_transformer() -> None:
    model = built(
        "transformer",
        num_layers=2,
        mechanism="scaled_dot",
        decoder_mechanism=["window", "elu"],
        decoder_options=[{"radius": 1}, {}],
        cross_mechanism="additive,dot",
    )
    assert [mechanism_name(block.attention.mechanism) for block in model.encoder] == [
        "scaled_dot"
    ] * 2
    assert names(model, "self_attention") == ["window", "elu"]
    assert names(model, "cross_attention") == ["additive", "dot"]
    source = TokenInput(torch.tensor([[5, 6, 7, 2], [5, 2, 0, 0]]), torch.tensor([4, 2]))
    tokens = torch.tensor([[1, 5, 6], [1, 7, 8]])
    with torch.no_grad():
        expected, state = model(source, tokens), model.start(source)
        for position, token in enumerate(tokens.unbind(1)):
            logits, state = model.step(state, token)
            torch.testing.assert_close(logits, expected[:, position], rtol=1e-4, atol=1e-5)


def test_a_built_mechanism_is_copied_for_further_layers() -> None:
    mechanism = build_mechanism("additive", query_dim=4, key_dim=4, num_heads=3)
    layers = [layer.mechanism for layer in attentions(built("text_encoder", mechanism=mechanism))]
    assert layers[0] is mechanism
    assert len(set(map(id, layers))) == 4
    pointers = {next(layer.parameters()).data_ptr() for layer in layers}
    assert len(pointers) == 4
    pattern = built("text_encoder", mechanism=["scaled_dot", mechanism])
    assert attentions(pattern)[1].mechanism is mechanism
    assert attentions(pattern)[3].mechanism is not mechanism
    with pytest.raises(RegardError, match="mechanism_options"):
        built("text_encoder", mechanism=mechanism, mechanism_options={"hidden_dim": 3})


def test_a_built_layer_stands_where_attention_stands() -> None:
    layer = MultiHead(model_dim=12, num_heads=2, mechanism="dot")
    model = built("text_encoder", mechanism=[layer, "scaled_dot"])
    assert attentions(model)[0] is layer
    assert isinstance(attentions(model)[2], MultiHead)
    assert attentions(model)[2] is not layer
    source = TokenInput(torch.tensor([[5, 6, 7]]), torch.tensor([3]))
    assert model.classify(source).logits.shape == (1, 2)


def test_recurrent_with_a_built_mechanism() -> None:
    mechanism = build_mechanism("additive", query_dim=8, key_dim=8)
    model: Any = build_model(
        "recurrent", source=11, target_vocabulary=11, hidden_dim=8, mechanism=mechanism
    )
    assert model.decoder.mechanism is mechanism
    with pytest.raises(RegardError, match="mechanism=Linear"):
        build_model("recurrent", source=11, target_vocabulary=11, mechanism=torch.nn.Linear(2, 2))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mechanism": ["window", "scaled_dot", "dot"]}, "mechanism=.*3 entries for 4 layers"),
        ({"mechanism": []}, "mechanism=.*0 entries for 4 layers"),
        ({"mechanism": "window*x"}, "mechanism=window"),
        ({"mechanism": 3}, "mechanism=3"),
        ({"mechanism": ["window", 3]}, "mechanism=.*3"),
        ({"mechanism_options": [{}] * 3}, "mechanism_options=.*3 entries"),
        ({"mechanism": ["scaled_dot", "delta"]}, "slot 'encoder'.*'delta'"),
    ],
    ids=str,
)
def test_invalid_patterns(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RegardError, match=message):
        built("text_encoder", **options)


def test_per_layer() -> None:
    assert per_layer("a*2,b", 6, option="m") == ["a", "a", "b"] * 2
    assert per_layer("a", 3, option="m") == ["a"] * 3
    assert per_layer({"x": 1}, 2, option="m") == [{"x": 1}] * 2
