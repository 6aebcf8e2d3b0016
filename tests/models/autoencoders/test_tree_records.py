"""Trees as records: those of one node at a time, row by row, with what each node says."""

from __future__ import annotations

import pytest
import torch
from benchmarks.node_by_node import Node, tree

from regard.core.errors import RegardError
from regard.core.records.attention import TreeRecord
from regard.models.autoencoders.recursive import RecursiveAutoencoder, tree_records

WORDS = [
    ["a", "very", "good", "film", "indeed"],
    ["no"],
    ["the", "film", "is", "no", "good", "film", "."],
]
NUMBERS = {
    word: 4 + place for place, word in enumerate(sorted({word for row in WORDS for word in row}))
}
LENGTHS = torch.tensor([len(row) for row in WORDS])
TOKENS = torch.nn.utils.rnn.pad_sequence(
    [torch.tensor([NUMBERS[word] for word in row]) for row in WORDS], batch_first=True
)
CLASSES = ("bad", "good", "neither")


def model() -> RecursiveAutoencoder:
    torch.manual_seed(0)
    made = RecursiveAutoencoder(vocabulary=20, classes=3, model_dim=8).double()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.mul_(2.0)
    return made


def nested(record: TreeRecord) -> str:
    shapes = ["."] * len(record.leaves)
    for left, right in record.joins:
        shapes.append(f"({shapes[left]}{shapes[right]})")
    return shapes[-1]


def test_records_are_the_trees_of_one_node_at_a_time() -> None:
    made = model()
    records = tree_records(made, TOKENS, LENGTHS, words=WORDS, classes=CLASSES)
    for row, record in enumerate(records):
        assert list(record.leaves) == WORDS[row]
        with torch.no_grad():
            root = tree(made, made.embedding(TOKENS)[row, : LENGTHS[row]])
            assert nested(record) == root.brackets()
            for place, node in enumerate(in_order(root, record)):
                said = made.class_head(node.vector).softmax(dim=0)
                assert record.said[place] == CLASSES[int(said.argmax())]
                assert record.sure[place] == pytest.approx(float(said.max()))
                if node.error is not None:
                    error = record.errors[place - len(record.leaves)]
                    assert error == pytest.approx(float(node.error))


def in_order(root: Node, record: TreeRecord) -> list[Node]:
    """The nodes of a tree in the order of a record with the same shape."""
    by_span: dict[tuple[int, int], Node] = {}

    def place(node: Node, start: int) -> None:
        by_span[start, start + node.words] = node
        if node.children is not None:
            left, right = node.children
            place(left, start)
            place(right, start + left.words)

    place(root, 0)
    return [by_span[span] for span in record.spans]


def test_names_must_fit() -> None:
    with pytest.raises(RegardError, match=r"2 names for the 3 classes.*Give one a class"):
        tree_records(model(), TOKENS, LENGTHS, words=WORDS, classes=CLASSES[:2])
    with pytest.raises(RegardError, match=r"\[5, 1\] words for \[5, 1, 7\] tokens"):
        tree_records(model(), TOKENS, LENGTHS, words=WORDS[:2], classes=CLASSES)
