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
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.core.cost import Cost, linear_cost
from regard.core.counter import SOFTMAX_OPS
from regard.core.errors import RegardError
from regard.core.protocols import ClassifierOutput
from regard.core.records.attention import TreeRecord
from regard.core.registry import lookup
from regard.layers.dropout import Dropout
from regard.layers.validation import validate_dropout, validate_positive
from regard.models.autoencoders.trees import (
    CLASSIFY_AT,
    PairAutoencoder,
    TreeBatch,
    greedy_trees,
    tree_vectors,
    unit_vectors,
)
from regard.models.classifiers.baselines import TextModel
from regard.models.embeddings import TokenEmbedding
from regard.models.validation import validate_lengths, validate_loss_weights


@dataclass(frozen=True, kw_only=True)
class TreeSizes:
    """Sizes of a batch of texts of equal length, and the options that determine the cost."""

    batch_size: int
    length: int
    model_dim: int
    classes: int
    at_nodes: bool
    normalise: bool
    weighted_by_words: bool

    def __post_init__(self) -> None:
        validate_positive("TreeSizes", batch_size=self.batch_size, length=self.length)

    @property
    def words(self) -> int:
        """Words of all texts."""
        return self.batch_size * self.length

    @property
    def merges(self) -> int:
        """Merges of all trees."""
        return self.words - self.batch_size

    @property
    def merges_scored_around(self) -> int:
        """Merges after which neighbours are scored: all but the last of each tree."""
        return self.batch_size * max(0, self.length - 2)

    @property
    def scored_pairs(self) -> int:
        """Pairs whose reconstruction error is computed."""
        return self.merges + 2 * self.merges_scored_around


def tree_cost(sizes: TreeSizes) -> Cost:
    """Cost from word vectors to class scores, for texts of equal length.

    A text of n words has n − 1 merges. The search scores n − 1 pairs, then two after every merge but the
    last: about 3n. The n − 1 chosen merges are computed again with gradients. The shape of the trees does
    not matter.
    """
    return _tree_search_cost(sizes) + _tree_vector_cost(sizes) + _class_head_cost(sizes)


def _tree_search_cost(sizes: TreeSizes) -> Cost:
    """The greedy search, which has no backward pass."""
    width, pairs = sizes.model_dim, sizes.scored_pairs
    # A single word has no pair.
    split = sizes.words + sizes.merges_scored_around if sizes.merges else 0
    halves = linear_cost(rows=split, in_features=width, out_features=2 * width)
    # The sums of the halves, then the norms of the parents.
    elementwise_ops = pairs * width + _unit_ops(sizes, rows=pairs)
    # The minimum of each row, and the first error equal to it.
    minimum_ops = sizes.merges * (3 * (sizes.length + 1) + 2)
    transcendental_ops = pairs * (width + sizes.normalise)
    scored = _reconstruction_cost(sizes, rows=pairs)
    return Cost(
        matmul_flops=halves.matmul_flops + scored.matmul_flops,
        transcendental_ops=transcendental_ops + scored.transcendental_ops,
        elementwise_ops=halves.elementwise_ops
        + elementwise_ops
        + minimum_ops
        + scored.elementwise_ops,
        memory=sizes.words * width * PEAK_VECTORS_PER_WORD,
        sequential_steps=sizes.length - 1,
        # A tree may be as deep as it has merges.
        max_path_length=max(1, sizes.length - 1),
    )


def _tree_vector_cost(sizes: TreeSizes) -> Cost:
    """The chosen trees, recomputed with gradients, and their errors."""
    width, merges = sizes.model_dim, sizes.merges
    encoder = linear_cost(rows=merges, in_features=2 * width, out_features=width)
    decoder = linear_cost(rows=merges, in_features=width, out_features=2 * width)
    errors = _reconstruction_cost(sizes, rows=merges)
    # The derivative of tanh, and its division by the norm.
    slopes = merges * width * (2 + sizes.normalise)
    words = sizes.words if sizes.normalise else 0
    return Cost(
        matmul_flops=encoder.matmul_flops + errors.matmul_flops,
        transcendental_ops=merges * (width + sizes.normalise) + words + errors.transcendental_ops,
        elementwise_ops=encoder.elementwise_ops
        + slopes
        + _unit_ops(sizes, rows=merges + sizes.words)
        + errors.elementwise_ops,
        backward_matmul_flops=encoder.backward_matmul_flops + decoder.backward_matmul_flops,
        parameters=encoder.parameters + decoder.parameters,
    )


def _class_head_cost(sizes: TreeSizes) -> Cost:
    """Class scores, the mean error of each text, and with `at_nodes` the mean over nodes."""
    nodes = sizes.words + sizes.merges if sizes.at_nodes else sizes.batch_size
    head = linear_cost(rows=nodes, in_features=sizes.model_dim, out_features=sizes.classes)
    scores, texts = nodes * sizes.classes, sizes.batch_size
    means = Cost(transcendental_ops=texts, elementwise_ops=sizes.merges + 4 * texts)
    if sizes.at_nodes:
        means += Cost(
            transcendental_ops=scores + texts * (sizes.classes + 1),
            elementwise_ops=(SOFTMAX_OPS + 1) * scores + texts * sizes.classes,
        )
    return head + means


def _reconstruction_cost(sizes: TreeSizes, *, rows: int) -> Cost:
    """Reconstruction of children from parents, and its errors."""
    width = sizes.model_dim
    decoder = linear_cost(rows=rows, in_features=width, out_features=2 * width)
    # Differences, squares and their sum; then a half, or a mean weighted by words.
    elementwise_ops = decoder.elementwise_ops + rows * (
        6 * width + (6 if sizes.weighted_by_words else 1)
    )
    transcendental_ops = rows if sizes.weighted_by_words else 0
    return Cost(
        matmul_flops=decoder.matmul_flops,
        transcendental_ops=transcendental_ops,
        elementwise_ops=elementwise_ops,
    )


def _unit_ops(sizes: TreeSizes, *, rows: int) -> int:
    """Norms, clamped, and the division by them."""
    return rows * (2 * sizes.model_dim + 1) if sizes.normalise else 0


# Vectors per word at the memory peak, when all pairs of words are scored.
PEAK_VECTORS_PER_WORD = 15


class Trees(NamedTuple):
    """The trees of a batch, their node vectors and merge errors."""

    batch: TreeBatch
    vectors: Float[Tensor, "nodes model_dim"]
    errors: Float[Tensor, " joins"]


class RecursiveAutoencoder(TextModel):
    """Recursive autoencoder with a class head.

    classify_at             "root": classify the root vector; "nodes": classify every node, so that each
                            word and phrase is trained towards the class of its text
    normalise               whether word and phrase vectors have length 1
    weighted_by_words       whether reconstruction errors are weighted by the words below each child
    reconstruction_weight   weight of the mean reconstruction error in the loss; 0: classification only
    dropout                 on the input of the class head; trees are chosen without dropout
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
        validate_positive(
            "RecursiveAutoencoder", vocabulary=vocabulary, classes=classes, model_dim=model_dim
        )
        validate_dropout("RecursiveAutoencoder", dropout)
        validate_loss_weights(reconstruction_weight=reconstruction_weight)
        self.reconstruction_weight = reconstruction_weight
        self.classify_at = classify_at
        self._classify_at = lookup("choice of classify_at", classify_at, CLASSIFY_AT)
        self.embedding = TokenEmbedding(vocabulary=vocabulary, model_dim=model_dim, scaled=False)
        # Norm about 1, as with `normalise`.
        nn.init.normal_(self.embedding.table.weight, std=model_dim**-0.5)
        self.pair = PairAutoencoder(
            model_dim=model_dim, normalise=normalise, weighted_by_words=weighted_by_words
        )
        self.dropout = Dropout(dropout)
        self.class_head = nn.Linear(model_dim, classes)

    def classify(
        self,
        tokens: Int[Tensor, "batch length"],
        lengths: Int[Tensor, " batch"],
        segments: Int[Tensor, "batch length"] | None = None,
    ) -> ClassifierOutput:
        """Class scores of each row and its weighted reconstruction error; `segments` are ignored."""
        trees = self.trees(tokens, lengths)
        output = self._classify_at(self.class_logits, trees.vectors, trees.batch, lengths)
        merges = (lengths - 1).clamp(min=1)
        summed = trees.errors.new_zeros(len(lengths)).index_add(0, trees.batch.texts, trees.errors)
        return ClassifierOutput(
            output.logits, output.penalty + self.reconstruction_weight * (summed / merges)
        )

    def trees(self, tokens: Int[Tensor, "batch length"], lengths: Int[Tensor, " batch"]) -> Trees:
        """The greedy tree of each row, its node vectors and merge errors."""
        validate_lengths(tokens, lengths)
        is_token = torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None]
        leaves = self.embedding(tokens[is_token][None])[0]
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
        logits: Tensor = self.class_head(self.dropout(vectors))
        return logits

    def cost(
        self, *, batch_size: int, length: int, masked_tokens: int | None = None, sentences: int = 1
    ) -> Cost:
        """Cost of `classify`, tree search included; `masked_tokens` and `sentences` are ignored."""
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


class TextTree(NamedTuple):
    """The nodes of one text, words first, then merges in order; merges number nodes within the text."""

    nodes: list[int]
    merges: tuple[tuple[int, int], ...]
    errors: tuple[float, ...]


@torch.no_grad()
def tree_records(
    model: RecursiveAutoencoder,
    tokens: Int[Tensor, "batch length"],
    lengths: Int[Tensor, " batch"],
    *,
    words: Sequence[Sequence[str]],
    classes: Sequence[str],
) -> list[TreeRecord]:
    """One record per row; `words` are the token strings of each row, `classes` the class names."""
    validate_words(words, lengths)
    if len(classes) != model.class_head.out_features:
        raise RegardError(
            f"There are {len(classes)} class names for the {model.class_head.out_features} classes of the "
            "model. Pass one per class."
        )
    trees = model.trees(tokens, lengths)
    confidence, predicted = model.class_logits(trees.vectors).softmax(dim=1).max(dim=1)
    confidences, names = confidence.tolist(), [classes[index] for index in predicted.tolist()]
    records = []
    for leaves, (nodes, merges, errors) in zip(words, text_trees(trees, lengths), strict=True):
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
        validate_positive("nearest", count=count)
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
    tokens: Int[Tensor, "batch length"],
    lengths: Int[Tensor, " batch"],
    *,
    words: Sequence[Sequence[str]],
) -> Phrases:
    """Every phrase (tree node) of these rows, single words included.

    The same words may have another tree, and so another vector, in another text: the first one counts.
    `words` are the token strings of each row.
    """
    validate_words(words, lengths)
    if not words:
        raise RegardError("There are no texts to collect phrases from. Pass at least one row.")
    trees = model.trees(tokens, lengths)
    first_nodes: dict[str, int] = {}
    for leaves, (nodes, merges, _) in zip(words, text_trees(trees, lengths), strict=True):
        texts = list(leaves)
        for left, right in merges:
            texts.append(f"{texts[left]} {texts[right]}")
        for node, text in zip(nodes, texts, strict=True):
            first_nodes.setdefault(text, node)
    vectors = trees.vectors[torch.tensor(list(first_nodes.values()), device=tokens.device)]
    return Phrases(tuple(first_nodes), unit_vectors(vectors))
