"""Transformer: published sizes, every mechanism in every slot, decoding, weights, invalid options."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import regard.models.seq2seq.encoder
from regard.core.batches import TokenInput
from regard.core.errors import RegardError
from regard.core.mechanism import State
from regard.core.protocols import SequenceModel
from regard.layers.names import POSITIONS
from regard.mechanisms import MECHANISMS
from regard.mechanisms.compatibility import compatible_mechanisms
from regard.models.seq2seq.transformer import Transformer

SOURCE_VOCABULARY, TARGET_VOCABULARY, MODEL_DIM, HEADS = 13, 17, 24, 3
SOURCE_LENGTHS = torch.tensor([7, 2, 5])
TARGET_LENGTH = 6


def transformer(**options: Any) -> Transformer:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        "source": SOURCE_VOCABULARY,
        "target_vocabulary": TARGET_VOCABULARY,
        "tie": "target",
        "model_dim": MODEL_DIM,
        "num_heads": HEADS,
        "num_layers": 2,
        "feed_forward_dim": 29,
        "max_length": 11,
    }
    model = Transformer(**(sizes | options)).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def batch() -> tuple[TokenInput, Tensor]:
    torch.manual_seed(1)
    source = torch.randint(3, SOURCE_VOCABULARY, (3, 7))
    source = source.masked_fill(torch.arange(7) >= SOURCE_LENGTHS[:, None], 0)
    return TokenInput(source, SOURCE_LENGTHS), torch.randint(
        1, TARGET_VOCABULARY, (3, TARGET_LENGTH)
    )


def num_parameters(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def assert_steps_equal_forward(model: Transformer) -> None:
    source, decoder_input = batch()
    with torch.no_grad():
        expected = model(source, decoder_input)
        state = model.start(source)
        assert isinstance(state, State)
        for position, token in enumerate(decoder_input.unbind(1)):
            assert state.position.tolist() == [position] * 3
            logits, state = model.step(state, token)
            torch.testing.assert_close(logits, expected[:, position], rtol=1e-7, atol=1e-9)


def test_published_base_size() -> None:
    with torch.device("meta"):
        model = Transformer(
            source=37_000,
            target_vocabulary=37_000,
            model_dim=512,
            num_heads=8,
            num_layers=6,
            norm_first=False,
        )
    assert num_parameters(model.encoder) == 18_914_304
    assert num_parameters(model.decoder) == 25_224_192
    assert num_parameters(model) == 63_082_496
    assert isinstance(model, SequenceModel)


@pytest.mark.parametrize(
    "mechanism", compatible_mechanisms(role="self", masks=frozenset({"causal"}))
)
def test_steps_with_every_decoder_mechanism(mechanism: str) -> None:
    assert_steps_equal_forward(transformer(decoder_mechanism=mechanism))


@pytest.mark.parametrize(
    "mechanism",
    compatible_mechanisms(role="cross", causal=False, masks=frozenset({"padding"})),
)
def test_steps_with_every_cross_mechanism(mechanism: str) -> None:
    assert_steps_equal_forward(transformer(cross_mechanism=mechanism))


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("norm_first", [True, False])
def test_steps_with_every_position(position: str, norm_first: bool) -> None:
    assert_steps_equal_forward(
        transformer(position=position, norm_first=norm_first, model_dim=36, num_kv_heads=1)
    )


@pytest.mark.parametrize("target_position", POSITIONS)
def test_steps_with_every_target_position(target_position: str) -> None:
    assert_steps_equal_forward(
        transformer(position="sinusoidal", target_position=target_position, model_dim=36)
    )


def test_target_position_is_that_of_the_decoder_only() -> None:
    model = transformer(target_position="learned")
    kinds = [type(model.source_position).__name__, type(model.target_position).__name__]
    assert kinds == ["SinusoidalPositions", "LearnedPositions"]
    limits = model.target_limits(batch()[0])
    assert limits is not None
    assert limits.tolist() == [11, 11, 11]
    rotary = transformer(target_position="rotary", model_dim=36)
    assert rotary.encoder[0].attention.rotary is None
    assert rotary.decoder[0].self_attention.rotary is not None
    assert rotary.decoder[0].cross_attention.rotary is None
    same = {name: value.shape for name, value in transformer().state_dict().items()}
    named = transformer(target_position="sinusoidal").state_dict()
    assert same == {name: value.shape for name, value in named.items()}
    with pytest.raises(RegardError, match=r"'learnt'\. Did you mean 'learned'"):
        transformer(target_position="learnt")


def test_source_encoded_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regard.models.seq2seq.encoder, "ENCODER_CHUNK_SIZE", 2)
    assert_steps_equal_forward(transformer())


def test_states_branch_and_merge() -> None:
    model = transformer()
    source, decoder_input = batch()
    indices = [torch.tensor(rows) for rows in ([2, 2, 0, 0, 0], [4, 0, 1, 3], [0, 2], [1])]
    with torch.no_grad():
        state = model.start(source)
        rows, prefix = torch.arange(3), decoder_input[:, :0]
        for number, index in enumerate(indices):
            token = torch.arange(len(rows)) + 3 + number
            logits, state = model.step(state, token)
            prefix = torch.cat([prefix, token[:, None]], dim=1)
            expected = model(source.select(rows), prefix)[:, -1]
            torch.testing.assert_close(logits, expected)
            earlier = state
            state = state.select(index)
            rows, prefix = rows[index], prefix[index]
            # The earlier state is unchanged.
            model.step(earlier, token)
        logits, _ = model.step(state, torch.tensor([5]))
        prefix = torch.cat([prefix, torch.tensor([[5]])], dim=1)
        torch.testing.assert_close(logits, model(source.select(rows), prefix)[:, -1])


@pytest.mark.parametrize(
    "mechanism", compatible_mechanisms(role="self", masks=frozenset({"padding"}))
)
def test_padding_does_not_change_a_row(mechanism: str) -> None:
    if build_requires_causal(mechanism):
        with pytest.raises(RegardError, match=rf"slot 'encoder'.*'{mechanism}'"):
            transformer(encoder_mechanism=mechanism)
        return
    model = transformer(encoder_mechanism=mechanism)
    source, decoder_input = batch()
    with torch.no_grad():
        together = model(source, decoder_input)
        for row in range(3):
            now = slice(row, row + 1)
            alone = model(source.select(now), decoder_input[now])
            torch.testing.assert_close(together[now], alone, rtol=1e-7, atol=1e-9)


def build_requires_causal(mechanism: str) -> bool:
    return mechanism not in compatible_mechanisms(role="self", causal=False)


def test_weights_of_every_block() -> None:
    model = transformer(norm_first=False)
    source, decoder_input = batch()
    with torch.no_grad():
        weights = model.weights(source, decoder_input)
    assert list(weights) == [
        "encoder/0",
        "encoder/1",
        "decoder/0",
        "cross/0",
        "decoder/1",
        "cross/1",
    ]
    for name, found in weights.items():
        keys = TARGET_LENGTH if name.startswith("decoder") else 7
        queries = 7 if name.startswith("encoder") else TARGET_LENGTH
        assert found.shape == (3, HEADS, queries, keys)
        torch.testing.assert_close(found.sum(-1), torch.ones_like(found.sum(-1)))
    assert (weights["cross/1"][1, :, :, 2:] == 0).all()
    assert (weights["decoder/1"].triu(1) == 0).all()
    # The weights of the second block depend on the parameters of the first.
    with torch.no_grad():
        model.decoder[0].feed_forward.narrow.weight.mul_(3.0)
        changed = model.weights(source, decoder_input)
    torch.testing.assert_close(changed["cross/0"], weights["cross/0"])
    assert (changed["cross/1"] - weights["cross/1"]).abs().max() > 1e-3


def test_tied_embeddings() -> None:
    same = {"source": TARGET_VOCABULARY}
    tables = [num_parameters(transformer(tie=tie, **same)) for tie in ("all", "target", "none")]
    one_table = TARGET_VOCABULARY * MODEL_DIM
    assert (tables[1] - tables[0], tables[2] - tables[1]) == (one_table, one_table)


def test_mechanism_options_of_one_slot() -> None:
    model = transformer(
        mechanism="window", mechanism_options={"radius": 2}, decoder_options={"radius": 4},
        cross_mechanism="scaled_dot",
    )  # fmt: skip
    assert model.encoder[0].attention.mechanism.window.radius == 2
    assert model.decoder[1].self_attention.mechanism.window.radius == 4


def test_every_parameter_has_a_gradient() -> None:
    model = transformer(tie="none")
    source, decoder_input = batch()
    model(source, decoder_input).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tie": "all"}, "tie='all', a source vocabulary of 13 and target_vocabulary=17"),
        ({"tie": "both"}, "tie=both.*all.*none"),
        ({"num_layers": 0}, "num_layers=0"),
        ({"num_decoder_layers": 0}, "num_decoder_layers=0"),
        ({"dropout": 1.0}, "dropout=1.0"),
        ({"position": "rotory"}, "Did you mean 'rotary'"),
        ({"mechanism": "scaled_dto"}, "slot 'encoder'.*Did you mean 'scaled_dot'"),
        ({"cross_mechanism": "delta"}, "slot 'cross'.*Choose.*scaled_dot"),
        ({"cross_mechanism": "synthesizer_random"}, "slot 'cross'.*'synthesizer_random'"),
        ({"cross_options": {"radius": 3}}, "slot 'cross'.*radius"),
        ({"mechanism": "elu", "position": "alibi"}, "slot 'encoder'.*alibi"),
        ({"num_heads": 5}, "the heads must divide the width"),
    ],
    ids=str,
)
def test_invalid_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RegardError, match=f"(?s){message}"):
        transformer(**options)


def test_invalid_inputs() -> None:
    model = transformer()
    source, decoder_input = batch()
    tokens = source.tokens.clamp(1).index_fill(1, torch.tensor([0]), 13)
    with pytest.raises(RegardError, match=r"from 1 to 13.*has 13 rows"):
        model(TokenInput(tokens, source.lengths), decoder_input)


def test_every_mechanism_is_tested_in_some_slot() -> None:
    decoder = compatible_mechanisms(role="self", masks=frozenset({"causal"}))
    assert set(decoder) == set(MECHANISMS)
