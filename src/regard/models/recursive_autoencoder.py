"""Recursive autoencoder: a text becomes a tree that it chooses itself, and the tree's vectors its class.

    words → unit vectors → greedy tree → a vector for every node → softmax(W₃ p + b₃)

(Socher et al. 2011, "Semi-supervised recursive autoencoders"). Training adds the mean reconstruction error
over the joins of a text to the loss, so that the tree's vectors keep what they were joined from. There is
no attention: what takes its place is the tree itself (`tree_records.py`), and which phrases lie together
(`nearest_phrases.py`).

A pair autoencoder applied to its own outputs needs one width for words and phrases. With D that width and
C classes it has 4·D·D + D + 2·D + C·D + C parameters beside the table of words.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.core.cost import Cost
from regard.core.names import look_up
from regard.core.text_classifier import Classified
from regard.layers.dropout import Dropout
from regard.layers.size_rules import require_dropout, require_positive
from regard.models.greedy_trees import greedy_trees
from regard.models.node_classes import CLASSIFIED_AT
from regard.models.option_rules import require_weights
from regard.models.padded_rows import require_lengths
from regard.models.pair_autoencoder import PairAutoencoder, unit
from regard.models.text_model import TextModel
from regard.models.token_embedding import TokenEmbedding
from regard.models.tree_batch import TreeBatch
from regard.models.tree_costs import TreeSizes, tree_cost
from regard.models.tree_vectors import tree_vectors


class Trees(NamedTuple):
    """The trees of a batch, and what was computed along them."""

    batch: TreeBatch
    vectors: Float[Tensor, "nodes model_dim"]
    errors: Float[Tensor, " joins"]


class RecursiveAutoencoder(TextModel):
    """From tokens to trees, and from those to the scores of the classes.

    classify_at             "root": the scores are those of the whole text's vector; "nodes": every word
                            and phrase is held to the class of its text (`node_classes.py`)
    normalise               whether the vectors of words and phrases have length 1
    weighted_by_words       whether reconstructing a child counts by the words below it
    reconstruction_weight   times which the mean reconstruction error of a text is added to its loss; with 0
                            classes alone are learned
    dropout                 of the features that classes are told from; trees are chosen without it
    """

    def __init__(
        self,
        *,
        vocabulary: int,
        classes: int,
        model_dim: int = 64,
        classify_at: str = "root",
        normalise: bool = True,
        weighted_by_words: bool = False,
        reconstruction_weight: float = 0.25,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        require_positive(
            "RecursiveAutoencoder", vocabulary=vocabulary, classes=classes, model_dim=model_dim
        )
        require_dropout("RecursiveAutoencoder", dropout)
        require_weights(reconstruction_weight=reconstruction_weight)
        self.reconstruction_weight = reconstruction_weight
        self.classify_at = classify_at
        self._classified = look_up("choice of classify_at", classify_at, CLASSIFIED_AT)
        self.embedding = TokenEmbedding(vocabulary=vocabulary, model_dim=model_dim, scaled=False)
        # Length about 1 from the start: not normalised, words are then as long as they would be.
        nn.init.normal_(self.embedding.table.weight, std=model_dim**-0.5)
        self.pair = PairAutoencoder(
            model_dim=model_dim, normalise=normalise, weighted_by_words=weighted_by_words
        )
        self.dropout = Dropout(dropout)
        self.class_head = nn.Linear(model_dim, classes)

    def classified(
        self,
        tokens: Int[Tensor, "batch length"],
        lengths: Int[Tensor, " batch"],
        segments: Int[Tensor, "batch length"] | None = None,
    ) -> Classified:
        """The scores of each row; every token is a leaf of one tree, whatever its segment."""
        trees = self.trees(tokens, lengths)
        said = self._classified(self.class_logits, trees.vectors, trees.batch, lengths)
        joins = (lengths - 1).clamp(min=1)
        summed = trees.errors.new_zeros(len(lengths)).index_add(0, trees.batch.texts, trees.errors)
        return Classified(said.logits, said.penalty + self.reconstruction_weight * (summed / joins))

    def trees(self, tokens: Int[Tensor, "batch length"], lengths: Int[Tensor, " batch"]) -> Trees:
        """The tree chosen for each row, the vectors of its nodes, the errors of its joins."""
        require_lengths(tokens, lengths)
        real = torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None]
        leaves = self.embedding(tokens[real][None])[0]
        if self.pair.normalise:
            leaves = unit(leaves)
        grown = greedy_trees(leaves, lengths, self.pair)
        batch, vectors = grown.trees, tree_vectors(leaves, grown, self.pair)
        children, words = vectors[batch.children], batch.words[batch.children]
        errors = self.pair.errors(vectors[len(leaves) :], children, words)
        return Trees(batch, vectors, errors)

    def class_logits(
        self, vectors: Float[Tensor, "nodes model_dim"]
    ) -> Float[Tensor, "nodes classes"]:
        """The scores of the classes, at any nodes."""
        logits: Tensor = self.class_head(self.dropout(vectors))
        return logits

    def cost(
        self, *, batch_size: int, length: int, places: int | None = None, sentences: int = 1
    ) -> Cost:
        """What `classified` takes, choosing the trees included; places and sentences are of no account."""
        sizes = TreeSizes(
            batch_size=batch_size,
            length=length,
            model_dim=self.pair.model_dim,
            classes=self.class_head.out_features,
            at_nodes=self.classify_at == "nodes",
            normalise=self.pair.normalise,
            weighted_by_words=self.pair.weighted_by_words,
        )
        return self.embedding.cost(rows=sizes.words) + tree_cost(sizes)
