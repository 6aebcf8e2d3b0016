"""Transformer encoder and recurrent decoder: steps, padding, mechanisms, no attention, costs, errors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from regard.core.batches import PAD, FrameInput, FrameSpec, TokenInput
from regard.core.counting import count_call
from regard.core.errors import RegardError
from regard.core.mechanism import State
from regard.core.protocols import SequenceModel, is_autoregressive
from regard.mechanisms import MECHANISMS
from regard.mechanisms.compatibility import compatible_mechanisms
from regard.models.generation.search import decode
from regard.models.seq2seq.transformer_recurrent import TransformerRecurrent

SOURCE_VOCABULARY, TARGET_VOCABULARY, MODEL_DIM, HEADS, HIDDEN = 13, 17, 12, 3, 7
LENGTHS = torch.tensor([7, 4, 5])
SELF = compatible_mechanisms(role="self", causal=False, masks=frozenset({"padding"}))
CROSS = compatible_mechanisms(role="cross", causal=False, masks=frozenset({"padding"}))

cells = pytest.mark.parametrize("cell", ["lstm", "gru"])
attention = pytest.mark.parametrize("cross_mechanism", ["scaled_dot", "none"])


def build(**options: Any) -> TransformerRecurrent:
    """A small float64 model in evaluation mode."""
    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        "source": SOURCE_VOCABULARY,
        "target_vocabulary": TARGET_VOCABULARY,
        "model_dim": MODEL_DIM,
        "num_heads": HEADS,
        "num_layers": 2,
        "feed_forward_dim": HIDDEN,
        "max_length": 11,
    }
    model = TransformerRecurrent(**(sizes | options)).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def batch() -> tuple[TokenInput, Tensor]:
    generator = torch.Generator().manual_seed(1)
    source = torch.randint(4, SOURCE_VOCABULARY, (3, 7), generator=generator)
    source[torch.arange(7) >= LENGTHS[:, None]] = PAD
    target = torch.randint(1, TARGET_VOCABULARY, (3, 5), generator=generator)
    return TokenInput(source, LENGTHS), target


def assert_steps_equal_forward(model: TransformerRecurrent) -> None:
    source, decoder_input = batch()
    with torch.no_grad():
        expected = model(source, decoder_input)
        state = model.start(source)
        assert isinstance(state, State)
        for position, token in enumerate(decoder_input.unbind(1)):
            assert state.position.tolist() == [position] * 3
            logits, state = model.step(state, token)
            torch.testing.assert_close(logits, expected[:, position], rtol=0, atol=1e-10)
    assert isinstance(model, SequenceModel)
    assert is_autoregressive(model)


@cells
@attention
@pytest.mark.parametrize("norm_first", [True, False])
def test_steps_equal_forward(cell: str, cross_mechanism: str, norm_first: bool) -> None:
    assert_steps_equal_forward(
        build(
            cell=cell,
            cross_mechanism=cross_mechanism,
            norm_first=norm_first,
            num_decoder_layers=2,
        )
    )


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_mechanism_in_every_slot(mechanism: str) -> None:
    for slot, usable in (("encoder", SELF), ("cross", CROSS)):
        if mechanism in usable:
            assert_steps_equal_forward(build(**{f"{slot}_mechanism": mechanism}))
        else:
            with pytest.raises(RegardError, match=f"slot '{slot}'.*{mechanism}"):
                build(**{f"{slot}_mechanism": mechanism})


@attention
def test_padding_does_not_change_a_row(cross_mechanism: str) -> None:
    model = build(cross_mechanism=cross_mechanism)
    source, decoder_input = batch()
    together = model(source, decoder_input)
    for row in range(3):
        now = slice(row, row + 1)
        alone = model(source.select(now), decoder_input[now])
        torch.testing.assert_close(together[now], alone, rtol=0, atol=1e-10)


@attention
def test_padding_of_frames_changes_neither_loss_nor_gradients(cross_mechanism: str) -> None:
    stem = {"type": "convolutional", "strides": [1, 2]}
    model = build(source=FrameSpec(5), stem=stem, cross_mechanism=cross_mechanism)
    x = torch.randn(3, 7, 5, generator=torch.Generator().manual_seed(2)).double()
    x = x.masked_fill((torch.arange(7) >= LENGTHS[:, None])[:, :, None], 0.0)
    results = []
    for extra in (0, 6):
        padded = torch.nn.functional.pad(x, (0, 0, 0, extra), value=3.0)
        logits = model(FrameInput(padded, LENGTHS), batch()[1])
        gradients = torch.autograd.grad(logits.square().sum(), list(model.parameters()))
        results.append((logits, *gradients))
    torch.testing.assert_close(results[1], results[0], rtol=0, atol=1e-10)


@cells
@attention
def test_every_parameter_has_a_gradient(cell: str, cross_mechanism: str) -> None:
    model = build(cell=cell, cross_mechanism=cross_mechanism, num_decoder_layers=2, tie="none")
    model(*batch()).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


def test_states_branch() -> None:
    for options in ({}, {"cross_mechanism": "none"}):
        model = build(**options)
        source, decoder_input = batch()
        index = torch.tensor([2, 0, 0, 2, 2])
        with torch.no_grad():
            state = model.step(model.start(source), decoder_input[:, 0]).state
            before = model.step(state, decoder_input[:, 1]).output
            branched = state.select(index).select(torch.tensor([4, 1, 2, 0]))
            rows = index[[4, 1, 2, 0]]
            after = model.step(branched, decoder_input[rows, 1]).output
        torch.testing.assert_close(after, before[rows], rtol=0, atol=1e-10)


@attention
@pytest.mark.parametrize("beam_size", [1, 3])
def test_decoding_with_and_without_cache(cross_mechanism: str, beam_size: int) -> None:
    model, (source, _) = build(cross_mechanism=cross_mechanism), batch()
    cached = decode(model, source, beam_size=beam_size, max_length=6)
    without = decode(model, source, beam_size=beam_size, max_length=6, use_cache=False)
    assert [one.tokens for one in cached] == [one.tokens for one in without]


def test_weights() -> None:
    model = build(cross_mechanism="dot", num_kv_heads=1)
    source, decoder_input = batch()
    found = model.weights(source, decoder_input)
    assert list(found) == ["encoder/0", "encoder/1", "cross/0"]
    weights = found["cross/0"]
    assert weights.shape == (3, HEADS, 5, 7)
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(3, HEADS, 5).double())
    for row, length in enumerate(LENGTHS.tolist()):
        assert not weights[row, ..., length:].any()
    torch.testing.assert_close(
        found["encoder/0"].sum(dim=-1), torch.ones(3, HEADS, 7).double(), rtol=0, atol=1e-12
    )
    # They are those of the call in `hidden`.
    mixer: Any = model.cross_attention
    calls: list[Any] = []
    mixer.register_forward_pre_hook(lambda _, *call: calls.append(call), with_kwargs=True)
    model.hidden(source, decoder_input)
    ((args, kwargs),) = calls
    torch.testing.assert_close(mixer.weights(*args, **kwargs), weights, rtol=0, atol=0)


def test_without_attention() -> None:
    """The source reaches the decoder through its initial state only: the mean of the encoder."""
    model, (source, decoder_input) = build(cross_mechanism="none"), batch()
    assert list(model.weights(source, decoder_input)) == ["encoder/0", "encoder/1"]
    state = model.start(source)
    assert state.context is None
    encoded = model.encode(source)
    mean = torch.stack([encoded.frames[row, :n].mean(0) for row, n in enumerate(LENGTHS)])
    torch.testing.assert_close(state.layers[0].hidden[:, 0], model.first_hidden(mean).tanh())
    with torch.no_grad():
        for layer in (model.first_hidden, model.first_memory):
            assert layer is not None
            layer.weight.zero_()
    same = model(TokenInput(source.tokens.flip(0), LENGTHS.flip(0)), decoder_input)
    torch.testing.assert_close(same, model(source, decoder_input))


def test_parameter_counts() -> None:
    model = build()
    linear = MODEL_DIM * MODEL_DIM + MODEL_DIM
    attention, norm = 4 * linear, 2 * MODEL_DIM
    feed_forward = 2 * MODEL_DIM * HIDDEN + HIDDEN + MODEL_DIM
    by_hand = {
        "stem": SOURCE_VOCABULARY * MODEL_DIM,
        "encoder": 2 * (attention + feed_forward + 2 * norm),
        "target_embedding": TARGET_VOCABULARY * MODEL_DIM,
        "embedding_norm": norm,
        "decoder": 4 * MODEL_DIM * 2 * MODEL_DIM + 2 * 4 * MODEL_DIM,
        "first_hidden": linear,
        "first_memory": linear,
        "cross_attention": attention,
        "around_cross_attention": norm,
        "feed_forward": feed_forward,
        "around_feed_forward": norm,
    }
    for name, count in by_hand.items():
        found = sum(parameter.numel() for parameter in model.get_submodule(name).parameters())
        assert found == count, name
    total = sum(parameter.numel() for parameter in model.parameters())
    assert total == sum(by_hand.values()) + 2 * norm  # one after each stack
    assert build(cross_mechanism="none").cross_attention is None


def test_flops() -> None:
    """2 per multiply-add: matrices at each position, and scores and values of pairs of positions."""
    model, tokens = build(), torch.full((2, 6), 5)
    source = TokenInput(tokens, torch.full((2,), 6))
    counted = count_call(lambda: model(source, tokens[:, :4]), backward=False)
    square, positions, targets = MODEL_DIM**2, 2 * 6, 2 * 4
    feed_forward = 2 * MODEL_DIM * HIDDEN
    encoder = 2 * (positions * (4 * square + feed_forward) + 2 * 6 * 6 * 2 * MODEL_DIM)
    initial = 2 * 2 * square
    recurrent = targets * 8 * square
    cross = 2 * targets * square + 2 * positions * square + 2 * 4 * 6 * 2 * MODEL_DIM
    output = targets * (feed_forward + MODEL_DIM * TARGET_VOCABULARY)
    expected = 2 * (encoder + initial + recurrent + cross + output)
    assert counted.matmul_flops == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cell": "lstn"}, "cell=lstn.*lstm"),
        ({"tie": "all"}, "tie=all.*target.*none"),
        ({"mechanism": "adittive"}, "Unknown mechanism 'adittive'. Did you mean 'additive'?"),
        ({"mechanism": "none"}, "slot 'encoder'.*'none'"),
        (
            {"cross_mechanism": "none", "cross_options": {"radius": 3}},
            "cross_options={'radius': 3}",
        ),
        ({"num_decoder_layers": 0}, "num_decoder_layers=0"),
        ({"model_dim": 13}, "13"),
    ],
)
def test_invalid_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RegardError, match=message):
        build(**options)
