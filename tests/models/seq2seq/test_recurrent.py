"""Recurrent encoder–decoder: decoding steps, padding, attention styles, weights, invalid options."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from regard.core.batches import PAD, TokenInput
from regard.core.errors import RegardError
from regard.core.mechanism import State
from regard.core.protocols import SequenceModel
from regard.models.seq2seq.recurrent import SCORES, RecurrentEncoderDecoder

ATTENTION_STYLES: dict[str, dict[str, Any]] = {
    "bahdanau": {"attention_style": "bahdanau"},
    "luong": {"attention_style": "luong"},
    "input_feeding": {"attention_style": "luong", "input_feeding": True},
}
LENGTHS = torch.tensor([7, 4, 5])

styles = pytest.mark.parametrize("attention_style", ATTENTION_STYLES)
scores = pytest.mark.parametrize("mechanism", SCORES)
cells = pytest.mark.parametrize("cell", ["lstm", "gru"])


def build(attention_style: str = "bahdanau", **options: Any) -> RecurrentEncoderDecoder:
    """A small float64 model in evaluation mode."""
    torch.manual_seed(0)
    sizes = {"source": 19, "target_vocabulary": 23, "embedding_dim": 5, "hidden_dim": 8}
    model = RecurrentEncoderDecoder(
        **{**sizes, "max_length": 11, **ATTENTION_STYLES[attention_style], **options}
    )
    return model.double().eval()


def tokens() -> tuple[TokenInput, Tensor]:
    """Three sources of lengths 7, 4 and 5, and five target tokens for each."""
    generator = torch.Generator().manual_seed(1)
    source = torch.randint(4, 19, (3, 7), generator=generator)
    source[torch.arange(7) >= LENGTHS[:, None]] = PAD
    return TokenInput(source, LENGTHS), torch.randint(4, 23, (3, 5), generator=generator)


def decode_stepwise(
    model: RecurrentEncoderDecoder, source: TokenInput, decoder_input: Tensor
) -> Any:
    state, rows = model.start(source), []
    for token in decoder_input.unbind(dim=1):
        output, state = model.step(state, token)
        rows.append(output)
    return torch.stack(rows, dim=1), state


@cells
@scores
@styles
def test_steps_equal_forward(cell: str, mechanism: str, attention_style: str) -> None:
    model = build(attention_style, mechanism=mechanism, cell=cell, num_layers=2)
    source, decoder_input = tokens()
    whole = model.logits(model.hidden(source, decoder_input))
    rows, state = decode_stepwise(model, source, decoder_input)
    torch.testing.assert_close(rows, whole, rtol=0, atol=1e-12)
    torch.testing.assert_close(model(source, decoder_input), whole, rtol=0, atol=0)
    assert state.position.tolist() == [5, 5, 5]
    assert isinstance(model, SequenceModel)
    assert isinstance(state, State)


@cells
def test_steps_without_attention_equal_forward(cell: str) -> None:
    model = build(mechanism="none", cell=cell, num_layers=2)
    rows, _ = decode_stepwise(model, *tokens())
    torch.testing.assert_close(rows, model(*tokens()), rtol=0, atol=1e-12)


@styles
@scores
def test_padding_does_not_change_a_row(attention_style: str, mechanism: str) -> None:
    model = build(attention_style, mechanism=mechanism)
    source, decoder_input = tokens()
    together = model(source, decoder_input)
    for row in range(3):
        now = slice(row, row + 1)
        alone = model(source.select(now), decoder_input[now])
        torch.testing.assert_close(together[now], alone, rtol=0, atol=1e-12)


@styles
def test_selected_state_continues_its_row(attention_style: str) -> None:
    model = build(attention_style)
    source, decoder_input = tokens()
    _, state = decode_stepwise(model, source, decoder_input)
    token = torch.tensor([9, 10, 11])
    expected = model.step(state, token).output
    index = torch.tensor([2, 0, 0, 1])
    output, after = model.step(state.select(index), token[index])
    torch.testing.assert_close(output, expected[index], rtol=0, atol=1e-12)
    assert after.position.tolist() == [6] * 4
    # A state is immutable: the same step gives the same result again.
    torch.testing.assert_close(model.step(state, token).output, expected, rtol=0, atol=0)


@cells
@styles
@scores
def test_every_parameter_has_a_gradient(cell: str, attention_style: str, mechanism: str) -> None:
    # Location scores ignore the keys, but the encoder gets a gradient through the values.
    model = build(attention_style, mechanism=mechanism, cell=cell, num_layers=2)
    model(*tokens()).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


@cells
@styles
def test_gradient_equals_finite_differences(cell: str, attention_style: str) -> None:
    model, inputs = build(attention_style, cell=cell, num_layers=2), tokens()
    coefficients = torch.randn(3, 5, 23, dtype=torch.float64)

    def loss() -> Tensor:
        return (model(*inputs) * coefficients).sum()

    parameters: list[Tensor] = list(model.parameters())
    gradients = torch.autograd.grad(loss(), parameters)
    directions = [torch.randn_like(parameter) for parameter in parameters]
    expected = sum((g * d).sum() for g, d in zip(gradients, directions, strict=True))
    epsilon = 1e-6
    with torch.no_grad():
        sides = []
        for move in (epsilon, -2 * epsilon):
            torch._foreach_add_(parameters, directions, alpha=move)
            sides.append(loss())
    torch.testing.assert_close((sides[0] - sides[1]) / (2 * epsilon), expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("mechanism", ["additive", "location", "dot"])
@pytest.mark.parametrize(
    ("attention_style", "sees_own_token"), [("bahdanau", False), ("luong", True)]
)
def test_which_tokens_the_attention_of_a_step_depends_on(
    mechanism: str, attention_style: str, sees_own_token: bool
) -> None:
    model = build(attention_style, mechanism=mechanism)
    source, decoder_input = tokens()
    changed = decoder_input.clone()
    changed[:, 2] = (decoder_input[:, 2] + 1) % 19 + 4
    before = model.weights(source, decoder_input)["cross/0"]
    after = model.weights(source, changed)["cross/0"]
    differs = (before - after).abs().amax(dim=(0, 1, 3)) > 1e-12
    assert differs.tolist() == [False, False, sees_own_token, True, True]


def test_only_input_feeding_carries_attention_to_the_next_step() -> None:
    for attention_style, reaches in (("luong", False), ("input_feeding", True)):
        model = build(attention_style)
        source, decoder_input = tokens()
        before = model.weights(source, decoder_input)["cross/0"]
        assert model.decoder.readout is not None
        with torch.no_grad():
            model.decoder.readout.weight.mul_(2)
        after = model.weights(source, decoder_input)["cross/0"]
        differs = (before - after).abs().amax(dim=(0, 1, 3)) > 1e-12
        assert differs.tolist() == [False, *[reaches] * 4]


@styles
@scores
def test_weights_reproduce_the_features(attention_style: str, mechanism: str) -> None:
    model = build(attention_style, mechanism=mechanism)
    source, decoder_input = tokens()
    found = model.weights(source, decoder_input)
    assert list(found) == ["cross/0"]
    weights = found["cross/0"]
    assert weights.shape == (3, 1, 5, 7)
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(3, 1, 5, dtype=torch.float64))
    for row, length in enumerate(source.lengths.tolist()):
        assert (weights[row, ..., length:] == 0).all()
        assert (weights[row, ..., :length] > 0).all()
    # Recompute the features from the weights and the encoder's memory.
    if attention_style == "luong":
        features = model.stem(source)
        encoded = model._encode(features)
        decoded = model._decode(model._first_state(encoded, features), decoder_input)
        context = weights[:, 0] @ encoded.memory
        assert model.decoder.readout is not None
        both = torch.cat([context, decoded.queries], dim=-1)
        torch.testing.assert_close(torch.tanh(model.decoder.readout(both)), decoded.features)


def test_without_attention_there_are_no_weights() -> None:
    assert build(mechanism=None).weights(*tokens()) == {}
    model = build(mechanism="none", bidirectional=False)
    state = model.start(tokens()[0])
    assert state.source is None
    assert state.select(torch.tensor([1])).source is None


def test_parameter_counts() -> None:
    model = build("bahdanau", mechanism="additive", cell="lstm")
    half = 4 * 4 * (5 + 4) + 2 * 4 * 4
    by_hand = {
        "stem": 19 * 5,
        "target_embedding": 23 * 5,
        "encoder": 2 * half,
        "first_hidden": 8 * 8 + 8,
        "first_memory": 8 * 8 + 8,
        # Cell input 5 + 8; additive score: two matrices and a vector; readout input 21.
        "decoder": 4 * 8 * (13 + 8) + 2 * 4 * 8 + (2 * 8 * 8 + 8) + (21 * 8 + 8),
        "narrow": 8 * 5,
    }
    for name, count in by_hand.items():
        module = model.get_submodule(name)
        assert sum(parameter.numel() for parameter in module.parameters()) == count, name
    # The output layer is the tied target embedding and a bias.
    total = sum(parameter.numel() for parameter in model.parameters())
    assert total == sum(by_hand.values()) + 23


def test_tied_matrix_is_saved_once() -> None:
    stored = [tensor.data_ptr() for tensor in build(tie="target").state_dict().values()]
    assert len(stored) == len(set(stored))
    assert "output_weight" not in build(tie="target").state_dict()
    assert build(tie="none").state_dict()["output_weight"].shape == (23, 8)


def test_dropout_only_in_training() -> None:
    model, inputs = build(dropout=0.5), tokens()
    assert torch.equal(model(*inputs), model(*inputs))
    model.train()
    assert not torch.equal(model(*inputs), model(*inputs))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"attention_style": "during"},
            "attention_style=during.*bahdanau.*luong",
        ),
        ({"cell": "lstn"}, "cell=lstn.*lstm"),
        ({"tie": "all"}, "tie=all.*target.*none"),
        ({"mechanism": "adittive"}, "Unknown mechanism 'adittive'. Did you mean 'additive'?"),
        (
            {"mechanism": "elu"},
            "'elu' .* dot, scaled_dot, general, additive, location",
        ),
        ({"input_feeding": True}, "input_feeding=True .*attention_style='bahdanau'"),
        (
            {"input_feeding": True, "attention_style": "luong", "mechanism": "none"},
            "input_feeding=True",
        ),
        (
            {"mechanism": "dot", "mechanism_options": {"hidden_dim": 3}},
            "Unknown option 'hidden_dim'",
        ),
        (
            {"mechanism": None, "mechanism_options": {"hidden_dim": 3}},
            "mechanism_options={'hidden_dim': 3}",
        ),
        ({"hidden_dim": 7}, "hidden_dim=7 and bidirectional=True"),
        ({"num_layers": 0}, "num_layers=0"),
        ({"dropout": 1.0}, "dropout=1.0"),
    ],
)
def test_invalid_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RegardError, match=message):
        RecurrentEncoderDecoder(**{"source": 9, "target_vocabulary": 9, **options})


def test_source_longer_than_max_length_of_location_score() -> None:
    model = build(mechanism="location", max_length=6)
    with pytest.raises(RegardError, match="max_length=6"):
        model(*tokens())
