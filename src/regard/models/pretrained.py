"""Weights of Hugging Face models in ours: BERT (Devlin et al. 2019) and GPT-2 (Radford et al. 2019).

    encoder = from_bert(theirs.config, theirs)                        a model of transformers
    encoder = from_bert("config.json", "model.safetensors")           what a hub offers, pickle apart
    encoder.hidden(tokens, lengths)                                   what theirs gives, to rounding

    decoder = from_gpt2(theirs.config, theirs)
    decoder.hidden(tokens[:, :1], torch.ones_like(tokens[:, 0]), tokens)    no source: a language model

What is given back is in evaluation mode. Trained further, it differs in this: dropout is one share, never
on attention weights, and in BERT on the hidden features of the feed-forward layers too.
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

# Weights that another library trained: reading what describes them, and copying them by name.
#
# configuration   a dictionary, an object with `to_dict()`, or the path of a .json file tensors
# a dictionary, a module, or the path of a .safetensors file
#
# A plan says which of their tensors make up each of our parameters. Nothing that is read can be
# run: files of other kinds, which are pickle, are refused.


# For each of ours the names of theirs that it is made of, put together along the first dimension.
Plan = dict[str, tuple[str, ...]]
NAMES_SHOWN = 5


class ForeignConfig:
    """The settings of another library's model, with errors that name the key and its value."""

    def __init__(self, given: object) -> None:
        self.settings = _settings(given)

    def needed(self, key: str) -> Any:
        """The value of a key that must be there."""
        if self.settings.get(key) is None:
            raise RegardError(
                f"The configuration has no '{key}', without which the model cannot be built. Give "
                "the whole config.json that came with the weights."
            )
        return self.settings[key]

    def wanted(self, key: str, otherwise: Any) -> Any:
        """The value of a key, or another where it is missing or None."""
        value = self.settings.get(key)
        return otherwise if value is None else value

    def require(self, key: str, only: object, *, because: str) -> None:
        """Refuse a model that is set otherwise than the one value that can be represented."""
        value = self.wanted(key, only)
        if value != only:
            raise RegardError(
                f"The configuration has {key}={value!r}; only {only!r} can be loaded: {because}."
            )

    def translated(self, key: str, table: Mapping[str, str], otherwise: str) -> str:
        """Our name for what theirs names; an error lists the names that have one."""
        value = self.wanted(key, otherwise)
        if value not in table:
            raise RegardError(
                f"The configuration has {key}={value!r}, which has no counterpart here. Those that "
                f"can be loaded are: {', '.join(sorted(table))}."
            )
        return table[value]


def _settings(given: object) -> dict[str, Any]:
    if isinstance(given, str | PathLike):
        path = Path(given)
        try:
            given = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise RegardError(
                f"The configuration '{path}' cannot be read ({error}). Give the path of the "
                "config.json that came with the weights."
            ) from error
    elif hasattr(given, "to_dict"):
        given = given.to_dict()
    if not isinstance(given, Mapping):
        raise RegardError(
            f"The configuration is a {type(given).__name__}; it must be a dictionary, an object with "
            "to_dict(), or the path of a config.json."
        )
    return dict(given)


def read_tensors(given: object) -> dict[str, Tensor]:
    """Named tensors, from wherever they are."""
    if isinstance(given, nn.Module):
        return dict(given.state_dict())
    if isinstance(given, Mapping):
        return dict(given)
    if not isinstance(given, str | PathLike):
        raise RegardError(
            f"The tensors are a {type(given).__name__}; they must be a dictionary, a module, or the "
            "path of a .safetensors file."
        )
    path = Path(given)
    if path.suffix != ".safetensors":
        raise RegardError(
            f"The tensors are in '{path}', and only .safetensors files are read: what is in other "
            "kinds may be run on loading. Save the model again with save_pretrained(…), which "
            "writes model.safetensors."
        )
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise RegardError(
            f"The tensors '{path}' cannot be read ({error}). Give the path of a whole "
            "model.safetensors."
        ) from error


def copy_planned(
    model: nn.Module, plan: Plan, tensors: Mapping[str, Tensor], *, table: str
) -> None:
    """Fill every parameter of a model as planned; the number type becomes that of the tensor `table`.

    All tensors must be used, and all that are planned must be there, in the shape that is needed.
    """
    own = dict(model.named_parameters())
    assert set(own) == set(plan), "a plan names every parameter of the model"
    planned = {name for names in plan.values() for name in names}
    missing = [name for name in planned if name not in tensors]
    if missing:
        raise RegardError(
            f"The tensors lack {_listed(missing)}, which the model needs. Give those of the whole "
            "model that the configuration describes."
        )
    strange = [name for name in tensors if name not in planned]
    if strange:
        raise RegardError(
            f"The tensors have {_listed(strange)}, which have no place in the model. If they are "
            "not wanted, give a dictionary without them."
        )
    model.to(tensors[table].dtype)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            whole = torch.cat([tensors[part] for part in plan[name]])
            if whole.shape != parameter.shape:
                raise RegardError(
                    f"The tensors {_listed(plan[name])} give the shape {tuple(whole.shape)}, and "
                    f"'{name}' of the model has {tuple(parameter.shape)}: the configuration must be "
                    "that of these weights."
                )
            parameter.copy_(whole)


def merge_copy(tensors: dict[str, Tensor], name: str, *, of: str) -> None:
    """Make one of a tensor and its second name, of which a file may hold either; they must be equal."""
    copied = tensors.pop(name, None)
    if copied is None:
        return
    if not torch.equal(copied, tensors.setdefault(of, copied)):
        raise RegardError(
            f"The tensor '{name}' differs from '{of}', and here the two are one: a model with "
            "tie_word_embeddings=False cannot be loaded."
        )


def _listed(names: list[str] | tuple[str, ...]) -> str:
    names = sorted(names) if isinstance(names, list) else list(names)
    shown = ", ".join(f"'{name}'" for name in names[:NAMES_SHOWN])
    return shown + (f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else "")


# Their names of activations, and ours.
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

# Our layers of a block, and theirs.
BERT_BLOCK: Plan = {
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
GPT2_BLOCK: Plan = {
    "attention.projection.linear": ("attn.c_attn",),
    "attention.output": ("attn.c_proj",),
    "around_attention.norm": ("ln_1",),
    "feed_forward.widen": ("mlp.c_fc",),
    "feed_forward.narrow": ("mlp.c_proj",),
    "around_feed_forward.norm": ("ln_2",),
}

# Tables of constants that older files hold beside the weights.
CONSTANTS = re.compile(r"embeddings\.position_ids|\.attn\.(bias|masked_bias)$")
# GPT-2 keeps (in, out) what a linear layer keeps (out, in).
TRANSPOSED = re.compile(r"\.(c_attn|c_proj|c_fc)\.weight$")


def from_bert(config: object, tensors: object) -> TextEncoder:
    """The encoder of a BertModel, with the heads of BertForPreTraining or …SequenceClassification."""
    settings = ForeignConfig(config)
    settings.require("model_type", "bert", because="other models differ in more than their weights")
    settings.require(
        "position_embedding_type", "absolute", because="the positions of TextEncoder are absolute"
    )
    settings.require("is_decoder", False, because="a TextEncoder reads both ways")
    settings.require("add_cross_attention", False, because="a TextEncoder reads one sequence")
    named = _named(tensors, prefix="bert.")
    merge_copy(named, "cls.predictions.decoder.weight", of="embeddings.word_embeddings.weight")
    merge_copy(named, "cls.predictions.decoder.bias", of="cls.predictions.bias")
    pretraining_heads = any(name.startswith("cls.") for name in named)
    classes = len(named["classifier.weight"]) if "classifier.weight" in named else None
    model = TextEncoder(
        vocabulary=settings.needed("vocab_size"),
        classes=classes,
        model_dim=settings.needed("hidden_size"),
        num_heads=settings.needed("num_attention_heads"),
        num_layers=settings.needed("num_hidden_layers"),
        feed_forward_dim=settings.needed("intermediate_size"),
        dropout=settings.wanted("hidden_dropout_prob", 0.1),
        activation=settings.translated("hidden_act", ACTIVATION_NAMES, "gelu"),
        norm_epsilon=settings.wanted("layer_norm_eps", 1e-12),
        max_length=settings.needed("max_position_embeddings"),
        num_segments=settings.wanted("type_vocab_size", 2),
        pretraining_heads=pretraining_heads,
    )
    layers: Plan = {
        "embedding_norm": ("embeddings.LayerNorm",),
        "pooler": ("pooler.dense",),
        **_blocks(len(model.blocks), BERT_BLOCK, theirs="encoder.layer"),
    }
    table = "embeddings.word_embeddings.weight"
    plan: Plan = {
        "embedding.table.weight": (table,),
        "segment.table.weight": ("embeddings.token_type_embeddings.weight",),
        "position.embedding.weight": ("embeddings.position_embeddings.weight",),
    }
    if pretraining_heads:
        layers["token_head.linear"] = ("cls.predictions.transform.dense",)
        layers["token_head.norm"] = ("cls.predictions.transform.LayerNorm",)
        layers["pair_head"] = ("cls.seq_relationship",)
        plan["token_head.bias"] = ("cls.predictions.bias",)
    if classes is not None:
        layers["class_head"] = ("classifier",)
    copy_planned(model, plan | _weights_and_biases(layers), named, table=table)
    return model.eval()


def from_gpt2(config: object, tensors: object) -> DecoderOnly:
    """The decoder of a GPT2Model or a GPT2LMHeadModel."""
    settings = ForeignConfig(config)
    settings.require("model_type", "gpt2", because="other models differ in more than their weights")
    settings.require("add_cross_attention", False, because="a DecoderOnly reads one sequence")
    settings.require("layer_norm_epsilon", 1e-5, because="it is that of every norm of DecoderOnly")
    for key, only in (("scale_attn_weights", True), ("scale_attn_by_inverse_layer_idx", False)):
        settings.require(key, only, because="scores are divided by √head_dim, in every layer")
    named = {
        name: tensor.t() if TRANSPOSED.search(name) else tensor
        for name, tensor in _named(tensors, prefix="transformer.").items()
    }
    table, head = "wte.weight", "lm_head.weight"
    untied = head in named and table in named and not named[head].equal(named[table])
    if not untied:
        merge_copy(named, head, of=table)
    vocabulary = settings.needed("vocab_size")
    model = DecoderOnly(
        source_vocabulary=vocabulary,
        target_vocabulary=vocabulary,
        model_dim=settings.needed("n_embd"),
        num_heads=settings.needed("n_head"),
        num_layers=settings.needed("n_layer"),
        feed_forward_dim=settings.wanted("n_inner", None),
        dropout=settings.wanted("resid_pdrop", 0.1),
        feed_forward_dropout=0.0,
        activation=settings.translated("activation_function", ACTIVATION_NAMES, "gelu_new"),
        norm_first=True,
        position="learned",
        max_length=settings.needed("n_positions"),
        tie="none" if untied else "all",
        embedding_scaled=False,
    )
    layers: Plan = {"norm": ("ln_f",), **_blocks(len(model.blocks), GPT2_BLOCK, theirs="h")}
    plan: Plan = {
        "embedding.table.weight": (table,),
        "position.embedding.weight": ("wpe.weight",),
    }
    if untied:
        plan["output.table.weight"] = (head,)
    copy_planned(model, plan | _weights_and_biases(layers), named, table=table)
    return model.eval()


def _named(tensors: object, *, prefix: str) -> dict[str, Tensor]:
    """Their tensors without constants, by the names they have now, in the model without heads."""
    return {
        _present_name(name.removeprefix(prefix)): tensor
        for name, tensor in read_tensors(tensors).items()
        if not CONSTANTS.search(name)
    }


def _present_name(name: str) -> str:
    """The norms of files made from TensorFlow's have a gamma and a beta.

    >>> _present_name("embeddings.LayerNorm.gamma")
    'embeddings.LayerNorm.weight'
    """
    name = name.replace("LayerNorm.gamma", "LayerNorm.weight")
    return name.replace("LayerNorm.beta", "LayerNorm.bias")


def _blocks(count: int, block: Plan, *, theirs: str) -> Plan:
    return {
        f"blocks.{number}.{ours}": tuple(f"{theirs}.{number}.{part}" for part in parts)
        for number in range(count)
        for ours, parts in block.items()
    }


def _weights_and_biases(layers: Plan) -> Plan:
    return {
        f"{ours}.{kind}": tuple(f"{part}.{kind}" for part in parts)
        for ours, parts in layers.items()
        for kind in ("weight", "bias")
    }
