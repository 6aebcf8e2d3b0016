"""Networks from one sequence to another or of one text, and the table that names them.

The table holds strings, so listing the models imports neither them nor torch.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from regard.core.registry import construct, look_up

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class Entry:
    """Where a model lives and what it is, in one line each.

    `reads` is what it takes: pairs of a source and a target, or single texts. The data of a task decides
    its `sizes`.
    """

    module: str
    class_name: str
    summary: str
    reference: str
    reads: Literal["pairs", "texts"] = "pairs"

    @property
    def sizes(self) -> tuple[str, ...]:
        """The options that are not the user's to give."""
        return SIZES[self.reads]


# what a model reads → the sizes that the data decides
SIZES = {
    "pairs": ("source_vocabulary", "target_vocabulary"),
    "texts": ("vocabulary", "classes"),
}


MODELS: dict[str, Entry] = {
    "transformer": Entry(
        "seq2seq.transformer",
        "Transformer",
        "attention blocks all the way, any mechanism in each place",
        "Vaswani et al. 2017",
    ),
    "decoder_only": Entry(
        "decoder_only",
        "DecoderOnly",
        "one causal stack that reads the source and goes on, any causal mechanism",
        "Radford et al. 2018",
    ),
    "recurrent": Entry(
        "seq2seq.recurrent",
        "RecurrentEncoderDecoder",
        "LSTM or GRU on both sides, attention before or after the update, or none",
        "Bahdanau et al. 2015; Luong et al. 2015",
    ),
    "text_encoder": Entry(
        "text_encoder",
        "TextEncoder",
        "reads a text both ways, fills in masked tokens or classifies it",
        "Devlin et al. 2019",
        reads="texts",
    ),
    "structured": Entry(
        "classifiers.structured",
        "StructuredClassifier",
        "a text read both ways, then by several hops, which a penalty keeps apart",
        "Lin et al. 2017",
        reads="texts",
    ),
    "hierarchical": Entry(
        "classifiers.hierarchical",
        "HierarchicalClassifier",
        "words to sentences to a document; a sentence may know the others",
        "Yang et al. 2016; Remy et al. 2019",
        reads="texts",
    ),
    "mean_words": Entry(
        "classifiers.baselines",
        "MeanWords",
        "the mean of word vectors: what is reached without order or attention",
        "Joulin et al. 2017",
        reads="texts",
    ),
    "recurrent_text": Entry(
        "classifiers.baselines",
        "RecurrentText",
        "a text read both ways, its last or largest features classified",
        "Conneau et al. 2017",
        reads="texts",
    ),
    "recursive_autoencoder": Entry(
        "autoencoders.recursive",
        "RecursiveAutoencoder",
        "joins neighbouring words into a tree of its own choosing, and classifies by its vectors",
        "Socher et al. 2011",
        reads="texts",
    ),
    "convolutional": Entry(
        "classifiers.baselines",
        "ConvolutionalText",
        "windows of several widths over the words, the largest answer of each",
        "Kim 2014",
        reads="texts",
    ),
}


def model_class(name: str) -> type[nn.Module]:
    """The class behind a name of the table."""
    entry = look_up("model", name, MODELS)
    module = importlib.import_module(f"{__name__}.{entry.module}")
    found: type[nn.Module] = getattr(module, entry.class_name)
    return found


def build_model(name: str, **sizes_and_options: Any) -> nn.Module:
    """A model by name, for vocabularies of these sizes; options must be its own.

    >>> build_model("recurrent", source_vocabulary=50, target_vocabulary=40)  # doctest: +SKIP
    """
    kind = model_class(name)
    return construct(kind, what=f"model '{name}'", sizes={}, options=sizes_and_options)
