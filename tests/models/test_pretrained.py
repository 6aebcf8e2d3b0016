"""Pretrained Hugging Face weights: our outputs equal theirs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from regard.core.batches import TokenInput
from regard.core.errors import RegardError
from regard.models.pretrained import from_bert, from_gpt2

transformers = pytest.importorskip("transformers", reason="installed for `make bench`")

TOLERANCE = 1e-5
VOCABULARY, LENGTH = 37, 11
LENGTHS = torch.tensor([11, 3, 8, 1])

BERT_SHAPES: dict[str, dict[str, Any]] = {
    "small": {},
    "one head": {"num_attention_heads": 1, "num_hidden_layers": 1},
    "deep": {"num_hidden_layers": 5, "hidden_size": 48, "intermediate_size": 31},
    "other settings": {"hidden_act": "gelu_new", "layer_norm_eps": 1e-3, "type_vocab_size": 3},
}
GPT2_SHAPES: dict[str, dict[str, Any]] = {
    "small": {},
    "one head": {"n_head": 1, "n_layer": 1},
    "deep": {"n_layer": 5, "n_embd": 48, "n_inner": 31},
    "other activation": {"activation_function": "relu"},
}
# Initial attention is nearly uniform; with ten times larger matrices it is not.
SCALES = [1.0, 5.0, 10.0]


def bert(kind: str, *, scale: float = 1.0, **settings: Any) -> Any:
    sizes = {
        "vocab_size": VOCABULARY,
        "hidden_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "intermediate_size": 29,
        "max_position_embeddings": 17,
    }
    config = transformers.BertConfig(**(sizes | settings))
    return randomised(getattr(transformers, kind), config, scale)


def gpt2(kind: str, *, scale: float = 1.0, **settings: Any) -> Any:
    sizes = {
        "vocab_size": VOCABULARY,
        "n_embd": 24,
        "n_layer": 2,
        "n_head": 3,
        "n_positions": 17,
        "bos_token_id": 0,
        "eos_token_id": 0,
    }
    config = transformers.GPT2Config(**(sizes | settings))
    return randomised(getattr(transformers, kind), config, scale)


def randomised(kind: Any, config: Any, scale: float) -> Any:
    """A random model with matrices scaled by `scale`, and random biases and norms."""
    torch.manual_seed(3)
    model = kind(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(scale)
            else:
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def batch(num_segments: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens, segments, and which positions are not padding."""
    torch.manual_seed(5)
    shape = (len(LENGTHS), LENGTH)
    tokens, segments = torch.randint(0, VOCABULARY, shape), torch.randint(0, num_segments, shape)
    return tokens, segments, torch.arange(LENGTH) < LENGTHS[:, None]


def assert_same(ours: Tensor, theirs: Tensor) -> None:
    assert (ours - theirs).abs().max().item() <= TOLERANCE


@pytest.mark.parametrize("shape", BERT_SHAPES)
@pytest.mark.parametrize("scale", SCALES)
@torch.no_grad()
def test_bert(shape: str, scale: float) -> None:
    theirs = bert("BertModel", scale=scale, **BERT_SHAPES[shape])
    ours = from_bert(theirs.config, theirs)
    tokens, segments, real = batch(theirs.config.type_vocab_size)
    expected = theirs(tokens, attention_mask=real.long(), token_type_ids=segments)
    hidden = ours.hidden(TokenInput(tokens, LENGTHS, segments))
    assert_same(hidden[real], expected.last_hidden_state[real])
    assert_same(ours.pooled(hidden), expected.pooler_output)
    # Without padding and segments.
    whole = torch.full_like(LENGTHS, LENGTH)
    assert_same(ours.hidden(TokenInput(tokens, whole)), theirs(tokens).last_hidden_state)


@pytest.mark.parametrize("shape", BERT_SHAPES)
@pytest.mark.parametrize("scale", SCALES)
@torch.no_grad()
def test_bert_with_its_pretraining_heads(shape: str, scale: float) -> None:
    theirs = bert("BertForPreTraining", scale=scale, **BERT_SHAPES[shape])
    ours = from_bert(theirs.config, theirs)
    tokens, segments, real = batch(theirs.config.type_vocab_size)
    expected = theirs(tokens, attention_mask=real.long(), token_type_ids=segments)
    hidden = ours.hidden(TokenInput(tokens, LENGTHS, segments))
    assert_same(ours.token_logits(hidden)[real], expected.prediction_logits[real])
    assert_same(ours.pair_logits(ours.pooled(hidden)), expected.seq_relationship_logits)


@torch.no_grad()
def test_bert_with_a_class_head() -> None:
    theirs = bert("BertForSequenceClassification", num_labels=5)
    ours = from_bert(theirs.config, theirs)
    tokens, segments, real = batch()
    expected = theirs(tokens, attention_mask=real.long(), token_type_ids=segments).logits
    assert_same(ours.classify(TokenInput(tokens, LENGTHS, segments)).logits, expected)


@torch.no_grad()
def test_attention_weights() -> None:
    theirs = bert("BertModel", scale=10.0, attn_implementation="eager")
    ours = from_bert(theirs.config, theirs)
    tokens, segments, real = batch()
    expected = theirs(
        tokens, attention_mask=real.long(), token_type_ids=segments, output_attentions=True
    ).attentions
    found = ours.weights(TokenInput(tokens, LENGTHS, segments))
    uniform = real.double() / LENGTHS[:, None]
    for mine, other in zip(found.values(), expected, strict=True):
        assert_same(mine, other)
        assert (mine - uniform[:, None, None]).abs().max() > 0.2


@pytest.mark.parametrize("shape", GPT2_SHAPES)
@pytest.mark.parametrize("scale", SCALES)
@torch.no_grad()
def test_gpt2(shape: str, scale: float) -> None:
    theirs = gpt2("GPT2LMHeadModel", scale=scale, **GPT2_SHAPES[shape])
    ours = from_gpt2(theirs.config, theirs)
    tokens, _, real = batch()
    none = tokens[:, :1], torch.ones_like(LENGTHS)
    expected = theirs(tokens, attention_mask=real.long(), output_hidden_states=True)
    hidden = ours.hidden(TokenInput(*none), tokens)
    assert_same(hidden[real], expected.hidden_states[-1][real])
    assert_same(ours.logits(hidden)[real], expected.logits[real])


@torch.no_grad()
def test_gpt2_decoding_steps() -> None:
    theirs = gpt2("GPT2LMHeadModel", scale=5.0)
    ours = from_gpt2(theirs.config, theirs)
    tokens, _, _ = batch()
    expected = theirs(tokens).logits
    state = ours.start(TokenInput(tokens[:, :1], torch.ones_like(LENGTHS)))
    for position, token in enumerate(tokens.unbind(1)):
        logits, state = ours.step(state, token)
        assert_same(logits, expected[:, position])


@torch.no_grad()
def test_gpt2_untied() -> None:
    theirs = gpt2("GPT2LMHeadModel", tie_word_embeddings=False)
    ours = from_gpt2(theirs.config, theirs)
    assert ours.output is not ours.embedding
    tokens, _, _ = batch()
    assert_same(
        ours(TokenInput(tokens[:, :1], torch.ones_like(LENGTHS)), tokens), theirs(tokens).logits
    )


@torch.no_grad()
def test_float64() -> None:
    encoder, decoder = (
        bert("BertModel", scale=5.0).double(),
        gpt2("GPT2Model", scale=5.0).double(),
    )
    tokens, _, _ = batch()
    whole = torch.full_like(LENGTHS, LENGTH)
    hidden = from_bert(encoder.config, encoder)(TokenInput(tokens, whole))
    assert hidden.dtype == torch.float64
    assert (hidden - encoder(tokens).last_hidden_state).abs().max() < 1e-12
    hidden = from_gpt2(decoder.config, decoder).hidden(
        TokenInput(tokens[:, :1], torch.ones_like(LENGTHS)), tokens
    )
    assert (hidden - decoder(tokens).last_hidden_state).abs().max() < 1e-12


@pytest.mark.parametrize("kind", ["BertModel", "BertForPreTraining", "GPT2LMHeadModel"])
@torch.no_grad()
def test_load_from_files(kind: str, tmp_path: Path) -> None:
    theirs = gpt2(kind) if kind.startswith("GPT2") else bert(kind)
    theirs.save_pretrained(tmp_path)
    load: Any = from_gpt2 if kind.startswith("GPT2") else from_bert
    direct = load(theirs.config, theirs)
    read = load(tmp_path / "config.json", str(tmp_path / "model.safetensors"))
    from_dictionaries = load(theirs.config.to_dict(), theirs.state_dict())
    for other in (read, from_dictionaries):
        for name, parameter in direct.named_parameters():
            torch.testing.assert_close(other.get_parameter(name), parameter, rtol=0, atol=0)
    assert not direct.training


@torch.no_grad()
def test_weights_are_copied() -> None:
    theirs = bert("BertModel")
    ours = from_bert(theirs.config, theirs)
    before = ours.pooler.weight.clone()
    theirs.pooler.dense.weight.zero_()
    torch.testing.assert_close(ours.pooler.weight, before, rtol=0, atol=0)


@torch.no_grad()
def test_older_checkpoints(tmp_path: Path) -> None:
    """Norms with gamma and beta, constant buffers, and names without prefix."""
    theirs = bert("BertForPreTraining")
    older = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): tensor.clone()
        for name, tensor in theirs.state_dict().items()
        if "decoder" not in name
    }
    older["bert.embeddings.position_ids"] = torch.arange(17)[None]
    save_file(older, tmp_path / "model.safetensors")
    loaded = from_bert(theirs.config, tmp_path / "model.safetensors")
    hidden = loaded.hidden(TokenInput(batch()[0], LENGTHS))
    torch.testing.assert_close(
        hidden,
        from_bert(theirs.config, theirs).hidden(TokenInput(batch()[0], LENGTHS)),
        rtol=0,
        atol=0,
    )
    gpt = gpt2("GPT2LMHeadModel")
    older = {name.removeprefix("transformer."): part for name, part in gpt.state_dict().items()}
    del older["lm_head.weight"]
    older["h.0.attn.bias"] = torch.ones(1, 1, 17, 17).tril()
    older["h.0.attn.masked_bias"] = torch.tensor(-1e4)
    table = from_gpt2(gpt.config, older).output.table.weight
    torch.testing.assert_close(table, gpt.transformer.wte.weight, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model_type": "roberta"}, "model_type='roberta'; only 'bert'"),
        (
            {"position_embedding_type": "relative_key"},
            "position_embedding_type='relative_key'; only 'absolute'",
        ),
        ({"is_decoder": True}, "is_decoder=True; only False"),
        ({"add_cross_attention": True}, "add_cross_attention=True"),
        ({"hidden_act": "quick_gelu"}, "hidden_act='quick_gelu'.*gelu, gelu_new"),
        ({"hidden_size": None}, "no 'hidden_size'"),
        ({"num_attention_heads": 5}, "num_heads=5"),
        ({"vocab_size": 40}, r"word_embeddings.weight' have the shape \(37, 24\).*\(40, 24\)"),
        ({"intermediate_size": 30}, r"intermediate.dense.weight' have the shape \(29, 24\)"),
        ({"num_hidden_layers": 1}, r"'encoder.layer.1.*and 11 more"),
        ({"num_hidden_layers": 3}, r"lack 'encoder.layer.2.*and 11 more"),
    ],
    ids=str,
)
def test_unsupported_bert(settings: dict[str, Any], message: str) -> None:
    theirs = bert("BertModel")
    with pytest.raises(RegardError, match=f"(?s){message}"):
        from_bert(theirs.config.to_dict() | settings, theirs)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model_type": "bert"}, "model_type='bert'; only 'gpt2'"),
        ({"scale_attn_weights": False}, "scale_attn_weights=False; only True"),
        ({"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx=True"),
        ({"layer_norm_epsilon": 1e-6}, "layer_norm_epsilon=1e-06; only 1e-05"),
        ({"add_cross_attention": True}, "add_cross_attention=True"),
        ({"activation_function": "mish"}, "activation_function='mish'.*gelu_new"),
        ({"n_embd": None}, "no 'n_embd'"),
        ({"n_inner": 50}, r"mlp.c_fc.weight' have the shape \(96, 24\).*\(50, 24\)"),
    ],
    ids=str,
)
def test_unsupported_gpt2(settings: dict[str, Any], message: str) -> None:
    theirs = gpt2("GPT2LMHeadModel")
    with pytest.raises(RegardError, match=f"(?s){message}"):
        from_gpt2(theirs.config.to_dict() | settings, theirs)


def test_missing_and_unexpected_tensors() -> None:
    theirs = bert("BertForPreTraining")
    tensors = dict(theirs.state_dict())
    with pytest.raises(RegardError, match=r"lack 'pooler.dense.bias'"):
        from_bert(theirs.config, without(tensors, "bert.pooler.dense.bias"))
    with pytest.raises(RegardError, match=r"lack 'embeddings.word_embeddings.weight'"):
        from_bert(
            theirs.config,
            without(
                tensors, "bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"
            ),
        )
    with pytest.raises(RegardError, match=r"'qa_outputs.bias'"):
        from_bert(theirs.config, tensors | {"qa_outputs.bias": torch.zeros(2)})
    other = tensors["cls.predictions.decoder.weight"] + 1
    with pytest.raises(RegardError, match=r"'cls.predictions.decoder.weight' differs from"):
        from_bert(theirs.config, tensors | {"cls.predictions.decoder.weight": other})


def without(tensors: dict[str, Tensor], *names: str) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in tensors.items() if name not in names}


def test_unreadable_files(tmp_path: Path) -> None:
    theirs = bert("BertModel")
    config = tmp_path / "config.json"
    config.write_text(json.dumps(theirs.config.to_dict()))
    with pytest.raises(RegardError, match=r"pytorch_model.bin.*only .safetensors files"):
        from_bert(config, tmp_path / "pytorch_model.bin")
    with pytest.raises(RegardError, match=r"model.safetensors' cannot be read"):
        from_bert(config, tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors").write_bytes(b"not one")
    with pytest.raises(RegardError, match=r"model.safetensors' cannot be read"):
        from_bert(config, tmp_path / "model.safetensors")
    with pytest.raises(RegardError, match=r"absent.json' cannot be read"):
        from_bert(tmp_path / "absent.json", theirs)
    config.write_text("[]")
    with pytest.raises(RegardError, match="configuration is a list; it must be a dictionary"):
        from_bert(config, theirs)
    with pytest.raises(RegardError, match="tensors are a list; they must be a dictionary"):
        from_bert(theirs.config, [])
