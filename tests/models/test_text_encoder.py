"""Text encoder: published sizes, every mechanism, padding, segments, weights, heads, invalid options."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.batches import TokenInput
from regard.core.errors import RegardError
from regard.layers.blocks import EncoderBlock
from regard.layers.names import POSITIONS
from regard.mechanisms import MECHANISMS
from regard.mechanisms.compatibility import compatible_mechanisms
from regard.models.embeddings import TokenEmbedding
from regard.models.text_encoder import TextEncoder
from regard.training.checkpoint import load_model_state, model_state

VOCABULARY, CLASSES, MODEL_DIM, HEADS, LENGTH = 13, 5, 24, 3, 7
LENGTHS = torch.tensor([7, 2, 5])
BIDIRECTIONAL = compatible_mechanisms(role="self", causal=False, masks=frozenset({"padding"}))


def text_encoder(**options: Any) -> TextEncoder:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        "source": VOCABULARY,
        "outputs": CLASSES,
        "model_dim": MODEL_DIM,
        "num_heads": HEADS,
        "num_layers": 2,
        "feed_forward_dim": 29,
        "max_length": 11,
    }
    model = TextEncoder(**(sizes | options)).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def batch() -> TokenInput:
    torch.manual_seed(1)
    tokens = torch.randint(3, VOCABULARY, (3, LENGTH))
    tokens = tokens.masked_fill(torch.arange(LENGTH) >= LENGTHS[:, None], 0)
    return TokenInput(tokens, LENGTHS, torch.randint(0, 2, (3, LENGTH)))


def num_parameters(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize(
    ("sizes", "encoder", "with_heads"),
    [
        ({"model_dim": 768, "num_layers": 12, "num_heads": 12}, 109_482_240, 110_106_428),
        ({"model_dim": 1024, "num_layers": 24, "num_heads": 16}, 335_141_888, 336_226_108),
    ],
    ids=["base", "large"],
)
def test_published_sizes(sizes: dict[str, Any], encoder: int, with_heads: int) -> None:
    with torch.device("meta"):
        for heads, count in ((False, encoder), (True, with_heads)):
            model = TextEncoder(source=30_522, max_length=512, pretraining_heads=heads, **sizes)
            assert num_parameters(model) == count


@pytest.mark.parametrize("mechanism", BIDIRECTIONAL)
def test_padding_does_not_change_a_row(mechanism: str) -> None:
    assert_padding_is_ignored(text_encoder(mechanism=mechanism))


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("norm_first", [True, False])
def test_padding_with_every_position(position: str, norm_first: bool) -> None:
    options = {"position": position, "norm_first": norm_first, "num_kv_heads": 1}
    assert_padding_is_ignored(text_encoder(model_dim=36, **options))


def assert_padding_is_ignored(model: TextEncoder) -> None:
    texts = batch()
    tokens, lengths, segments = texts.tokens, texts.lengths, texts.segments
    assert segments is not None
    real = torch.arange(LENGTH) < lengths[:, None]
    with torch.no_grad():
        together = model(texts)
        changed = segments.where(real, 1 - segments)
        other = model(TokenInput(tokens.where(real, 4), lengths, changed))
        torch.testing.assert_close(together[real], other[real], rtol=1e-7, atol=1e-9)
        for row, length in enumerate(lengths.tolist()):
            now = (slice(row, row + 1), slice(None, length))
            alone = model(TokenInput(tokens[now], lengths[row : row + 1], segments[now]))
            torch.testing.assert_close(together[now], alone, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("position", POSITIONS)
def test_bidirectional_and_order(position: str) -> None:
    model = text_encoder(position=position, model_dim=36)
    tokens, whole = batch().tokens[:1], torch.tensor([LENGTH])
    with torch.no_grad():
        before = model(TokenInput(tokens, whole))
        changed = tokens.clone()
        changed[0, -1] = 3 if tokens[0, -1] != 3 else 4
        assert (model(TokenInput(changed, whole))[0, 0] - before[0, 0]).abs().max() > 1e-6
        for order, invariant in (
            ([6, 5, 4, 3, 2, 1, 0], {"none", "alibi"}),
            ([1, 0, *range(2, 7)], {"none"}),
        ):
            # Each permutation is its own inverse.
            back = model(TokenInput(tokens[:, order], whole))[:, order]
            assert torch.allclose(back, before) == (position in invariant), order


def test_embeddings() -> None:
    """The sum of token, segment and position embeddings, then the norm; no scaling."""
    model = text_encoder()
    texts = batch()
    assert isinstance(model.embedding, TokenEmbedding)
    assert model.segment is not None
    total = (
        model.embedding.table.weight[texts.tokens]
        + model.segment.table.weight[texts.segments]
        + model.position.embedding.weight[:LENGTH]
    )
    centred = total - total.mean(-1, keepdim=True)
    normal = centred / (centred.square().mean(-1, keepdim=True) + 1e-12).sqrt()
    expected = normal * model.embedding_norm.weight + model.embedding_norm.bias
    torch.testing.assert_close(model._embed(texts).frames, expected)


def test_segments_default_to_zero() -> None:
    model = text_encoder()
    texts = batch()
    with torch.no_grad():
        plain = model(replace(texts, segments=None))
        zeros = replace(texts, segments=torch.zeros_like(texts.tokens))
        torch.testing.assert_close(model(zeros), plain)
        assert (model(texts) - plain).abs().max() > 1e-3


@pytest.mark.parametrize("norm_first", [True, False])
def test_weights_reproduce_hidden(norm_first: bool) -> None:
    model = text_encoder(norm_first=norm_first)
    inputs = batch()
    with torch.no_grad():
        weights, hidden = model.weights(inputs), model.hidden(inputs)
        assert list(weights) == ["encoder/0", "encoder/1"]
        x = model._embed(inputs).frames
        for block, found in zip(model.blocks, weights.values(), strict=True):
            assert found.shape == (3, HEADS, LENGTH, LENGTH)
            torch.testing.assert_close(found.sum(-1), torch.ones_like(found.sum(-1)))
            assert (found[1, :, :, 2:] == 0).all()
            x = composed(block, x, found)
        torch.testing.assert_close(model.norm(x), hidden)


def composed(block: Any, x: Tensor, weights: Tensor) -> Tensor:
    """The output of a block from its attention weights."""
    around, attention = block.around_attention, block.attention
    normalised = around.norm(x) if around.norm_first else x
    values = attention.projection.linear(normalised)[..., -MODEL_DIM:]
    heads = values.view(3, LENGTH, HEADS, -1).transpose(1, 2)
    read = (weights @ heads).transpose(1, 2).reshape(3, LENGTH, MODEL_DIM)
    x = x + attention.output(read)
    x = x if around.norm_first else around.norm(x)
    around, layer = block.around_feed_forward, block.feed_forward
    normalised = around.norm(x) if around.norm_first else x
    x = x + layer.narrow(F.gelu(layer.widen(normalised)))
    return x if around.norm_first else around.norm(x)


def test_heads() -> None:
    model = text_encoder()
    with torch.no_grad():
        hidden = model(batch())
        pooled = model.pooled(hidden)
        torch.testing.assert_close(pooled, torch.tanh(model.pooler(hidden[:, 0])))
        assert model.pair_logits(pooled).shape == (3, 2)
        assert model.head(pooled).shape == (3, CLASSES)
        head = model.token_head
        assert head is not None
        assert isinstance(model.embedding, TokenEmbedding)
        features = head.norm(F.gelu(head.linear(hidden)))
        expected = features @ model.embedding.table.weight.T + head.bias
        torch.testing.assert_close(model.token_logits(hidden), expected)
        # Any positions, such as the masked ones.
        masked = torch.tensor([0, 2]), torch.tensor([6, 1])
        torch.testing.assert_close(model.token_logits(hidden[masked]), expected[masked])


def test_every_parameter_has_a_gradient() -> None:
    model = text_encoder(norm_first=True)
    hidden = model(batch())
    pooled = model.pooled(hidden)
    outputs = (model.token_logits(hidden), model.pair_logits(pooled), model.head(pooled))
    sum(logits.square().sum() for logits in outputs).backward()  # type: ignore[union-attr]
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


def test_initialisation_is_that_of_bert() -> None:
    torch.manual_seed(0)
    model = TextEncoder(source=500, max_length=500, num_segments=500)
    assert isinstance(model.embedding, TokenEmbedding)
    assert model.segment is not None
    for table in (model.embedding.table, model.segment.table, model.position.embedding):
        assert table.weight.std().item() == pytest.approx(0.02, rel=0.02)
    assert model.embedding_norm.eps == 1e-12
    assert all(
        around.norm.eps == 1e-12
        for block in model.blocks
        if isinstance(block, EncoderBlock)
        for around in (block.around_attention, block.around_feed_forward)
    )


def test_dropout_only_in_training() -> None:
    model = text_encoder(dropout=0.5).train()
    inputs = batch()
    assert not torch.equal(model(inputs), model(inputs))
    assert not torch.equal(model.features(inputs), model.features(inputs))
    model.eval()
    torch.testing.assert_close(model(inputs), model(inputs), rtol=0, atol=0)


def test_optional_heads() -> None:
    bare = text_encoder(outputs=None, pretraining_heads=False)
    hidden = bare(batch())
    with pytest.raises(RegardError, match=r"no token_head.*pretraining_heads=True"):
        bare.token_logits(hidden)
    with pytest.raises(RegardError, match=r"no pair_head.*pretraining_heads=True"):
        bare.pair_logits(bare.pooled(hidden))
    with pytest.raises(RegardError, match=r"no head.*outputs=…"):
        bare.classify(batch())
    whole = text_encoder()
    token_head = MODEL_DIM**2 + 3 * MODEL_DIM + VOCABULARY
    rows = (MODEL_DIM + 1) * (2 + CLASSES)
    assert num_parameters(whole) - num_parameters(bare) == token_head + rows


def test_tied_table_is_saved_once() -> None:
    model, other = text_encoder(), text_encoder()
    tensors = model_state(model)
    assert set(tensors) == {name for name, _ in model.named_parameters()}
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    load_model_state(other, tensors, source=Path("model.safetensors"))
    torch.testing.assert_close(other(batch()), model(batch()), rtol=0, atol=0)


def test_max_length() -> None:
    assert text_encoder().max_length == 11
    assert text_encoder(position="rotary").max_length is None
    assert text_encoder(position="rotary", mechanism="synthesizer_random").max_length == 11


def test_embedding_scaled() -> None:
    model = text_encoder(embedding_scaled=True)
    assert model.embedding.scale == MODEL_DIM**0.5
    assert text_encoder().embedding.scale == 1.0


def test_scale_of_token_embedding() -> None:
    torch.manual_seed(0)
    scaled, plain = (
        TokenEmbedding(vocabulary=700, model_dim=16, scaled=scaled) for scaled in (True, False)
    )
    tokens = torch.tensor([[3, 1], [0, 2]])
    torch.testing.assert_close(plain.embed(tokens), plain.table.weight[tokens], rtol=0, atol=0)
    torch.testing.assert_close(scaled.embed(tokens), 4 * scaled.table.weight[tokens])
    assert plain.table.weight.std().item() == pytest.approx(0.02, rel=0.03)


@pytest.mark.parametrize("mechanism", sorted(set(MECHANISMS) - set(BIDIRECTIONAL)))
def test_incompatible_mechanisms(mechanism: str) -> None:
    with pytest.raises(RegardError, match=rf"'{mechanism}' cannot be used.*Choose.*scaled_dot"):
        text_encoder(mechanism=mechanism)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"source": 0}, "source=0"),
        ({"outputs": 0}, "outputs=0"),
        ({"num_layers": 0}, "num_layers=0"),
        ({"num_segments": 0}, "num_segments=0"),
        ({"dropout": 1.0}, "dropout=1.0"),
        ({"position": "rotory"}, "Did you mean 'rotary'"),
        ({"activation": "gleu"}, "Did you mean 'gelu'"),
        ({"mechanism": "scaled_dto"}, "Did you mean 'scaled_dot'"),
        ({"mechanism": "elu", "position": "alibi"}, "alibi"),
        ({"mechanism_options": {"radius": 3}}, "radius"),
        ({"num_heads": 5}, "num_heads=5"),
    ],
    ids=str,
)
def test_invalid_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RegardError, match=f"(?s){message}"):
        text_encoder(**options)


def test_invalid_inputs() -> None:
    model = text_encoder()
    texts = batch()
    tokens, lengths = texts.tokens, texts.lengths
    with pytest.raises(RegardError, match=r"from 1 to 13.*has 13 rows"):
        model(TokenInput(tokens.clamp(1).index_fill(1, torch.tensor([0]), 13), lengths))
    assert texts.segments is not None
    with pytest.raises(RegardError, match=r"from 0 to 2.*num_segments=2"):
        model(TokenInput(tokens, lengths, texts.segments.index_fill(1, torch.tensor([0]), 2)))
    with pytest.raises(RegardError, match="max_length=11"):
        model(TokenInput(tokens.repeat(1, 2), 2 * lengths))
