"""Sequence-to-sequence models, language models, text encoders, classifiers of texts and of images.

    from regard.models import Transformer, build_model

`MODELS` names them all. It holds strings, so listing the models imports neither them nor torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from regard.core.exports import lazy_exports
from regard.core.registry import Registry, build_from_signature

if TYPE_CHECKING:
    from torch import nn

    from regard.models.autoencoders.linear import LinearAutoencoder as LinearAutoencoder
    from regard.models.autoencoders.recursive import RecursiveAutoencoder as RecursiveAutoencoder
    from regard.models.classifier import Classifier as Classifier
    from regard.models.classifiers.baselines import (
        BagOfWordsClassifier as BagOfWordsClassifier,
        BiLSTMClassifier as BiLSTMClassifier,
        ConvolutionalClassifier as ConvolutionalClassifier,
    )
    from regard.models.classifiers.convnet import ConvNet as ConvNet
    from regard.models.classifiers.hierarchical import (
        HierarchicalClassifier as HierarchicalClassifier,
    )
    from regard.models.classifiers.structured import StructuredClassifier as StructuredClassifier
    from regard.models.classifiers.vision_transformer import VisionTransformer as VisionTransformer
    from regard.models.decoder_only import DecoderOnly as DecoderOnly
    from regard.models.embeddings import (
        TokenEmbedding as TokenEmbedding,
        WordEmbedding as WordEmbedding,
    )
    from regard.models.generation.sampling import sample as sample
    from regard.models.generation.search import decode as decode
    from regard.models.pretrained import from_bert as from_bert, from_gpt2 as from_gpt2
    from regard.models.seq2seq.ctc import CTC as CTC
    from regard.models.seq2seq.ctc_alignment import forced_alignment as forced_alignment
    from regard.models.seq2seq.recurrent import RecurrentEncoderDecoder as RecurrentEncoderDecoder
    from regard.models.seq2seq.transformer import Transformer as Transformer
    from regard.models.seq2seq.transformer_recurrent import (
        TransformerRecurrent as TransformerRecurrent,
    )
    from regard.models.stems import (
        ConvolutionalStem as ConvolutionalStem,
        FrameStem as FrameStem,
        ImageConvolutionalStem as ImageConvolutionalStem,
        PatchStem as PatchStem,
        build_stem as build_stem,
    )
    from regard.models.text_encoder import TextEncoder as TextEncoder

__all__, __getattr__, __dir__ = lazy_exports(__name__)


@dataclass(frozen=True)
class Entry:
    """One model of the table: its class, a summary and a reference; its class declares its traits.

    Inputs, targets and `is_decoder_only` are those of its traits, for listing models without torch.
    """

    module: str
    class_name: str
    summary: str
    reference: str
    inputs: tuple[str, ...] = ("tokens", "frames", "images")
    targets: tuple[str, ...] = ("class", "value")
    is_decoder_only: bool = False


# The constructor arguments that the data determines, which a user does not set.
DATA_ARGUMENTS = ("source", "target_vocabulary", "outputs")


# The options that mean the same in every model which has them; docstrings explain the others.
SHARED_OPTIONS = {
    "model_dim": "Width of the model: of embeddings and layers",
    "embedding_dim": "Width of the token embeddings",
    "hidden_dim": "Width of the recurrent layer",
    "num_heads": "Number of attention heads",
    "num_kv_heads": "Number of heads of keys and values, for grouped-query attention; none: num_heads",
    "num_layers": "Number of layers, of the encoder in an encoder–decoder",
    "dropout": "Dropout probability of features",
    "input_dropout": "Dropout probability of the embeddings; none: dropout",
    "word_dropout": "Probability that a word is replaced by UNKNOWN in training",
    "bigram_buckets": "Rows of the hashed bigram table; 0: no bigrams",
    "affix_buckets": "Rows of the hashed prefix and suffix table; 0: none",
    "activation": "Activation of the feed-forward layers",
    "norm_first": "Layer norm before each sublayer (pre-norm) instead of after it",
    "norm_epsilon": "Epsilon of the layer norms",
    "bias": "Whether linear layers have a bias",
    "cell": "Recurrent cell",
    "bidirectional": "Whether the encoder reads in both directions",
    "mechanism_options": "Options of the mechanism, as a table; see `regard list`",
    "encoder_options": "Options of encoder_mechanism, as a table",
    "decoder_options": "Options of decoder_mechanism, as a table",
    "cross_options": "Options of cross_mechanism, as a table",
    "stem": "Options of the stem of real-valued input, as a table",
}


MODELS: dict[str, Entry] = {
    "transformer": Entry(
        "seq2seq.transformer",
        "Transformer",
        "encoder–decoder of attention blocks, any mechanism in each attention slot",
        "Vaswani et al. 2017",
        targets=("sequence",),
    ),
    "decoder_only": Entry(
        "decoder_only",
        "DecoderOnly",
        "causal language model (GPT); a source is its prompt; any causal mechanism",
        "Radford et al. 2018",
        inputs=("tokens",),
        targets=("sequence",),
        is_decoder_only=True,
    ),
    "recurrent": Entry(
        "seq2seq.recurrent",
        "RecurrentEncoderDecoder",
        "LSTM or GRU encoder–decoder, Bahdanau- or Luong-style attention, or none",
        "Bahdanau et al. 2015; Luong et al. 2015",
        targets=("sequence",),
    ),
    "transformer_recurrent": Entry(
        "seq2seq.transformer_recurrent",
        "TransformerRecurrent",
        "Transformer encoder, LSTM or GRU decoder with cross-attention, or none",
        "Chen et al. 2018",
        targets=("sequence",),
    ),
    "ctc": Entry(
        "seq2seq.ctc",
        "CTC",
        "Transformer encoder that predicts a token or a blank per frame, without a decoder",
        "Graves et al. 2006",
        targets=("sequence",),
    ),
    "text_encoder": Entry(
        "text_encoder",
        "TextEncoder",
        "bidirectional encoder (BERT): masked language model or text classifier",
        "Devlin et al. 2019",
        targets=("class", "value", "positions"),
    ),
    "structured": Entry(
        "classifiers.structured",
        "StructuredClassifier",
        "structured self-attention: BiLSTM, several attention hops, a diversity penalty",
        "Lin et al. 2017",
    ),
    "hierarchical": Entry(
        "classifiers.hierarchical",
        "HierarchicalClassifier",
        "hierarchical attention network: words, sentences, document; optional sentence context",
        "Yang et al. 2016; Remy et al. 2019",
        inputs=("tokens",),
    ),
    "bag_of_words": Entry(
        "classifiers.baselines",
        "BagOfWordsClassifier",
        "mean of word embeddings: a baseline without word order or attention",
        "Joulin et al. 2017",
    ),
    "bilstm": Entry(
        "classifiers.baselines",
        "BiLSTMClassifier",
        "BiLSTM with last, max or mean pooling: a baseline without attention",
        "Conneau et al. 2017",
    ),
    "recursive_autoencoder": Entry(
        "autoencoders.recursive",
        "RecursiveAutoencoder",
        "greedy binary tree over the words, classified by its node vectors",
        "Socher et al. 2011",
        inputs=("tokens",),
        targets=("class",),
    ),
    "convolutional": Entry(
        "classifiers.baselines",
        "ConvolutionalClassifier",
        "convolutions of several widths with max pooling over time",
        "Kim 2014",
    ),
    "convnet": Entry(
        "classifiers.convnet",
        "ConvNet",
        "convolutions over images, max-pooled or strided: a baseline without attention",
        "LeCun et al. 1998",
        inputs=("images",),
    ),
    "vision_transformer": Entry(
        "classifiers.vision_transformer",
        "VisionTransformer",
        "encoder over the patches of images (ViT), any mechanism in each layer",
        "Dosovitskiy et al. 2021",
        inputs=("images",),
    ),
}


def _is_model(kind: type) -> bool:
    from torch import nn

    from regard.core.traits import Traits

    return issubclass(kind, nn.Module) and isinstance(getattr(kind, "traits", None), Traits)


REGISTRY: Registry[nn.Module] = Registry("model", MODELS, __name__, _is_model)


def model_class(name: str) -> type[nn.Module]:
    """The class of a built-in model or a plug-in, by name."""
    return REGISTRY.load(name)


def build_model(name: str, **sizes_and_options: Any) -> nn.Module:
    """Build a model by name, with its sizes and options as keyword arguments.

    >>> build_model("recurrent", source=50, target_vocabulary=40)  # doctest: +SKIP
    """
    kind = model_class(name)
    return build_from_signature(kind, what=f"model '{name}'", sizes={}, options=sizes_and_options)
