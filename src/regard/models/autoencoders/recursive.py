"""Recursive autoencoder: a greedy binary tree over each text, classified by its node vectors.

    words → unit vectors → greedy tree → a vector per node → softmax(W₃ p + b₃)

(Socher et al. 2011, "Semi-supervised recursive autoencoders"). Training adds the mean reconstruction
error of a text's merges to its loss. There is no attention: `tree_records` exports the trees, and
`collect_phrases` finds phrases with similar vectors.

With model_dim D and C classes it has 4·D·D + D + 2·D + C·D + C parameters beside the word embedding.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import ClassVar, Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.core.batches import TokenInput, TokenSpec
from regard.core.errors import RegardError
from regard.core.options import NonNegativeFloat, PositiveInt, Probability, validated
from regard.core.protocols import ClassifierOutput
from regard.core.records.attention import TreeRecord
from regard.core.traits import Size, Traits
from regard.layers.dropout import Dropout
from regard.models.autoencoders.trees import (
    CLASSIFY_AT,
    PairAutoencoder,
    TreeBatch,
    greedy_trees,
    tree_vectors,
    unit_vectors,
)
from regard.models.classifier import Classifier
from regard.models.embeddings import TokenEmbedding


class Trees(NamedTuple):
    """The trees of a batch, their node vectors and merge errors."""

    batch: TreeBatch
    vectors: Float[Tensor, "nodes model_dim"]
    errors: Float[Tensor, " joins"]


class RecursiveAutoencoder(Classifier):
    """Recursive autoencoder with a class head.

    classify_at             what is classified: "root", the root vector; or "nodes", every node, so that
                            each word and phrase is trained towards the class of its text
    normalise               whether word and phrase vectors have length 1
    weighted_by_words       whether reconstruction errors are weighted by the words below each child
    reconstruction_weight   weight of the mean reconstruction error in the loss; 0: classification only
    dropout                 dropout on the input of the class head; trees are chosen without dropout
    """

    traits: ClassVar[Traits] = Traits(
        inputs=frozenset({"tokens"}), targets=frozenset({"class"}), sizes={"model_dim": Size()}
    )

    @validated
    def __init__(
        self,
        *,
        source: TokenSpec | PositiveInt,
        outputs: PositiveInt,
        model_dim: PositiveInt = 64,
        classify_at: Literal["root", "nodes"] = "root",
        normalise: bool = True,
        weighted_by_words: bool = False,
        reconstruction_weight: NonNegativeFloat = 0.25,
        dropout: Probability = 0.0,
    ) -> None:
        super().__init__()
        self.reconstruction_weight = reconstruction_weight
        self.classify_at, self._classify_at = classify_at, CLASSIFY_AT[classify_at]
        vocabulary = source if isinstance(source, int) else source.vocabulary
        self.embedding = TokenEmbedding(vocabulary=vocabulary, model_dim=model_dim, scaled=False)
        # Norm about 1, as with `normalise`.
        nn.init.normal_(self.embedding.table.weight, std=model_dim**-0.5)
        self.pair = PairAutoencoder(
            model_dim=model_dim, normalise=normalise, weighted_by_words=weighted_by_words
        )
        self.dropout = Dropout(dropout)
        self.head = nn.Linear(model_dim, outputs)

    def features(self, input: TokenInput) -> Float[Tensor, "batch model_dim"]:
        """The vector at the root of each tree."""
        trees = self.trees(input)
        root: Tensor = self.dropout(trees.vectors[trees.batch.roots])
        return root

    def classify(self, input: TokenInput) -> ClassifierOutput:
        """Class scores of each row and its weighted reconstruction error."""
        lengths = input.lengths
        trees = self.trees(input)
        output = self._classify_at(self.class_logits, trees.vectors, trees.batch, lengths)
        merges = (lengths - 1).clamp(min=1)
        summed = trees.errors.new_zeros(len(lengths)).index_add(0, trees.batch.texts, trees.errors)
        return ClassifierOutput(
            output.logits, output.penalty + self.reconstruction_weight * (summed / merges)
        )

    def trees(self, input: TokenInput) -> Trees:
        """The greedy tree of each row, its node vectors and merge errors."""
        tokens, lengths = input.tokens, input.lengths
        is_token = torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None]
        leaves = self.embedding.embed(tokens[is_token][None])[0]
        if self.pair.normalise:
            leaves = unit_vectors(leaves)
        greedy = greedy_trees(leaves, lengths, self.pair)
        batch, vectors = greedy.trees, tree_vectors(leaves, greedy, self.pair)
        children, words = vectors[batch.children], batch.words[batch.children]
        errors = self.pair.errors(vectors[len(leaves) :], children, words)
        return Trees(batch, vectors, errors)

    def class_logits(
        self, vectors: Float[Tensor, "nodes model_dim"]
    ) -> Float[Tensor, "nodes classes"]:
        """Class scores of any nodes."""
        logits: Tensor = self.head(self.dropout(vectors))
        return logits


class TextTree(NamedTuple):
    """The nodes of one text, words first, then merges in order; merges number nodes within the text."""

    nodes: list[int]
    merges: tuple[tuple[int, int], ...]
    errors: tuple[float, ...]


@torch.no_grad()
def tree_records(
    model: RecursiveAutoencoder,
    input: TokenInput,
    *,
    words: Sequence[Sequence[str]],
    classes: Sequence[str],
) -> list[TreeRecord]:
    """One record per row; `words` are the token strings of each row, `classes` the class names."""
    validate_words(words, input.lengths)
    if len(classes) != model.head.out_features:
        raise RegardError(
            f"There are {len(classes)} class names for the {model.head.out_features} classes of the "
            "model. Pass one per class."
        )
    trees = model.trees(input)
    confidence, predicted = model.class_logits(trees.vectors).softmax(dim=1).max(dim=1)
    confidences, names = confidence.tolist(), [classes[index] for index in predicted.tolist()]
    records = []
    for leaves, (nodes, merges, errors) in zip(
        words, text_trees(trees, input.lengths), strict=True
    ):
        records.append(
            TreeRecord(
                leaves=tuple(leaves),
                merges=merges,
                errors=errors,
                predictions=tuple(names[node] for node in nodes),
                # Rounding may leave a probability just above one.
                confidences=tuple(min(1.0, confidences[node]) for node in nodes),
                title=" ".join(leaves),
            )
        )
    return records


def text_trees(trees: Trees, lengths: Int[Tensor, " batch"]) -> list[TextTree]:
    """The tree of each row of the batch."""
    batch, num_words = trees.batch, int(lengths.sum())
    # By text, then by round.
    order = (batch.texts * (1 + num_words) + batch.rounds).argsort()
    children, errors = batch.children[order].tolist(), trees.errors[order].tolist()
    merged = (num_words + order).tolist()
    rows = []
    first_word = first_join = 0
    for length in lengths.tolist():
        made = slice(first_join, first_join + length - 1)
        nodes = [*range(first_word, first_word + length), *merged[made]]
        number = {node: index for index, node in enumerate(nodes)}
        merges = tuple((number[left], number[right]) for left, right in children[made])
        rows.append(TextTree(nodes, merges, tuple(errors[made])))
        first_word, first_join = first_word + length, made.stop
    return rows


def validate_words(words: Sequence[Sequence[str]], lengths: Int[Tensor, " batch"]) -> None:
    """Require one word per token."""
    counts = [len(row) for row in words]
    if counts != lengths.tolist():
        raise RegardError(
            f"The rows have {counts} words for {lengths.tolist()} tokens. Pass the string of every token, "
            "without padding."
        )


class Neighbour(NamedTuple):
    """A phrase and its cosine similarity to the query."""

    text: str
    cosine: float


class Phrases(NamedTuple):
    """Distinct phrases and their unit vectors."""

    texts: tuple[str, ...]
    vectors: Float[Tensor, "phrases model_dim"]

    def nearest(self, text: str, *, count: int = 5) -> list[Neighbour]:
        """The most similar other phrases by cosine similarity, best first."""
        if count < 1:
            raise RegardError(f"nearest has count={count}: it must be 1 or more.")
        index = self._index(text)
        cosines = self.vectors @ self.vectors[index]
        cosines[index] = -torch.inf
        best = cosines.topk(min(count, len(self.texts) - 1))
        found = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        return [Neighbour(self.texts[index], cosine) for index, cosine in found]

    def _index(self, text: str) -> int:
        if text in self.texts:
            return self.texts.index(text)
        close = difflib.get_close_matches(text, self.texts, n=3)
        hint = f" Similar phrases: {', '.join(close)}." if close else ""
        raise RegardError(
            f"'{text}' is not one of the {len(self.texts):,} phrases of these trees; adjacent words need "
            f"not form a phrase.{hint}"
        )


@torch.no_grad()
def collect_phrases(
    model: RecursiveAutoencoder,
    input: TokenInput,
    *,
    words: Sequence[Sequence[str]],
) -> Phrases:
    """Every phrase (tree node) of these rows, single words included.

    The same words may have another tree, and so another vector, in another text: the first one counts.
    `words` are the token strings of each row.
    """
    validate_words(words, input.lengths)
    if not words:
        raise RegardError("There are no texts to collect phrases from. Pass at least one row.")
    trees = model.trees(input)
    first_nodes: dict[str, int] = {}
    for leaves, (nodes, merges, _) in zip(words, text_trees(trees, input.lengths), strict=True):
        texts = list(leaves)
        for left, right in merges:
            texts.append(f"{texts[left]} {texts[right]}")
        for node, text in zip(nodes, texts, strict=True):
            first_nodes.setdefault(text, node)
    vectors = trees.vectors[torch.tensor(list(first_nodes.values()), device=input.lengths.device)]
    return Phrases(tuple(first_nodes), unit_vectors(vectors))
