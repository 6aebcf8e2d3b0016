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

import re

from torch import Tensor

from regard.models.decoder_only import DecoderOnly
from regard.models.foreign_weights import (
    ForeignConfig,
    Plan,
    copy_planned,
    merge_copy,
    read_tensors,
)
from regard.models.text_encoder import TextEncoder

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
