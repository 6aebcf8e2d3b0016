"""The Transformer: published sizes, every mechanism in every place, decoding, weights, cost, refusals."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import regard.models.seq2seq.transformer
from regard.core.counter import Counter
from regard.core.errors import RegardError
from regard.core.mechanism import State
from regard.core.protocols import SequenceModel
from regard.layers.positions import POSITIONS
from regard.mechanisms import MECHANISMS
from regard.mechanisms.compatibility import fitting_mechanisms
from regard.models.seq2seq.transformer import Transformer

SOURCE_VOCABULARY, TARGET_VOCABULARY, MODEL_DIM, HEADS = 13, 17, 24, 3
SOURCE_LENGTHS = torch.tensor([7, 2, 5])
TARGET_LENGTH = 6


def transformer(**options: Any) -> Transformer:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        "source_vocabulary": SOURCE_VOCABULARY,
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


def batch() -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(1)
    source = torch.randint(3, SOURCE_VOCABULARY, (3, 7))
    source = source.masked_fill(torch.arange(7) >= SOURCE_LENGTHS[:, None], 0)
    return source, SOURCE_LENGTHS, torch.randint(1, TARGET_VOCABULARY, (3, TARGET_LENGTH))


def num_parameters(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def assert_steps_are_the_forward(model: Transformer) -> None:
    source, lengths, given = batch()
    with torch.no_grad():
        expected = model(source, lengths, given)
        state = model.start(source, lengths)
        assert isinstance(state, State)
        for place, token in enumerate(given.unbind(1)):
            assert state.position.tolist() == [place] * 3
            logits, state = model.step(state, token)
            torch.testing.assert_close(logits, expected[:, place], rtol=1e-7, atol=1e-9)


def test_the_published_base_size() -> None:
    with torch.device("meta"):
        model = Transformer(
            source_vocabulary=37_000,
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


@pytest.mark.parametrize("mechanism", fitting_mechanisms(role="self", masks=frozenset({"causal"})))
def test_steps_with_every_decoder_mechanism(mechanism: str) -> None:
    assert_steps_are_the_forward(transformer(decoder_mechanism=mechanism))


@pytest.mark.parametrize(
    "mechanism",
    fitting_mechanisms(role="cross", causal=False, masks=frozenset({"padding"})),
)
def test_steps_with_every_cross_mechanism(mechanism: str) -> None:
    assert_steps_are_the_forward(transformer(cross_mechanism=mechanism))


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("norm_first", [True, False])
def test_steps_with_every_position(position: str, norm_first: bool) -> None:
    assert_steps_are_the_forward(
        transformer(position=position, norm_first=norm_first, model_dim=36, num_kv_heads=1)
    )


def test_the_source_may_be_encoded_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regard.models.seq2seq.transformer, "ROWS_ENCODED_TOGETHER", 2)
    assert_steps_are_the_forward(transformer())


def test_states_branch_and_merge() -> None:
    model = transformer()
    source, lengths, given = batch()
    chosen = [torch.tensor(rows) for rows in ([2, 2, 0, 0, 0], [4, 0, 1, 3], [0, 2], [1])]
    with torch.no_grad():
        state = model.start(source, lengths)
        rows, prefix = torch.arange(3), given[:, :0]
        for place, index in enumerate(chosen):
            token = torch.arange(len(rows)) + 3 + place
            logits, state = model.step(state, token)
            prefix = torch.cat([prefix, token[:, None]], dim=1)
            expected = model(source[rows], lengths[rows], prefix)[:, -1]
            torch.testing.assert_close(logits, expected)
            earlier = state
            state = state.select(index)
            rows, prefix = rows[index], prefix[index]
            # What was taken in before is still there for another branch.
            model.step(earlier, token)
        logits, _ = model.step(state, torch.tensor([5]))
        prefix = torch.cat([prefix, torch.tensor([[5]])], dim=1)
        torch.testing.assert_close(logits, model(source[rows], lengths[rows], prefix)[:, -1])


@pytest.mark.parametrize("mechanism", fitting_mechanisms(role="self", masks=frozenset({"padding"})))
def test_padding_counts_for_nothing(mechanism: str) -> None:
    if build_requires_causal(mechanism):
        with pytest.raises(RegardError, match=r"At the place 'encoder'.*reads the past only"):
            transformer(encoder_mechanism=mechanism)
        return
    model = transformer(encoder_mechanism=mechanism)
    source, lengths, given = batch()
    with torch.no_grad():
        together = model(source, lengths, given)
        for row, length in enumerate(lengths.tolist()):
            now = slice(row, row + 1)
            alone = model(source[now, :length], lengths[now], given[now])
            torch.testing.assert_close(together[now], alone, rtol=1e-7, atol=1e-9)


def build_requires_causal(mechanism: str) -> bool:
    return mechanism not in fitting_mechanisms(role="self", causal=False)


def test_weights_are_those_of_the_blocks() -> None:
    model = transformer(norm_first=False)
    source, lengths, given = batch()
    with torch.no_grad():
        weights = model.weights(source, lengths, given)
    assert list(weights) == [
        "encoder/0",
        "encoder/1",
        "decoder/0",
        "cross/0",
        "decoder/1",
        "cross/1",
    ]
    for name, found in weights.items():
        read = TARGET_LENGTH if name.startswith("decoder") else 7
        reading = 7 if name.startswith("encoder") else TARGET_LENGTH
        assert found.shape == (3, HEADS, reading, read)
        torch.testing.assert_close(found.sum(-1), torch.ones_like(found.sum(-1)))
    assert (weights["cross/1"][1, :, :, 2:] == 0).all()
    assert (weights["decoder/1"].triu(1) == 0).all()
    # The second block reads what the first one made: its weights follow the first one's parameters.
    with torch.no_grad():
        model.decoder[0].feed_forward.narrow.weight.mul_(3.0)  # type: ignore[union-attr, operator]
        changed = model.weights(source, lengths, given)
    torch.testing.assert_close(changed["cross/0"], weights["cross/0"])
    assert (changed["cross/1"] - weights["cross/1"]).abs().max() > 1e-3


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"norm_first": False, "tie": "none", "position": "learned"},
        {"tie": "all", "source_vocabulary": TARGET_VOCABULARY, "activation": "gelu"},
        {"decoder_mechanism": "elu", "cross_mechanism": "additive", "position": "rotary"},
    ],
    ids=str,
)
def test_cost_is_what_runs(options: dict[str, Any]) -> None:
    model = transformer(**options)
    cost = model.cost(batch_size=2, source_length=7, target_length=5)
    source = torch.full((2, 7), 3)
    with Counter() as counter, torch.no_grad():
        model(source, torch.tensor([7, 7]), torch.full((2, 5), 3))
    assert (cost.products, cost.functions) == (counter.products, counter.functions)
    assert cost.parameters == num_parameters(model)


def test_ties() -> None:
    same = {"source_vocabulary": TARGET_VOCABULARY}
    tables = [num_parameters(transformer(tie=tie, **same)) for tie in ("all", "target", "none")]
    one_table = TARGET_VOCABULARY * MODEL_DIM
    assert (tables[1] - tables[0], tables[2] - tables[1]) == (one_table, one_table)


def test_options_reach_their_place() -> None:
    model = transformer(
        mechanism="window", mechanism_options={"radius": 2}, decoder_options={"radius": 4},
        cross_mechanism="scaled_dot",
    )  # fmt: skip
    assert model.encoder[0].attention.mechanism.sight.radius == 2  # type: ignore[union-attr]
    assert model.decoder[1].self_attention.mechanism.sight.radius == 4  # type: ignore[union-attr]


def test_gradients_reach_every_parameter() -> None:
    model = transformer(tie="none")
    source, lengths, given = batch()
    model(source, lengths, given).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tie": "all"}, "source_vocabulary=13.*target_vocabulary=17.*or tie='target'"),
        ({"tie": "both"}, "Unknown tie 'both'.*all, none, target"),
        ({"num_layers": 0}, "num_layers=0; it must be a whole number"),
        ({"num_decoder_layers": 0}, "num_decoder_layers=0"),
        ({"dropout": 1.0}, "dropout=1.0"),
        ({"position": "rotory"}, "Did you mean 'rotary'"),
        ({"mechanism": "scaled_dto"}, "At the place 'encoder'.*Did you mean 'scaled_dot'"),
        ({"cross_mechanism": "delta"}, "At the place 'cross'.*Choose.*scaled_dot"),
        ({"cross_mechanism": "synthesizer_random"}, "At the place 'cross'.*its roles are self"),
        ({"cross_options": {"radius": 3}}, "At the place 'cross'.*radius"),
        ({"mechanism": "elu", "position": "alibi"}, "At the place 'encoder'.*alibi"),
        ({"num_heads": 5}, "the heads must divide the width"),
    ],
    ids=str,
)
def test_what_cannot_be_built(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RegardError, match=f"(?s){message}"):
        transformer(**options)


def test_what_cannot_be_read() -> None:
    model = transformer()
    source, lengths, given = batch()
    with pytest.raises(RegardError, match=r"from 1 to 13.*embedding of 13"):
        model(source.clamp(1).index_fill(1, torch.tensor([0]), 13), lengths, given)
    with pytest.raises(RegardError, match="source_lengths go from 0 to 7"):
        model(source, torch.tensor([7, 0, 2]), given)
    with pytest.raises(RegardError, match="source_lengths go from 2 to 8"):
        model.start(source, torch.tensor([8, 2, 2]))


def test_every_mechanism_is_at_some_place() -> None:
    decoder = fitting_mechanisms(role="self", masks=frozenset({"causal"}))
    assert set(decoder) == set(MECHANISMS)
