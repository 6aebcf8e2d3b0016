"""The trees that a recursive autoencoder builds over texts, as records: one a text, what each node says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from regard.core.errors import RegardError
from regard.core.tree_record import TreeRecord
from regard.models.recursive_autoencoder import RecursiveAutoencoder, Trees


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
