"""Recursive autoencoder: parity with the node-by-node reference, padding, norms, classes, errors."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from benchmarks.recursive_reference import classify, classify_text, tree
from torch import Tensor

from regard.core.batches import PAD, TokenInput
from regard.core.errors import RegardError
from regard.core.protocols import ClassifierOutput, TextClassifier
from regard.models.autoencoders.recursive import RecursiveAutoencoder

VOCABULARY, CLASSES, MODEL_DIM = 29, 3, 7
LENGTHS = torch.tensor([11, 1, 6, 2, 17, 6])
CASES: dict[str, dict[str, Any]] = {
    "root": {},
    "nodes": {"classify_at": "nodes"},
    "weighted": {"weighted_by_words": True, "reconstruction_weight": 2.0},
    "not normalised": {"normalise": False},
    "all": {"classify_at": "nodes", "weighted_by_words": True, "normalise": False},
}


def autoencoder(**options: Any) -> RecursiveAutoencoder:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        "source": VOCABULARY,
        "outputs": CLASSES,
        "model_dim": MODEL_DIM,
    }
    return RecursiveAutoencoder(**(sizes | options)).double()


def padded(lengths: Tensor = LENGTHS) -> Tensor:
    torch.manual_seed(1)
    tokens = torch.randint(3, VOCABULARY, (len(lengths), int(lengths.max())))
    return tokens.masked_fill(torch.arange(tokens.shape[1]) >= lengths[:, None], PAD)


def loss_of(output: ClassifierOutput, labels: Tensor) -> Tensor:
    return F.cross_entropy(output.logits, labels, reduction="sum") + output.penalty.sum()


@pytest.mark.parametrize(("width", "classes"), [(7, 3), (50, 2), (100, 5)])
def test_parameter_count(width: int, classes: int) -> None:
    """4·D·D + D + 2·D + C·D + C, beside the word embedding."""
    model = RecursiveAutoencoder(source=11, outputs=classes, model_dim=width)
    count = sum(parameter.numel() for parameter in model.parameters()) - 11 * width
    assert count == 4 * width * width + width + 2 * width + classes * width + classes


@pytest.mark.parametrize("case", CASES)
def test_losses_and_gradients_equal_the_reference(case: str) -> None:
    model = autoencoder(**CASES[case])
    assert_parity(model, padded(), LENGTHS)


def assert_parity(model: RecursiveAutoencoder, tokens: Tensor, lengths: Tensor) -> None:
    batched, single = (
        model.classify(TokenInput(tokens, lengths)),
        classify(model, TokenInput(tokens, lengths)),
    )
    labels = torch.arange(len(lengths)) % batched.logits.shape[1]
    torch.testing.assert_close(batched.logits, single.logits, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(batched.penalty, single.penalty, rtol=1e-10, atol=1e-10)
    parameters = dict(model.named_parameters())
    found = [
        torch.autograd.grad(loss_of(output, labels), list(parameters.values()))
        for output in (batched, single)
    ]
    for name, ours, theirs in zip(parameters, *found, strict=True):
        assert ours.abs().max() > 0, name
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10, msg=name)


@pytest.mark.data
@pytest.mark.parametrize("case", ["root", "all"])
def test_parity_on_real_sentences(data_folder: Path, case: str) -> None:
    path = data_folder / "sentences" / "stsa.binary.train.gz"
    with gzip.open(path, "rt", encoding="utf-8", errors="replace") as lines:
        texts = [next(lines).split()[1:] for _ in range(40)]
    numbers: dict[str, int] = {}
    rows = [[numbers.setdefault(word, 4 + len(numbers)) for word in text] for text in texts]
    lengths = torch.tensor([len(row) for row in rows])
    tokens = torch.zeros(len(rows), int(lengths.max()), dtype=torch.long)
    for index, row in enumerate(rows):
        tokens[index, : len(row)] = torch.tensor(row)
    model = autoencoder(source=4 + len(numbers), model_dim=20, **CASES[case])
    assert_parity(model, tokens, lengths)


@pytest.mark.parametrize("case", CASES)
def test_padding_does_not_change_a_row(case: str) -> None:
    model = autoencoder(**CASES[case])
    tokens = padded()
    with torch.no_grad():
        together = model.classify(TokenInput(tokens, LENGTHS))
        more = F.pad(tokens, (0, 9), value=5).where(
            torch.arange(tokens.shape[1] + 9) < LENGTHS[:, None], 7
        )
        other = model.classify(TokenInput(more, LENGTHS))
        torch.testing.assert_close(together, other, rtol=0, atol=1e-12)
        for row, length in enumerate(LENGTHS.tolist()):
            alone = model.classify(
                TokenInput(tokens[row : row + 1, :length], LENGTHS[row : row + 1])
            )
            torch.testing.assert_close(together.logits[row], alone.logits[0])
            torch.testing.assert_close(together.penalty[row], alone.penalty[0])


def test_order_of_rows_does_not_matter() -> None:
    model = autoencoder(classify_at="nodes")
    tokens, order = padded(), torch.tensor([3, 0, 5, 4, 1, 2])
    with torch.no_grad():
        output, permuted = (
            model.classify(TokenInput(tokens[rows], LENGTHS[rows]))
            for rows in (torch.arange(6), order)
        )
    torch.testing.assert_close(output.logits[order], permuted.logits)
    torch.testing.assert_close(output.penalty[order], permuted.penalty)


def test_vectors_are_normalised() -> None:
    trees = autoencoder().trees(TokenInput(padded(), LENGTHS))
    assert len(trees.vectors) == 2 * int(LENGTHS.sum()) - len(LENGTHS)
    torch.testing.assert_close(trees.vectors.norm(dim=1), torch.ones_like(trees.vectors[:, 0]))


@pytest.mark.parametrize("normalise", [True, False])
def test_without_normalisation_vectors_shrink(normalise: bool) -> None:
    """Trained on reconstruction alone, unnormalised vectors shrink: short ones have small errors."""
    model = autoencoder(normalise=normalise, reconstruction_weight=1.0)
    lengths = torch.tensor([6, 4, 5, 2])
    tokens = padded(lengths)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)

    def mean_length() -> float:
        return float(model.trees(TokenInput(tokens, lengths)).vectors.detach().norm(dim=1).mean())

    before, losses = mean_length(), []
    for _ in range(60):
        optimizer.zero_grad()
        loss = model.classify(TokenInput(tokens, lengths)).penalty.sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]  # ten seeds: 0.0005 to 0.0054 of it; untrained: 1
    if normalise:
        assert mean_length() == pytest.approx(1.0)
    else:
        assert mean_length() < 0.7 * before  # ten seeds: 0.21 to 0.45 of it; untrained: 1


def test_penalty_is_the_mean_error_of_the_merges() -> None:
    model = autoencoder(reconstruction_weight=3.0)
    output, trees = (
        model.classify(TokenInput(padded(), LENGTHS)),
        model.trees(TokenInput(padded(), LENGTHS)),
    )
    for row, penalty in enumerate(output.penalty.tolist()):
        errors = trees.errors[trees.batch.texts == row]
        assert len(errors) == LENGTHS[row] - 1
        assert penalty == pytest.approx(3 * errors.mean().item() if len(errors) else 0.0)
    assert (
        autoencoder(reconstruction_weight=0.0).classify(TokenInput(padded(), LENGTHS)).penalty.sum()
        == 0
    )


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_loss_at_nodes_is_the_mean_cross_entropy(smoothing: float) -> None:
    model = autoencoder(classify_at="nodes", reconstruction_weight=0.0)
    tokens, labels = padded(), torch.tensor([0, 1, 2, 0, 1, 2])
    output = model.classify(TokenInput(tokens, LENGTHS))
    assert (output.penalty >= 0).all()
    vectors = model.embedding.embed(tokens)
    for row, (length, label) in enumerate(zip(LENGTHS.tolist(), labels, strict=True)):
        nodes = tree(model, vectors[row, :length]).below()
        assert len(nodes) == 2 * length - 1
        expected = torch.stack(
            [
                F.cross_entropy(model.head(node.vector), label, label_smoothing=smoothing)
                for node in nodes
            ]
        ).mean()
        found = F.cross_entropy(output.logits[row], label, label_smoothing=smoothing)
        torch.testing.assert_close(found + output.penalty[row], expected)


def test_single_word_is_its_own_root() -> None:
    model = autoencoder()
    output = model.classify(TokenInput(torch.tensor([[5]]), torch.tensor([1])))
    vector = F.normalize(model.embedding.table.weight[5], dim=0)
    torch.testing.assert_close(output.logits[0], model.head(vector))
    assert output.penalty.tolist() == [0.0]


def test_is_a_text_classifier() -> None:
    model = autoencoder()
    assert isinstance(model, TextClassifier)
    tokens = padded()
    texts = TokenInput(tokens, LENGTHS)
    assert model.text_attention(texts) is None
    segments = torch.ones_like(tokens)
    assert torch.equal(
        model(TokenInput(tokens, LENGTHS, segments)),
        model.classify(TokenInput(tokens, LENGTHS)).logits,
    )
    assert model.classify(TokenInput(tokens[:0], LENGTHS[:0])).logits.shape == (0, CLASSES)


def test_training() -> None:
    """Class: whether the id of the first word is below 8."""
    model = autoencoder(source=13, outputs=2, model_dim=16)
    torch.manual_seed(3)
    tokens, lengths = torch.randint(3, 13, (60, 4)), torch.full((60,), 4)
    labels = (tokens[:, 0] < 8).long()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(60):
        optimizer.zero_grad()
        loss_of(model.classify(TokenInput(tokens, lengths)), labels).backward()
        optimizer.step()
    output = model.classify(TokenInput(tokens, lengths)).logits.argmax(dim=1)
    assert (output == labels).double().mean() > 0.9  # ten seeds: 1.0; untrained: 0.38 to 0.58


def test_dropout_only_in_training_and_not_in_trees() -> None:
    model = autoencoder(dropout=0.5).train()
    texts = TokenInput(padded(), LENGTHS)
    assert not torch.equal(model(texts), model(texts))
    first, again = (model.classify(texts).penalty for _ in range(2))
    assert torch.equal(first, again)
    model.eval()
    assert torch.equal(model(texts), model(texts))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"source": 0}, "source=0"),
        ({"outputs": 0}, "outputs=0"),
        ({"model_dim": 0}, "model_dim=0"),
        ({"dropout": 1.0}, "dropout=1.0"),
        ({"classify_at": "node"}, "classify_at=node: "),
        (
            {"reconstruction_weight": -1.0},
            "reconstruction_weight=-1.0:",
        ),
        ({"reconstruction_weight": float("nan")}, "reconstruction_weight=nan"),
        ({"reconstruction_weight": float("inf")}, "reconstruction_weight=inf"),
    ],
    ids=str,
)
def test_invalid_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RegardError, match=message):
        autoencoder(**options)


def test_invalid_inputs() -> None:
    model, tokens = autoencoder(), padded()
    with pytest.raises(RegardError, match=r"to 29.*has 29 rows"):
        model.classify(TokenInput(tokens.index_fill(1, torch.tensor([0]), 29), LENGTHS))


def test_reference() -> None:
    """The reference itself: two words, one merge."""
    model = autoencoder(reconstruction_weight=1.0)
    words = model.embedding.table.weight[[4, 9]]
    root = tree(model, words)
    assert (root.brackets(), root.words) == ("(..)", 2)
    children = F.normalize(words, dim=1).flatten()
    parent = F.normalize(torch.tanh(model.pair.encoder(children)), dim=0)
    logits, penalty = classify_text(model, root)
    torch.testing.assert_close(logits, model.head(parent))
    error = children - model.pair.decoder(parent)
    torch.testing.assert_close(penalty, error.square().sum() / 2)
