"""The decoder-only model: one sequence of source and target, decoding, weights, cost, refusals."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from regard.core.batches import END, PAD, START
from regard.core.counter import Counter
from regard.core.errors import RegardError
from regard.core.mechanism import State
from regard.core.protocols import SequenceModel
from regard.layers.positions import POSITIONS
from regard.mechanisms.compatibility import fitting_mechanisms
from regard.models.decoder_only import DecoderOnly, JoinedSequence
from regard.models.generation.search import decode

VOCABULARY, MODEL_DIM, HEADS = 13, 24, 3
SOURCE_LENGTHS = torch.tensor([7, 1, 4])
TARGET_LENGTH = 5
CAUSAL = fitting_mechanisms(role="self", causal=True, masks=frozenset({"causal"}))


def decoder_only(**options: Any) -> DecoderOnly:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        "source_vocabulary": VOCABULARY,
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


def batch() -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(1)
    source = torch.randint(4, VOCABULARY, (3, 7))
    source[torch.arange(3), SOURCE_LENGTHS - 1] = END
    source = source.masked_fill(torch.arange(7) >= SOURCE_LENGTHS[:, None], PAD)
    given = torch.randint(4, VOCABULARY, (3, TARGET_LENGTH))
    given[:, 0] = START
    return source, SOURCE_LENGTHS, given


def test_joined_by_hand() -> None:
    source = torch.tensor([[5, 6, 7, END, PAD], [8, 9, 10, 11, END]])
    given = torch.tensor([[START, 12], [START, PAD]])
    joined = JoinedSequence.of(source, torch.tensor([4, 5]), given)
    assert joined.tokens.tolist() == [[5, 6, 7, START, 12], [8, 9, 10, 11, START]]
    features = torch.arange(5.0).expand(2, 5)[:, :, None]
    assert joined.of_target(features)[..., 0].tolist() == [[3.0, 4.0], [4.0, 4.0]]
    assert joined.of_source(features + 1)[..., 0].tolist() == [[1, 2, 3, 0, 0], [1, 2, 3, 4, 0]]


def test_an_empty_source_is_no_copy() -> None:
    given = torch.tensor([[START, 12, 5]])
    joined = JoinedSequence.of(torch.tensor([[END]]), torch.tensor([1]), given)
    assert joined.tokens is given
    features = torch.randn(1, 3, 2)
    assert joined.of_target(features) is features


@pytest.mark.parametrize("mechanism", CAUSAL)
def test_steps_with_every_mechanism(mechanism: str) -> None:
    assert_steps_are_the_forward(decoder_only(mechanism=mechanism))


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("norm_first", [True, False])
def test_steps_with_every_position(position: str, norm_first: bool) -> None:
    assert_steps_are_the_forward(decoder_only(position=position, norm_first=norm_first))


def assert_steps_are_the_forward(model: DecoderOnly) -> None:
    source, lengths, given = batch()
    with torch.no_grad():
        expected = model(source, lengths, given)
        state = model.start(source, lengths)
        assert isinstance(state, State)
        for place, token in enumerate(given.unbind(1)):
            assert state.position.tolist() == [6 + place, place, 3 + place]
            logits, state = model.step(state, token)
            torch.testing.assert_close(logits, expected[:, place], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("mechanism", ["scaled_dot", "elu", "synthesizer_random", "delta"])
def test_a_row_is_what_it_is_alone(mechanism: str) -> None:
    model = decoder_only(mechanism=mechanism)
    source, lengths, given = batch()
    together = model(source, lengths, given)
    for row, length in enumerate(lengths.tolist()):
        alone = model(source[row : row + 1, :length], lengths[row : row + 1], given[row : row + 1])
        torch.testing.assert_close(alone[0], together[row], rtol=1e-9, atol=1e-11)


def test_a_source_is_as_if_it_had_been_given() -> None:
    """The token after a source is that after the same tokens with nothing told apart."""
    model = decoder_only()
    source, lengths, given = batch()
    joined = torch.cat([source[:1, :6], given[:1]], dim=1)
    as_given = model(torch.tensor([[END]]), torch.tensor([1]), joined)
    torch.testing.assert_close(as_given[:, 6:], model(source[:1], lengths[:1], given[:1]))


def test_nothing_depends_on_what_comes_later() -> None:
    model = decoder_only()
    source, lengths, given = batch()
    changed = given.clone()
    changed[:, 3:] = 4
    before, after = model(source, lengths, given), model(source, lengths, changed)
    assert torch.equal(before[:, :3], after[:, :3])
    assert not torch.allclose(before[:, 3:], after[:, 3:])


def test_weights_over_the_source_are_a_part_of_all() -> None:
    model = decoder_only()
    source, lengths, given = batch()
    found = model.weights(source, lengths, given)
    assert set(found) == {"decoder/0", "decoder/1", "cross/0", "cross/1"}
    whole, cross = found["decoder/1"], found["cross/1"]
    assert whole.shape == (3, HEADS, 11, 11)
    assert cross.shape == (3, HEADS, TARGET_LENGTH, 7)
    assert torch.equal(cross[0, :, :, :6], whole[0, :, 6:11, :6])
    assert torch.equal(cross[2, :, :, :3], whole[2, :, 3:8, :3])
    assert not cross[0, :, :, 6:].any()
    assert not cross[1].any()
    torch.testing.assert_close(whole.sum(-1), torch.ones_like(whole[..., 0]))


def test_what_it_says_has_room_beside_the_source() -> None:
    model = decoder_only(position="learned", max_length=9)
    limits = model.target_limits(torch.tensor([7, 1]))
    assert limits is not None
    assert limits.tolist() == [3, 9]
    source, lengths, _ = batch()
    with torch.no_grad():
        model.output.table.weight[END] = -100.0 * model.output.table.weight.sign().mean(0)
    said = decode(model, source, lengths, max_length=50)
    assert all(len(one.tokens) <= most for one, most in zip(said, [3, 9, 6], strict=True))
    assert max(len(one.tokens) for one in said) > 3  # the limit, and not an END, ended some
    full = torch.tensor([[*range(4, 13), END]])
    with pytest.raises(RegardError, match="A source of 9 tokens fills all places"):
        decode(model, full, torch.tensor([10]))


@pytest.mark.parametrize("beam_size", [1, 3])
def test_decoding_with_a_memory_is_decoding_without(beam_size: int) -> None:
    model = decoder_only()
    source, lengths, _ = batch()
    cached = decode(model, source, lengths, beam_size=beam_size, max_length=8)
    uncached = decode(model, source, lengths, beam_size=beam_size, max_length=8, cached=False)
    assert [one.tokens for one in cached] == [one.tokens for one in uncached]


def test_it_has_the_faces_of_a_sequence_model() -> None:
    assert isinstance(decoder_only(), SequenceModel)


@pytest.mark.parametrize(
    "options", [{}, {"tie": "none"}, {"position": "learned"}, {"mechanism": "elu"}]
)
def test_cost_is_what_runs(options: dict[str, Any]) -> None:
    model = decoder_only(**options)
    source = torch.randint(4, VOCABULARY, (2, 6))
    given = torch.randint(4, VOCABULARY, (2, 5))
    declared = model.cost(batch_size=2, source_length=6, target_length=5)
    with Counter() as counter:
        model(source, torch.full((2,), 6), given)
    assert counter.products == declared.products
    assert declared.parameters == sum(parameter.numel() for parameter in model.parameters())


def test_gradients_reach_every_parameter() -> None:
    model = decoder_only(tie="none").train()
    source, lengths, given = batch()
    model(source, lengths, given).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target_vocabulary": 14}, "source_vocabulary=13 and target_vocabulary=14: it reads both"),
        ({"tie": "al"}, "Unknown tie 'al'. Did you mean 'all'?"),
        ({"mechanism": "scaled_dto"}, "Did you mean 'scaled_dot'?"),
        ({"dropout": 1.5}, "DecoderOnly has dropout=1.5"),
        ({"num_layers": 0}, "num_layers=0"),
    ],
)
def test_what_cannot_be_built(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RegardError) as refusal:
        decoder_only(**options)
    assert message in str(refusal.value)


def test_lengths_must_fit_the_source() -> None:
    source, _, given = batch()
    with pytest.raises(RegardError, match="source_lengths go from 3 to 9"):
        decoder_only()(source, torch.tensor([3, 9, 4]), given)
