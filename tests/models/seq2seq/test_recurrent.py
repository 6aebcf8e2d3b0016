"""Steps against the whole, padding, the two wirings, weights, costs, sizes counted by hand, refusals."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.core.batches import PAD
from regard.core.counter import Counter
from regard.core.errors import RegardError
from regard.core.mechanism import State
from regard.core.protocols import SequenceModel
from regard.models.seq2seq.recurrent import SCORES, RecurrentEncoderDecoder

WIRINGS: dict[str, dict[str, Any]] = {
    "before": {"wiring": "before"},
    "after": {"wiring": "after"},
    "fed": {"wiring": "after", "input_feeding": True},
}
LENGTHS = torch.tensor([7, 4, 5])

wirings = pytest.mark.parametrize("wiring", WIRINGS)
scores = pytest.mark.parametrize("mechanism", SCORES)
cells = pytest.mark.parametrize("cell", ["lstm", "gru"])


def build(wiring: str = "before", **options: Any) -> RecurrentEncoderDecoder:
    """A small model of float64 in which nothing is dropped."""
    torch.manual_seed(0)
    sizes = {"source_vocabulary": 19, "target_vocabulary": 23, "embedding_dim": 5, "hidden_dim": 8}
    model = RecurrentEncoderDecoder(**{**sizes, "max_length": 11, **WIRINGS[wiring], **options})
    return model.double().eval()


def tokens() -> tuple[Tensor, Tensor, Tensor]:
    """Three sources of lengths 7, 4 and 5, and five target tokens for each."""
    generator = torch.Generator().manual_seed(1)
    source = torch.randint(4, 19, (3, 7), generator=generator)
    source[torch.arange(7) >= LENGTHS[:, None]] = PAD
    return source, LENGTHS, torch.randint(4, 23, (3, 5), generator=generator)


def stepped(model: RecurrentEncoderDecoder, source: Tensor, lengths: Tensor, given: Tensor) -> Any:
    state, rows = model.start(source, lengths), []
    for token in given.unbind(dim=1):
        output, state = model.step(state, token)
        rows.append(output)
    return torch.stack(rows, dim=1), state


@cells
@scores
@wirings
def test_steps_are_the_rows_of_the_whole(cell: str, mechanism: str, wiring: str) -> None:
    model = build(wiring, mechanism=mechanism, cell=cell, num_layers=2)
    source, lengths, given = tokens()
    whole = model.logits(model.hidden(source, lengths, given))
    rows, state = stepped(model, source, lengths, given)
    torch.testing.assert_close(rows, whole, rtol=0, atol=1e-12)
    torch.testing.assert_close(model(source, lengths, given), whole, rtol=0, atol=0)
    assert state.position.tolist() == [5, 5, 5]
    assert isinstance(model, SequenceModel)
    assert isinstance(state, State)


@cells
def test_steps_without_attention_are_the_rows_of_the_whole(cell: str) -> None:
    model = build(mechanism="none", cell=cell, num_layers=2)
    rows, _ = stepped(model, *tokens())
    torch.testing.assert_close(rows, model(*tokens()), rtol=0, atol=1e-12)


@wirings
@scores
def test_a_padded_row_is_what_it_would_be_alone(wiring: str, mechanism: str) -> None:
    model = build(wiring, mechanism=mechanism)
    source, lengths, given = tokens()
    together = model(source, lengths, given)
    for row, length in enumerate(lengths.tolist()):
        now = slice(row, row + 1)
        alone = model(source[now, :length], lengths[now], given[now])
        torch.testing.assert_close(together[now], alone, rtol=0, atol=1e-12)


@wirings
def test_a_selected_state_goes_on_as_its_row_did(wiring: str) -> None:
    model = build(wiring)
    source, lengths, given = tokens()
    _, state = stepped(model, source, lengths, given)
    token = torch.tensor([9, 10, 11])
    expected = model.step(state, token).output
    chosen = torch.tensor([2, 0, 0, 1])
    output, after = model.step(state.select(chosen), token[chosen])
    torch.testing.assert_close(output, expected[chosen], rtol=0, atol=1e-12)
    assert after.position.tolist() == [6] * 4
    # A state never changes: the same step again gives the same.
    torch.testing.assert_close(model.step(state, token).output, expected, rtol=0, atol=0)


@cells
@wirings
@scores
def test_every_parameter_gets_its_gradient(cell: str, wiring: str, mechanism: str) -> None:
    # Location does not look at keys, but its values carry a gradient to the encoder as well.
    model = build(wiring, mechanism=mechanism, cell=cell, num_layers=2)
    model(*tokens()).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


@cells
@wirings
def test_the_gradient_is_the_slope(cell: str, wiring: str) -> None:
    model, inputs = build(wiring, cell=cell, num_layers=2), tokens()
    coefficients = torch.randn(3, 5, 23, dtype=torch.float64)

    def loss() -> Tensor:
        return (model(*inputs) * coefficients).sum()

    parameters: list[Tensor] = list(model.parameters())
    gradients = torch.autograd.grad(loss(), parameters)
    directions = [torch.randn_like(parameter) for parameter in parameters]
    expected = sum((g * d).sum() for g, d in zip(gradients, directions, strict=True))
    nudge = 1e-6
    with torch.no_grad():
        sides = []
        for move in (nudge, -2 * nudge):
            torch._foreach_add_(parameters, directions, alpha=move)
            sides.append(loss())
    torch.testing.assert_close((sides[0] - sides[1]) / (2 * nudge), expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("mechanism", ["additive", "location", "dot"])
@pytest.mark.parametrize(("wiring", "sees_its_own_token"), [("before", False), ("after", True)])
def test_what_the_attention_of_a_step_has_seen(
    mechanism: str, wiring: str, sees_its_own_token: bool
) -> None:
    model = build(wiring, mechanism=mechanism)
    source, lengths, given = tokens()
    changed = given.clone()
    changed[:, 2] = (given[:, 2] + 1) % 19 + 4
    before = model.weights(source, lengths, given)["cross/0"]
    after = model.weights(source, lengths, changed)["cross/0"]
    differs = (before - after).abs().amax(dim=(0, 1, 3)) > 1e-12
    assert differs.tolist() == [False, False, sees_its_own_token, True, True]


def test_only_fed_features_tell_the_next_step_where_it_looked() -> None:
    # The features of a step reach the next one's attention through the cell, or not at all.
    for wiring, reaches in (("after", False), ("fed", True)):
        model = build(wiring)
        source, lengths, given = tokens()
        before = model.weights(source, lengths, given)["cross/0"]
        assert model.decoder.readout is not None
        with torch.no_grad():
            model.decoder.readout.weight.mul_(2)
        after = model.weights(source, lengths, given)["cross/0"]
        differs = (before - after).abs().amax(dim=(0, 1, 3)) > 1e-12
        assert differs.tolist() == [False, *[reaches] * 4]


@wirings
@scores
def test_weights_are_those_the_source_was_read_with(wiring: str, mechanism: str) -> None:
    model = build(wiring, mechanism=mechanism)
    source, lengths, given = tokens()
    found = model.weights(source, lengths, given)
    assert list(found) == ["cross/0"]
    weights = found["cross/0"]
    assert weights.shape == (3, 1, 5, 7)
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(3, 1, 5, dtype=torch.float64))
    for row, length in enumerate(lengths.tolist()):
        assert (weights[row, ..., length:] == 0).all()
        assert (weights[row, ..., :length] > 0).all()
    # The features again, from these weights and the encoder's memory.
    if wiring == "after":
        encoded = model._encode(source, lengths)
        decoded = model._decode(model._first_state(encoded, lengths), given)
        context = weights[:, 0] @ encoded.memory
        assert model.decoder.readout is not None
        both = torch.cat([context, decoded.queries], dim=-1)
        torch.testing.assert_close(torch.tanh(model.decoder.readout(both)), decoded.features)


def test_without_attention_there_are_no_weights_and_only_the_last_state_is_known() -> None:
    assert build(mechanism=None).weights(*tokens()) == {}
    model = build(mechanism="none", bidirectional=False)
    state = model.start(*tokens()[:2])
    assert state.source is None
    assert state.select(torch.tensor([1])).source is None


@cells
@pytest.mark.parametrize(
    ("wiring", "mechanism"), [*itertools.product(WIRINGS, SCORES), ("after", "none")]
)
def test_cost_is_what_the_counter_sees(cell: str, wiring: str, mechanism: str) -> None:
    tie = "none" if cell == "gru" else "target"
    model = build(wiring, mechanism=mechanism, cell=cell, tie=tie, num_decoder_layers=2)
    source, given = torch.full((3, 7), 4), torch.full((3, 5), 4)
    with torch.no_grad(), Counter() as counter:
        model(source, torch.full((3,), 7), given)
    cost = model.cost(batch_size=3, source_length=7, target_length=5)
    assert (cost.products, cost.functions) == (counter.products, counter.functions)
    assert cost.parameters == sum(parameter.numel() for parameter in model.parameters())
    state = model.start(source, torch.full((3,), 7))
    kept = [state.hidden, state.memory, state.fed]
    if state.source is not None:
        kept += [state.source.key, state.source.value]  # type: ignore[attr-defined]
    assert cost.state == sum(tensor.numel() for tensor in kept)


def test_parameters_by_hand() -> None:
    model = build("before", mechanism="additive", cell="lstm")
    half = 4 * 4 * (5 + 4) + 2 * 4 * 4
    by_hand = {
        "source_embedding": 19 * 5,
        "target_embedding": 23 * 5,
        "encoder": 2 * half,
        "first_hidden": 8 * 8 + 8,
        "first_memory": 8 * 8 + 8,
        # The cell reads 5 + 8 features; additive has two matrices and a vector; the readout is of 21.
        "decoder": 4 * 8 * (13 + 8) + 2 * 4 * 8 + (2 * 8 * 8 + 8) + (21 * 8 + 8),
        "narrow": 8 * 5,
    }
    for part, count in by_hand.items():
        module = model.get_submodule(part)
        assert sum(parameter.numel() for parameter in module.parameters()) == count, part
    # The output is the target embedding and a bias.
    total = sum(parameter.numel() for parameter in model.parameters())
    assert total == sum(by_hand.values()) + 23


def test_a_tied_matrix_is_saved_once() -> None:
    stored = [tensor.data_ptr() for tensor in build(tie="target").state_dict().values()]
    assert len(stored) == len(set(stored))
    assert "output_weight" not in build(tie="target").state_dict()
    assert build(tie="none").state_dict()["output_weight"].shape == (23, 8)


def test_dropout_only_while_training() -> None:
    model, inputs = build(dropout=0.5), tokens()
    assert torch.equal(model(*inputs), model(*inputs))
    model.train()
    assert not torch.equal(model(*inputs), model(*inputs))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"wiring": "during"}, "Unknown wiring 'during'. Choose from: after, before."),
        ({"cell": "lstn"}, "Unknown recurrent cell 'lstn'. Did you mean 'lstm'?"),
        ({"tie": "all"}, "Unknown tie 'all'. Choose from: none, target."),
        ({"mechanism": "adittive"}, "Unknown mechanism 'adittive'. Did you mean 'additive'?"),
        (
            {"mechanism": "elu"},
            "'elu' does not fit .* dot, scaled_dot, general, additive, location",
        ),
        ({"input_feeding": True}, "input_feeding=True with wiring='before'"),
        (
            {"input_feeding": True, "wiring": "after", "mechanism": "none"},
            "input_feeding=True and no attention",
        ),
        (
            {"mechanism": "dot", "mechanism_options": {"hidden_dim": 3}},
            "Unknown option 'hidden_dim'",
        ),
        ({"mechanism": None, "mechanism_options": {"hidden_dim": 3}}, "and no mechanism"),
        ({"hidden_dim": 7}, "hidden_dim=7 and bidirectional=True.* must be even"),
        ({"num_layers": 0}, "num_layers=0; it must be a whole number, 1 or more"),
        ({"dropout": 1.0}, "dropout=1.0"),
    ],
)
def test_a_choice_that_cannot_be_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RegardError, match=message):
        RecurrentEncoderDecoder(**{"source_vocabulary": 9, "target_vocabulary": 9, **options})


def test_a_source_too_long_for_a_location_score_is_refused() -> None:
    model = build(mechanism="location", max_length=6)
    with pytest.raises(RegardError, match="max_length=6"):
        model(*tokens())
