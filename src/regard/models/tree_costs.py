"""What a recursive autoencoder takes for texts of one length.

A text of n words has n − 1 joins. To choose them, n − 1 pairs of words are scored first, then two pairs
after every join but the last: about 3n, of which n − 1 are computed once more for gradients. Which trees
are chosen makes no difference to what is counted.
"""

from __future__ import annotations

from dataclasses import dataclass

from regard.core.cost import Cost, linear_cost
from regard.core.counter import SOFTMAX_ARITHMETIC
from regard.layers.size_rules import require_positive


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
