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

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.core.cost import Cost, linear_cost
from regard.core.counter import SOFTMAX_ARITHMETIC
from regard.core.errors import RegardError
from regard.core.protocols import Classified
from regard.core.records.attention import TreeRecord
from regard.core.registry import look_up
from regard.layers.dropout import Dropout
from regard.layers.validation import require_dropout, require_positive
from regard.models.autoencoders.trees import (
    CLASSIFIED_AT,
    PairAutoencoder,
    TreeBatch,
    greedy_trees,
    tree_vectors,
    unit,
)
from regard.models.classifiers.baselines import TextModel
from regard.models.embeddings import TokenEmbedding
from regard.models.validation import require_lengths, require_weights

# What a recursive autoencoder takes for texts of one length.
#
# A text of n words has n − 1 joins. To choose them, n − 1 pairs of words are scored first, then two
# pairs after every join but the last: about 3n, of which n − 1 are computed once more for
# gradients. Which trees are chosen makes no difference to what is counted.


@dataclass(frozen=True, kw_only=True)
class TreeSizes:
    """So many texts of so many words each, and the parts that are computed for them."""

    batch_size: int
    length: int
    model_dim: int
    classes: int
    at_nodes: bool
    normalise: bool
    weighted_by_words: bool

    def __post_init__(self) -> None:
        require_positive("TreeSizes", batch_size=self.batch_size, length=self.length)

    @property
    def words(self) -> int:
        """Of all texts."""
        return self.batch_size * self.length

    @property
    def joins(self) -> int:
        """Of all trees."""
        return self.words - self.batch_size

    @property
    def joins_scored_around(self) -> int:
        """Those with neighbours left: all but the last of each tree."""
        return self.batch_size * max(0, self.length - 2)

    @property
    def scored_pairs(self) -> int:
        """Pairs whose error was asked for."""
        return self.joins + 2 * self.joins_scored_around


def tree_cost(sizes: TreeSizes) -> Cost:
    """Everything from the vectors of words to the scores of the classes."""
    return _choosing(sizes) + _computing(sizes) + _classifying(sizes)


def _choosing(sizes: TreeSizes) -> Cost:
    """Greedy trees; what they take is not taken again on the way back."""
    width, pairs = sizes.model_dim, sizes.scored_pairs
    # A word alone has nothing to be joined with.
    split = sizes.words + sizes.joins_scored_around if sizes.joins else 0
    halves = linear_cost(rows=split, in_features=width, out_features=2 * width)
    # The sums of halves, then the parents' lengths.
    arithmetic = pairs * width + _unit_arithmetic(sizes, rows=pairs)
    # The smallest error of each row and the first that equals it.
    looking = sizes.joins * (3 * (sizes.length + 1) + 2)
    functions = pairs * (width + sizes.normalise)
    scored = _decoding(sizes, rows=pairs)
    return Cost(
        products=halves.products + scored.products,
        functions=functions + scored.functions,
        arithmetic=halves.arithmetic + arithmetic + looking + scored.arithmetic,
        memory=sizes.words * width * NUMBERS_HELD,
        sequential_steps=sizes.length - 1,
        # A tree may be as deep as it has joins.
        longest_path=max(1, sizes.length - 1),
    )


def _computing(sizes: TreeSizes) -> Cost:
    """The chosen trees once more, and their errors."""
    width, joins = sizes.model_dim, sizes.joins
    encoder = linear_cost(rows=joins, in_features=2 * width, out_features=width)
    decoder = linear_cost(rows=joins, in_features=width, out_features=2 * width)
    errors = _decoding(sizes, rows=joins)
    # The slope of tanh, and the same over the length.
    slopes = joins * width * (2 + sizes.normalise)
    words = sizes.words if sizes.normalise else 0
    return Cost(
        products=encoder.products + errors.products,
        functions=joins * (width + sizes.normalise) + words + errors.functions,
        arithmetic=encoder.arithmetic
        + slopes
        + _unit_arithmetic(sizes, rows=joins + sizes.words)
        + errors.arithmetic,
        backward_products=encoder.backward_products + decoder.backward_products,
        parameters=encoder.parameters + decoder.parameters,
    )


def _classifying(sizes: TreeSizes) -> Cost:
    """The scores, the mean error of a text, and where all nodes speak their mean."""
    nodes = sizes.words + sizes.joins if sizes.at_nodes else sizes.batch_size
    head = linear_cost(rows=nodes, in_features=sizes.model_dim, out_features=sizes.classes)
    said, texts = nodes * sizes.classes, sizes.batch_size
    means = Cost(functions=texts, arithmetic=sizes.joins + 4 * texts)
    if sizes.at_nodes:
        means += Cost(
            functions=said + texts * (sizes.classes + 1),
            arithmetic=(SOFTMAX_ARITHMETIC + 1) * said + texts * sizes.classes,
        )
    return head + means


def _decoding(sizes: TreeSizes, *, rows: int) -> Cost:
    """Children from parents, and how far they are from what they were."""
    width = sizes.model_dim
    decoder = linear_cost(rows=rows, in_features=width, out_features=2 * width)
    # Differences, squares and their sum; then a half, or a mean by words.
    arithmetic = decoder.arithmetic + rows * (6 * width + (6 if sizes.weighted_by_words else 1))
    functions = rows if sizes.weighted_by_words else 0
    return Cost(products=decoder.products, functions=functions, arithmetic=arithmetic)


def _unit_arithmetic(sizes: TreeSizes, *, rows: int) -> int:
    """Lengths, none of them nearly zero, and dividing by them."""
    return rows * (2 * sizes.model_dim + 1) if sizes.normalise else 0


# Of every word's width, at the peak: when all pairs of words are scored.
NUMBERS_HELD = 15


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


# The trees that a recursive autoencoder builds over texts, as records: one a text, what each node
# says.


class RowOfTrees(NamedTuple):
    """The nodes of one row in the batch, words first and joins as made; its joins in numbers of its own."""

    nodes: list[int]
    joins: tuple[tuple[int, int], ...]
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
    """A record a row; `words` has the text of each token of each row, `classes` the name of each class."""
    require_words(words, lengths)
    if len(classes) != model.class_head.out_features:
        raise RegardError(
            f"There are {len(classes)} names for the {model.class_head.out_features} classes of the "
            "model. Give one a class."
        )
    trees = model.trees(tokens, lengths)
    sure, said = model.class_logits(trees.vectors).softmax(dim=1).max(dim=1)
    shares, names = sure.tolist(), [classes[number] for number in said.tolist()]
    records = []
    for leaves, (nodes, joins, errors) in zip(words, rows_of(trees, lengths), strict=True):
        records.append(
            TreeRecord(
                leaves=tuple(leaves),
                joins=joins,
                errors=errors,
                said=tuple(names[node] for node in nodes),
                # Rounding may leave a share just above one.
                sure=tuple(min(1.0, shares[node]) for node in nodes),
                title=" ".join(leaves),
            )
        )
    return records


def rows_of(trees: Trees, lengths: Int[Tensor, " batch"]) -> list[RowOfTrees]:
    """The tree of each row, taken out of the batch."""
    batch, num_words = trees.batch, int(lengths.sum())
    # By text, then by round.
    order = (batch.texts * (1 + num_words) + batch.rounds).argsort()
    children, errors = batch.children[order].tolist(), trees.errors[order].tolist()
    joined = (num_words + order).tolist()
    rows = []
    first_word = first_join = 0
    for length in lengths.tolist():
        made = slice(first_join, first_join + length - 1)
        nodes = [*range(first_word, first_word + length), *joined[made]]
        number = {node: place for place, node in enumerate(nodes)}
        joins = tuple((number[left], number[right]) for left, right in children[made])
        rows.append(RowOfTrees(nodes, joins, tuple(errors[made])))
        first_word, first_join = first_word + length, made.stop
    return rows


def require_words(words: Sequence[Sequence[str]], lengths: Int[Tensor, " batch"]) -> None:
    """Refuse words that are not one for each token."""
    found = [len(row) for row in words]
    if found != lengths.tolist():
        raise RegardError(
            f"The rows have {found} words for {lengths.tolist()} tokens. Give the text of every token, "
            "padding left out."
        )


# Phrases that a recursive autoencoder holds for alike: those whose vectors point the same way.
#
# phrases = phrases_of(model, tokens, lengths, words=words) phrases.nearest("a good film", count=3)
# → [("a great film", 0.97), …]
#
# All nodes of all trees are phrases, single words included (such lists are in Socher et al. 2011,
# "Dynamic pooling and unfolding recursive autoencoders"). The same words may have another tree, and
# so another vector, in another text: the first that is met counts.


class Near(NamedTuple):
    """A phrase, and the cosine of the angle between its vector and the one asked about."""

    text: str
    cosine: float


class Phrases(NamedTuple):
    """Texts of phrases, each once, and the vector of each, of length 1."""

    texts: tuple[str, ...]
    vectors: Float[Tensor, "phrases model_dim"]

    def nearest(self, text: str, *, count: int = 5) -> list[Near]:
        """The phrases nearest to this one, itself left out, the nearest first."""
        require_positive("nearest", count=count)
        place = self._place(text)
        cosines = self.vectors @ self.vectors[place]
        cosines[place] = -torch.inf
        best = cosines.topk(min(count, len(self.texts) - 1))
        found = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        return [Near(self.texts[at], cosine) for at, cosine in found]

    def _place(self, text: str) -> int:
        if text in self.texts:
            return self.texts.index(text)
        close = difflib.get_close_matches(text, self.texts, n=3)
        hint = f" Ask for one that is: {', '.join(close)}." if close else ""
        raise RegardError(
            f"'{text}' is none of the {len(self.texts):,} phrases that were joined in these texts; "
            f"words that stand side by side need not be one.{hint}"
        )


@torch.no_grad()
def phrases_of(
    model: RecursiveAutoencoder,
    tokens: Int[Tensor, "batch length"],
    lengths: Int[Tensor, " batch"],
    *,
    words: Sequence[Sequence[str]],
) -> Phrases:
    """Every phrase of these rows, as first met; `words` has the text of each token of each row."""
    require_words(words, lengths)
    if not words:
        raise RegardError("There are no texts to take phrases from. Give at least one row.")
    trees = model.trees(tokens, lengths)
    met: dict[str, int] = {}
    for leaves, (nodes, joins, _) in zip(words, rows_of(trees, lengths), strict=True):
        texts = list(leaves)
        for left, right in joins:
            texts.append(f"{texts[left]} {texts[right]}")
        for node, text in zip(nodes, texts, strict=True):
            met.setdefault(text, node)
    vectors = trees.vectors[torch.tensor(list(met.values()), device=tokens.device)]
    return Phrases(tuple(met), unit(vectors))
