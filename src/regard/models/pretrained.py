"""Load pretrained Hugging Face weights: BERT (Devlin et al. 2019) and GPT-2 (Radford et al. 2019).

    encoder = from_bert(hf_model.config, hf_model)                    a transformers model
    encoder = from_bert("config.json", "model.safetensors")           files of the Hugging Face hub
    encoder.hidden(TokenInput(tokens, lengths))                       equals theirs up to rounding

    decoder = from_gpt2(hf_model.config, hf_model)
    no_source = TokenInput(tokens[:, :1], torch.ones_like(tokens[:, 0]))
    decoder.hidden(no_source, tokens)                                 a language model

A config is a dictionary, an object with `to_dict()`, or the path of a .json file; tensors are a state
dict, a module, or the path of a .safetensors file. Pickle files are rejected: loading one can run code.

The loaded model is in evaluation mode. Fine-tuning differs from theirs in dropout: one rate, none on
attention weights, and in BERT also inside the feed-forward layers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from regard.core.errors import RegardError
from regard.models.decoder_only import DecoderOnly
from regard.models.text_encoder import TextEncoder

# Our parameter name → their tensor names, concatenated along the first dimension.
ParameterMap = dict[str, tuple[str, ...]]
NAMES_SHOWN = 5


class HuggingFaceConfig:
    """A Hugging Face config.json; errors name the key and its value."""

    def __init__(self, config: object) -> None:
        self.settings = _settings(config)

    def required(self, key: str) -> Any:
        """The value of a key; an error if it is missing."""
        if self.settings.get(key) is None:
            raise RegardError(
                f"The configuration has no '{key}', which the model needs. Pass the complete "
                "config.json that belongs to the weights."
            )
        return self.settings[key]

    def optional(self, key: str, default: Any) -> Any:
        """The value of a key, or the default if it is missing or None."""
        value = self.settings.get(key)
        return default if value is None else value

    def validate(self, key: str, supported: object, *, because: str) -> None:
        """Reject any value but the supported one."""
        value = self.optional(key, supported)
        if value != supported:
            raise RegardError(
                f"The configuration has {key}={value!r}; only {supported!r} is supported: {because}."
            )

    def translate(self, key: str, table: Mapping[str, str], default: str) -> str:
        """Our name for a value of theirs; an error lists the supported values."""
        value = self.optional(key, default)
        if value not in table:
            raise RegardError(
                f"The configuration has {key}={value!r}, which is not supported. Use one "
                f"of: {', '.join(sorted(table))}."
            )
        return table[value]


def _settings(config: object) -> dict[str, Any]:
    if isinstance(config, str | PathLike):
        path = Path(config)
        try:
            config = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise RegardError(
                f"The configuration '{path}' cannot be read ({error}). Pass the path of the "
                "config.json that belongs to the weights."
            ) from error
    elif hasattr(config, "to_dict"):
        config = config.to_dict()
    if not isinstance(config, Mapping):
        raise RegardError(
            f"The configuration is a {type(config).__name__}; it must be a dictionary, an object with "
            "to_dict(), or the path of a config.json."
        )
    return dict(config)


def load_tensors(tensors: object) -> dict[str, Tensor]:
    """A state dict, from a module, a mapping or a .safetensors file."""
    if isinstance(tensors, nn.Module):
        return dict(tensors.state_dict())
    if isinstance(tensors, Mapping):
        return dict(tensors)
    if not isinstance(tensors, str | PathLike):
        raise RegardError(
            f"The tensors are a {type(tensors).__name__}; they must be a dictionary, a module, or the "
            "path of a .safetensors file."
        )
    path = Path(tensors)
    if path.suffix != ".safetensors":
        raise RegardError(
            f"The tensors are in '{path}', but only .safetensors files are read: loading other formats "
            "(pickle) can run code. Save the model with save_pretrained(…), which writes "
            "model.safetensors."
        )
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise RegardError(
            f"The tensors '{path}' cannot be read ({error}). Pass the path of a complete "
            "model.safetensors."
        ) from error


def copy_parameters(
    model: nn.Module, sources: ParameterMap, tensors: Mapping[str, Tensor], *, table: str
) -> None:
    """Copy pretrained tensors into a model; its dtype becomes that of the tensor `table`.

    Every tensor must be used, and every parameter must be found, in its shape.
    """
    own = dict(model.named_parameters())
    assert set(own) == set(sources), "the map names every parameter of the model"
    expected = {name for names in sources.values() for name in names}
    missing = [name for name in expected if name not in tensors]
    if missing:
        raise RegardError(
            f"The tensors lack {_listed(missing)}, which the model needs. Pass the complete "
            "state dict of the model that the configuration describes."
        )
    unexpected = [name for name in tensors if name not in expected]
    if unexpected:
        raise RegardError(
            f"Unexpected tensors {_listed(unexpected)}: the model has no such parameters. To ignore "
            "them, pass a dictionary without them."
        )
    model.to(tensors[table].dtype)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            value = torch.cat([tensors[part] for part in sources[name]])
            if value.shape != parameter.shape:
                raise RegardError(
                    f"The tensors {_listed(sources[name])} have the shape {tuple(value.shape)}, but "
                    f"the parameter '{name}' has {tuple(parameter.shape)}: the configuration must "
                    "belong to these weights."
                )
            parameter.copy_(value)


def merge_tied(tensors: dict[str, Tensor], name: str, *, of: str) -> None:
    """Drop the second name of a tied tensor, of which a file may hold either; they must be equal."""
    tied = tensors.pop(name, None)
    if tied is None:
        return
    if not torch.equal(tied, tensors.setdefault(of, tied)):
        raise RegardError(
            f"The tensor '{name}' differs from '{of}', but the two are tied here: a model with "
            "tie_word_embeddings=False is not supported."
        )


def _listed(names: list[str] | tuple[str, ...]) -> str:
    names = sorted(names) if isinstance(names, list) else list(names)
    shown = ", ".join(f"'{name}'" for name in names[:NAMES_SHOWN])
    return shown + (f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else "")


# Hugging Face name of an activation → ours.
ACTIVATION_NAMES = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
    "sigmoid": "sigmoid",
}

# Our layers of a block → theirs.
BERT_BLOCK: ParameterMap = {
    "attention.projection.linear": (
        "attention.self.query",
        "attention.self.key",
        "attention.self.value",
    ),
    "attention.output": ("attention.output.dense",),
    "around_attention.norm": ("attention.output.LayerNorm",),
    "feed_forward.widen": ("intermediate.dense",),
    "feed_forward.narrow": ("output.dense",),
    "around_feed_forward.norm": ("output.LayerNorm",),
}
GPT2_BLOCK: ParameterMap = {
    "attention.projection.linear": ("attn.c_attn",),
    "attention.output": ("attn.c_proj",),
    "around_attention.norm": ("ln_1",),
    "feed_forward.widen": ("mlp.c_fc",),
    "feed_forward.narrow": ("mlp.c_proj",),
    "around_feed_forward.norm": ("ln_2",),
}

# Constant buffers that older checkpoints contain.
CONSTANTS = re.compile(r"embeddings\.position_ids|\.attn\.(bias|masked_bias)$")
# GPT-2's Conv1D stores (in, out), a linear layer (out, in).
TRANSPOSED = re.compile(r"\.(c_attn|c_proj|c_fc)\.weight$")


def from_bert(config: object, tensors: object) -> TextEncoder:
    """Load a BertModel, with the heads of BertForPreTraining or BertForSequenceClassification."""
    settings = HuggingFaceConfig(config)
    settings.validate("model_type", "bert", because="other architectures differ")
    settings.validate(
        "position_embedding_type", "absolute", because="the positions of TextEncoder are absolute"
    )
    settings.validate("is_decoder", False, because="a TextEncoder is bidirectional")
    settings.validate("add_cross_attention", False, because="a TextEncoder has no cross-attention")
    named = _named(tensors, prefix="bert.")
    merge_tied(named, "cls.predictions.decoder.weight", of="embeddings.word_embeddings.weight")
    merge_tied(named, "cls.predictions.decoder.bias", of="cls.predictions.bias")
    pretraining_heads = any(name.startswith("cls.") for name in named)
    outputs = len(named["classifier.weight"]) if "classifier.weight" in named else None
    model = TextEncoder(
        source=settings.required("vocab_size"),
        outputs=outputs,
        model_dim=settings.required("hidden_size"),
        num_heads=settings.required("num_attention_heads"),
        num_layers=settings.required("num_hidden_layers"),
        feed_forward_dim=settings.required("intermediate_size"),
        dropout=settings.optional("hidden_dropout_prob", 0.1),
        activation=settings.translate("hidden_act", ACTIVATION_NAMES, "gelu"),
        norm_epsilon=settings.optional("layer_norm_eps", 1e-12),
        max_length=settings.required("max_position_embeddings"),
        num_segments=settings.optional("type_vocab_size", 2),
        pretraining_heads=pretraining_heads,
    )
    layers: ParameterMap = {
        "embedding_norm": ("embeddings.LayerNorm",),
        "pooler": ("pooler.dense",),
        **_blocks(len(model.blocks), BERT_BLOCK, theirs="encoder.layer"),
    }
    table = "embeddings.word_embeddings.weight"
    sources: ParameterMap = {
        "embedding.table.weight": (table,),
        "segment.table.weight": ("embeddings.token_type_embeddings.weight",),
        "position.embedding.weight": ("embeddings.position_embeddings.weight",),
    }
    if pretraining_heads:
        layers["token_head.linear"] = ("cls.predictions.transform.dense",)
        layers["token_head.norm"] = ("cls.predictions.transform.LayerNorm",)
        layers["pair_head"] = ("cls.seq_relationship",)
        sources["token_head.bias"] = ("cls.predictions.bias",)
    if outputs is not None:
        layers["head"] = ("classifier",)
    copy_parameters(model, sources | _with_weight_and_bias(layers), named, table=table)
    return model.eval()


def from_gpt2(config: object, tensors: object) -> DecoderOnly:
    """Load a GPT2Model or a GPT2LMHeadModel."""
    settings = HuggingFaceConfig(config)
    settings.validate("model_type", "gpt2", because="other architectures differ")
    settings.validate("add_cross_attention", False, because="a DecoderOnly has no cross-attention")
    settings.validate("layer_norm_epsilon", 1e-5, because="DecoderOnly uses it in every norm")
    for key, supported in (
        ("scale_attn_weights", True),
        ("scale_attn_by_inverse_layer_idx", False),
    ):
        settings.validate(key, supported, because="scores are divided by √head_dim in every layer")
    named = {
        name: tensor.t() if TRANSPOSED.search(name) else tensor
        for name, tensor in _named(tensors, prefix="transformer.").items()
    }
    table, head = "wte.weight", "lm_head.weight"
    untied = head in named and table in named and not named[head].equal(named[table])
    if not untied:
        merge_tied(named, head, of=table)
    vocabulary = settings.required("vocab_size")
    model = DecoderOnly(
        source=vocabulary,
        target_vocabulary=vocabulary,
        model_dim=settings.required("n_embd"),
        num_heads=settings.required("n_head"),
        num_layers=settings.required("n_layer"),
        feed_forward_dim=settings.optional("n_inner", None),
        dropout=settings.optional("resid_pdrop", 0.1),
        feed_forward_dropout=0.0,
        activation=settings.translate("activation_function", ACTIVATION_NAMES, "gelu_new"),
        norm_first=True,
        position="learned",
        max_length=settings.required("n_positions"),
        tie="none" if untied else "all",
        embedding_scaled=False,
    )
    layers: ParameterMap = {"norm": ("ln_f",), **_blocks(len(model.blocks), GPT2_BLOCK, theirs="h")}
    sources: ParameterMap = {
        "embedding.table.weight": (table,),
        "position.embedding.weight": ("wpe.weight",),
    }
    if untied:
        sources["output.table.weight"] = (head,)
    copy_parameters(model, sources | _with_weight_and_bias(layers), named, table=table)
    return model.eval()


def _named(tensors: object, *, prefix: str) -> dict[str, Tensor]:
    """Their tensors without constant buffers, under the current names of the headless model."""
    return {
        _current_name(name.removeprefix(prefix)): tensor
        for name, tensor in load_tensors(tensors).items()
        if not CONSTANTS.search(name)
    }


def _current_name(name: str) -> str:
    """Rename the gamma and beta of layer norms in checkpoints converted from TensorFlow.

    >>> _current_name("embeddings.LayerNorm.gamma")
    'embeddings.LayerNorm.weight'
    """
    name = name.replace("LayerNorm.gamma", "LayerNorm.weight")
    return name.replace("LayerNorm.beta", "LayerNorm.bias")


def _blocks(count: int, block: ParameterMap, *, theirs: str) -> ParameterMap:
    return {
        f"blocks.{number}.{ours}": tuple(f"{theirs}.{number}.{part}" for part in parts)
        for number in range(count)
        for ours, parts in block.items()
    }


def _with_weight_and_bias(layers: ParameterMap) -> ParameterMap:
    return {
        f"{ours}.{kind}": tuple(f"{part}.{kind}" for part in parts)
        for ours, parts in layers.items()
        for kind in ("weight", "bias")
    }
