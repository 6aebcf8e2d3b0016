"""Tree records against the node-by-node reference: shapes, errors, predictions."""

from __future__ import annotations

import pytest
import torch
from benchmarks.recursive_reference import Node, tree

from regard.core.batches import TokenInput
from regard.core.errors import RegardError
from regard.core.records.attention import TreeRecord
from regard.models.autoencoders.recursive import RecursiveAutoencoder, tree_records

WORDS = [
    ["a", "very", "good", "film", "indeed"],
    ["no"],
    ["the", "film", "is", "no", "good", "film", "."],
]
NUMBERS = {
    word: 4 + index for index, word in enumerate(sorted({word for row in WORDS for word in row}))
}
LENGTHS = torch.tensor([len(row) for row in WORDS])
TOKENS = torch.nn.utils.rnn.pad_sequence(
    [torch.tensor([NUMBERS[word] for word in row]) for row in WORDS], batch_first=True
)
CLASSES = ("bad", "good", "neither")


def model() -> RecursiveAutoencoder:
    torch.manual_seed(0)
    net = RecursiveAutoencoder(source=20, outputs=3, model_dim=8).double()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.mul_(2.0)
    return net


def nested(record: TreeRecord) -> str:
    shapes = ["."] * len(record.leaves)
    for left, right in record.merges:
        shapes.append(f"({shapes[left]}{shapes[right]})")
    return shapes[-1]


def test_records_equal_the_reference() -> None:
    net = model()
    records = tree_records(net, TokenInput(TOKENS, LENGTHS), words=WORDS, classes=CLASSES)
    for row, record in enumerate(records):
        assert list(record.leaves) == WORDS[row]
        with torch.no_grad():
            root = tree(net, net.embedding.embed(TOKENS)[row, : LENGTHS[row]])
            assert nested(record) == root.brackets()
            for index, node in enumerate(in_order(root, record)):
                probabilities = net.head(node.vector).softmax(dim=0)
                assert record.predictions[index] == CLASSES[int(probabilities.argmax())]
                assert record.confidences[index] == pytest.approx(float(probabilities.max()))
                if node.error is not None:
                    error = record.errors[index - len(record.leaves)]
                    assert error == pytest.approx(float(node.error))


def spans(record: TreeRecord) -> list[tuple[int, int]]:
    """Half-open range of leaves below each node."""
    found = [(index, index + 1) for index in range(len(record.leaves))]
    for left, right in record.merges:
        found.append((found[left][0], found[right][1]))
    return found


def in_order(root: Node, record: TreeRecord) -> list[Node]:
    """The nodes of a tree in the order of a record with the same shape."""
    by_span: dict[tuple[int, int], Node] = {}

    def visit(node: Node, start: int) -> None:
        by_span[start, start + node.words] = node
        if node.children is not None:
            left, right = node.children
            visit(left, start)
            visit(right, start + left.words)

    visit(root, 0)
    return [by_span[span] for span in spans(record)]


def test_wrong_number_of_names() -> None:
    with pytest.raises(RegardError, match=r"2 class names for the 3 classes"):
        tree_records(model(), TokenInput(TOKENS, LENGTHS), words=WORDS, classes=CLASSES[:2])
    with pytest.raises(RegardError, match=r"\[5, 1\] words for \[5, 1, 7\] tokens"):
        tree_records(model(), TokenInput(TOKENS, LENGTHS), words=WORDS[:2], classes=CLASSES)
