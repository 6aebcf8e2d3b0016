"""Decoder-only model: prompt packing, decoding, weights, invalid options."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from regard.core.batches import END, PAD, START, TokenInput
from regard.core.errors import RegardError
from regard.core.mechanism import State
from regard.core.protocols import SequenceModel
from regard.layers.names import POSITIONS
from regard.mechanisms.compatibility import compatible_mechanisms
from regard.models.decoder_only import DecoderOnly, PackedPrompt
from regard.models.generation.search import decode

VOCABULARY, MODEL_DIM, HEADS = 13, 24, 3
SOURCE_LENGTHS = torch.tensor([7, 1, 4])
TARGET_LENGTH = 5
CAUSAL = compatible_mechanisms(role="self", causal=True, masks=frozenset({"causal"}))


def decoder_only(**options: Any) -> DecoderOnly:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        "source": VOCABULARY,
        "target_vocabulary": VOCABULARY,
        "model_dim": MODEL_DIM,
        "num_heads": HEADS,
        "num_layers": 2,
        "feed_forward_dim": 29,
        "max_length": 16,
    }
    model = DecoderOnly(**(sizes | options)).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def batch() -> tuple[TokenInput, Tensor]:
    torch.manual_seed(1)
    source = torch.randint(4, VOCABULARY, (3, 7))
    source[torch.arange(3), SOURCE_LENGTHS - 1] = END
    source = source.masked_fill(torch.arange(7) >= SOURCE_LENGTHS[:, None], PAD)
    decoder_input = torch.randint(4, VOCABULARY, (3, TARGET_LENGTH))
    decoder_input[:, 0] = START
    return TokenInput(source, SOURCE_LENGTHS), decoder_input


def test_prompt_packing() -> None:
    source = torch.tensor([[5, 6, 7, END, PAD], [8, 9, 10, 11, END]])
    decoder_input = torch.tensor([[START, 12], [START, PAD]])
    packed = PackedPrompt.of(TokenInput(source, torch.tensor([4, 5])), decoder_input)
    assert packed.tokens.tolist() == [[5, 6, 7, START, 12], [8, 9, 10, 11, START]]
    features = torch.arange(5.0).expand(2, 5)[:, :, None]
    assert packed.select_target(features)[..., 0].tolist() == [[3.0, 4.0], [4.0, 4.0]]
    assert packed.select_source(features + 1)[..., 0].tolist() == [[1, 2, 3, 0, 0], [1, 2, 3, 4, 0]]


def test_packing_without_padding() -> None:
    source, decoder_input = torch.tensor([[5, 6, END], [7, 8, END]]), torch.tensor([[START, 9]] * 2)
    packed = PackedPrompt.of(TokenInput(source, torch.tensor([3, 3])), decoder_input)
    other = PackedPrompt.of(TokenInput(source, torch.tensor([3, 3]), padded=True), decoder_input)
    assert packed.is_aligned
    assert not other.is_aligned
    assert packed.tokens.tolist() == other.tokens.tolist()
    features = torch.randn(2, 4, 3)
    assert torch.equal(packed.select_target(features), other.select_target(features))
    assert torch.equal(packed.select_source(features), other.select_source(features))


@pytest.mark.parametrize("mechanism", CAUSAL)
def test_steps_with_every_mechanism(mechanism: str) -> None:
    assert_steps_equal_forward(decoder_only(mechanism=mechanism))


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("norm_first", [True, False])
def test_steps_with_every_position(position: str, norm_first: bool) -> None:
    assert_steps_equal_forward(decoder_only(position=position, norm_first=norm_first))


def assert_steps_equal_forward(model: DecoderOnly) -> None:
    source, decoder_input = batch()
    with torch.no_grad():
        expected = model(source, decoder_input)
        state = model.start(source)
        assert isinstance(state, State)
        for position, token in enumerate(decoder_input.unbind(1)):
            assert state.position.tolist() == [6 + position, position, 3 + position]
            logits, state = model.step(state, token)
            torch.testing.assert_close(logits, expected[:, position], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("mechanism", ["scaled_dot", "elu", "synthesizer_random", "delta"])
def test_padding_does_not_change_a_row(mechanism: str) -> None:
    model = decoder_only(mechanism=mechanism)
    source, decoder_input = batch()
    together = model(source, decoder_input)
    for row in range(3):
        now = slice(row, row + 1)
        alone = model(source.select(now), decoder_input[now])
        torch.testing.assert_close(alone[0], together[row], rtol=1e-9, atol=1e-11)


def test_source_is_a_prompt() -> None:
    """A source predicts the same as its tokens at the beginning of the decoder input."""
    model = decoder_only()
    source, decoder_input = batch()
    packed = torch.cat([source.tokens[:1, :6], decoder_input[:1]], dim=1)
    as_input = model(TokenInput(torch.tensor([[END]]), torch.tensor([1])), packed)
    one = source.select(slice(0, 1))
    torch.testing.assert_close(as_input[:, 6:], model(one, decoder_input[:1]))


def test_causal() -> None:
    model = decoder_only()
    source, decoder_input = batch()
    changed = decoder_input.clone()
    changed[:, 3:] = 4
    before, after = model(source, decoder_input), model(source, changed)
    assert torch.equal(before[:, :3], after[:, :3])
    assert not torch.allclose(before[:, 3:], after[:, 3:])


def test_cross_weights_are_a_slice_of_the_decoder_weights() -> None:
    model = decoder_only()
    source, decoder_input = batch()
    found = model.weights(source, decoder_input)
    assert set(found) == {"decoder/0", "decoder/1", "cross/0", "cross/1"}
    whole, cross = found["decoder/1"], found["cross/1"]
    assert whole.shape == (3, HEADS, 11, 11)
    assert cross.shape == (3, HEADS, TARGET_LENGTH, 7)
    assert torch.equal(cross[0, :, :, :6], whole[0, :, 6:11, :6])
    assert torch.equal(cross[2, :, :, :3], whole[2, :, 3:8, :3])
    assert not cross[0, :, :, 6:].any()
    assert not cross[1].any()
    torch.testing.assert_close(whole.sum(-1), torch.ones_like(whole[..., 0]))


def test_source_and_target_share_max_length() -> None:
    model = decoder_only(position="learned", max_length=9)
    limits = model.target_limits(batch()[0].select(slice(0, 2)))
    assert limits is not None
    assert limits.tolist() == [3, 9]
    source, _ = batch()
    with torch.no_grad():
        model.output.table.weight[END] = -100.0 * model.output.table.weight.sign().mean(0)
    hypotheses = decode(model, source, max_length=50)
    assert all(len(one.tokens) <= most for one, most in zip(hypotheses, [3, 9, 6], strict=True))
    assert max(len(one.tokens) for one in hypotheses) > 3  # some were cut at the limit
    full = torch.tensor([[*range(4, 13), END]])
    with pytest.raises(RegardError, match="source of 9 tokens"):
        decode(model, TokenInput(full, torch.tensor([10])))


@pytest.mark.parametrize("beam_size", [1, 3])
def test_decoding_with_and_without_cache(beam_size: int) -> None:
    model = decoder_only()
    source, _ = batch()
    cached = decode(model, source, beam_size=beam_size, max_length=8)
    uncached = decode(model, source, beam_size=beam_size, max_length=8, use_cache=False)
    assert [one.tokens for one in cached] == [one.tokens for one in uncached]


def test_is_a_sequence_model() -> None:
    assert isinstance(decoder_only(), SequenceModel)


def test_every_parameter_has_a_gradient() -> None:
    model = decoder_only(tie="none").train()
    source, decoder_input = batch()
    model(source, decoder_input).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target_vocabulary": 14}, "source vocabulary of 13 and target_vocabulary=14"),
        ({"tie": "al"}, "tie=al: "),
        ({"mechanism": "scaled_dto"}, "Did you mean 'scaled_dot'?"),
        ({"dropout": 1.5}, "dropout=1.5"),
        ({"num_layers": 0}, "num_layers=0"),
    ],
)
def test_invalid_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RegardError) as error:
        decoder_only(**options)
    assert message in str(error.value)
