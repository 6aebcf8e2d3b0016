"""Sequence-to-sequence models, language models, text encoders and text classifiers.

    from regard.models import Transformer, build_model

`MODELS` names them all. It holds strings, so listing the models imports neither them nor torch.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from regard.core.exports import lazy_exports
from regard.core.registry import build_from_signature, lookup

if TYPE_CHECKING:
    from torch import nn

    from regard.models.autoencoders.linear import LinearAutoencoder as LinearAutoencoder
    from regard.models.autoencoders.recursive import RecursiveAutoencoder as RecursiveAutoencoder
    from regard.models.classifiers.baselines import (
        BagOfWordsClassifier as BagOfWordsClassifier,
        BiLSTMClassifier as BiLSTMClassifier,
        ConvolutionalClassifier as ConvolutionalClassifier,
    )
    from regard.models.classifiers.hierarchical import (
        HierarchicalClassifier as HierarchicalClassifier,
    )
    from regard.models.classifiers.structured import StructuredClassifier as StructuredClassifier
    from regard.models.decoder_only import DecoderOnly as DecoderOnly
    from regard.models.embeddings import TokenEmbedding as TokenEmbedding
    from regard.models.generation.sampling import sample as sample
    from regard.models.generation.search import decode as decode
    from regard.models.pretrained import from_bert as from_bert, from_gpt2 as from_gpt2
    from regard.models.seq2seq.recurrent import RecurrentEncoderDecoder as RecurrentEncoderDecoder
    from regard.models.seq2seq.transformer import Transformer as Transformer
    from regard.models.text_encoder import TextEncoder as TextEncoder

__all__, __getattr__, __dir__ = lazy_exports(__name__)


@dataclass(frozen=True)
class Entry:
    """One model of the table: its class, a summary and a reference.

    `inputs` is "pairs" for (source, target) pairs, "texts" for single texts. `sizes` are the constructor
    arguments that the data determines.
    """

    module: str
    class_name: str
    summary: str
    reference: str
    inputs: Literal["pairs", "texts"] = "pairs"

    @property
    def sizes(self) -> tuple[str, ...]:
        """Vocabulary and class counts, which a user does not set."""
        return SIZES[self.inputs]


SIZES = {
    "pairs": ("source_vocabulary", "target_vocabulary"),
    "texts": ("vocabulary", "classes"),
}


MODELS: dict[str, Entry] = {
    "transformer": Entry(
        "seq2seq.transformer",
        "Transformer",
        "encoder–decoder of attention blocks, any mechanism in each attention slot",
        "Vaswani et al. 2017",
    ),
    "decoder_only": Entry(
        "decoder_only",
        "DecoderOnly",
        "causal language model (GPT); a source is its prompt; any causal mechanism",
        "Radford et al. 2018",
    ),
    "recurrent": Entry(
        "seq2seq.recurrent",
        "RecurrentEncoderDecoder",
        "LSTM or GRU encoder–decoder, Bahdanau- or Luong-style attention, or none",
        "Bahdanau et al. 2015; Luong et al. 2015",
    ),
    "text_encoder": Entry(
        "text_encoder",
        "TextEncoder",
        "bidirectional encoder (BERT): masked language model or text classifier",
        "Devlin et al. 2019",
        inputs="texts",
    ),
    "structured": Entry(
        "classifiers.structured",
        "StructuredClassifier",
        "structured self-attention: BiLSTM, several attention hops, a diversity penalty",
        "Lin et al. 2017",
        inputs="texts",
    ),
    "hierarchical": Entry(
        "classifiers.hierarchical",
        "HierarchicalClassifier",
        "hierarchical attention network: words, sentences, document; optional sentence context",
        "Yang et al. 2016; Remy et al. 2019",
        inputs="texts",
    ),
    "bag_of_words": Entry(
        "classifiers.baselines",
        "BagOfWordsClassifier",
        "mean of word embeddings: a baseline without word order or attention",
        "Joulin et al. 2017",
        inputs="texts",
    ),
    "bilstm": Entry(
        "classifiers.baselines",
        "BiLSTMClassifier",
        "BiLSTM with last, max or mean pooling: a baseline without attention",
        "Conneau et al. 2017",
        inputs="texts",
    ),
    "recursive_autoencoder": Entry(
        "autoencoders.recursive",
        "RecursiveAutoencoder",
        "greedy binary tree over the words, classified by its node vectors",
        "Socher et al. 2011",
        inputs="texts",
    ),
    "convolutional": Entry(
        "classifiers.baselines",
        "ConvolutionalClassifier",
        "convolutions of several widths with max pooling over time",
        "Kim 2014",
        inputs="texts",
    ),
}


def model_class(name: str) -> type[nn.Module]:
    """The class of a model, by its name in `MODELS`."""
    entry = lookup("model", name, MODELS)
    module = importlib.import_module(f"{__name__}.{entry.module}")
    found: type[nn.Module] = getattr(module, entry.class_name)
    return found


def build_model(name: str, **sizes_and_options: Any) -> nn.Module:
    """Build a model by name, with its sizes and options as keyword arguments.

    >>> build_model("recurrent", source_vocabulary=50, target_vocabulary=40)  # doctest: +SKIP
    """
    kind = model_class(name)
    return build_from_signature(kind, what=f"model '{name}'", sizes={}, options=sizes_and_options)
