"""The recursive autoencoder: sizes, parity with one node at a time, padding, norms, classes, refusals."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from benchmarks.node_by_node import classified, classified_text, tree
from torch import Tensor

from regard.core.batches import PAD
from regard.core.errors import RegardError
from regard.core.protocols import Classified, TextClassifier
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
        "vocabulary": VOCABULARY,
        "classes": CLASSES,
        "model_dim": MODEL_DIM,
    }
    return RecursiveAutoencoder(**(sizes | options)).double()


def padded(lengths: Tensor = LENGTHS) -> Tensor:
    torch.manual_seed(1)
    tokens = torch.randint(3, VOCABULARY, (len(lengths), int(lengths.max())))
    return tokens.masked_fill(torch.arange(tokens.shape[1]) >= lengths[:, None], PAD)


def loss_of(said: Classified, labels: Tensor) -> Tensor:
    return F.cross_entropy(said.logits, labels, reduction="sum") + said.penalty.sum()


@pytest.mark.parametrize(("width", "classes"), [(7, 3), (50, 2), (100, 5)])
def test_the_number_of_parameters(width: int, classes: int) -> None:
    """4·D·D + D + 2·D + C·D + C, beside the table of words."""
    model = RecursiveAutoencoder(vocabulary=11, classes=classes, model_dim=width)
    count = sum(parameter.numel() for parameter in model.parameters()) - 11 * width
    assert count == 4 * width * width + width + 2 * width + classes * width + classes


@pytest.mark.parametrize("case", CASES)
def test_losses_and_gradients_of_one_node_at_a_time(case: str) -> None:
    model = autoencoder(**CASES[case])
    require_parity(model, padded(), LENGTHS)


def require_parity(model: RecursiveAutoencoder, tokens: Tensor, lengths: Tensor) -> None:
    labels = torch.arange(len(lengths)) % model.class_head.out_features
    batched, single = model.classified(tokens, lengths), classified(model, tokens, lengths)
    torch.testing.assert_close(batched.logits, single.logits, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(batched.penalty, single.penalty, rtol=1e-10, atol=1e-10)
    parameters = dict(model.named_parameters())
    found = [
        torch.autograd.grad(loss_of(said, labels), list(parameters.values()))
        for said in (batched, single)
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
    for place, row in enumerate(rows):
        tokens[place, : len(row)] = torch.tensor(row)
    model = autoencoder(vocabulary=4 + len(numbers), model_dim=20, **CASES[case])
    require_parity(model, tokens, lengths)


@pytest.mark.parametrize("case", CASES)
def test_padding_counts_for_nothing(case: str) -> None:
    model = autoencoder(**CASES[case])
    tokens = padded()
    with torch.no_grad():
        together = model.classified(tokens, LENGTHS)
        more = F.pad(tokens, (0, 9), value=5).where(
            torch.arange(tokens.shape[1] + 9) < LENGTHS[:, None], 7
        )
        other = model.classified(more, LENGTHS)
        torch.testing.assert_close(together, other, rtol=0, atol=1e-12)
        for row, length in enumerate(LENGTHS.tolist()):
            alone = model.classified(tokens[row : row + 1, :length], LENGTHS[row : row + 1])
            torch.testing.assert_close(together.logits[row], alone.logits[0])
            torch.testing.assert_close(together.penalty[row], alone.penalty[0])


def test_the_order_of_rows_counts_for_nothing() -> None:
    model = autoencoder(classify_at="nodes")
    tokens, order = padded(), torch.tensor([3, 0, 5, 4, 1, 2])
    with torch.no_grad():
        said, turned = (
            model.classified(tokens[rows], LENGTHS[rows]) for rows in (torch.arange(6), order)
        )
    torch.testing.assert_close(said.logits[order], turned.logits)
    torch.testing.assert_close(said.penalty[order], turned.penalty)


def test_every_vector_has_length_one() -> None:
    trees = autoencoder().trees(padded(), LENGTHS)
    assert len(trees.vectors) == 2 * int(LENGTHS.sum()) - len(LENGTHS)
    torch.testing.assert_close(trees.vectors.norm(dim=1), torch.ones_like(trees.vectors[:, 0]))


@pytest.mark.parametrize("normalise", [True, False])
def test_without_the_norm_vectors_shrink(normalise: bool) -> None:
    """Reconstruction alone is learned: what is short is easily told, unless it may not be short."""
    model = autoencoder(normalise=normalise, reconstruction_weight=1.0)
    lengths = torch.tensor([6, 4, 5, 2])
    tokens = padded(lengths)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.03)

    def mean_length() -> float:
        return float(model.trees(tokens, lengths).vectors.detach().norm(dim=1).mean())

    before, losses = mean_length(), []
    for _ in range(60):
        optimiser.zero_grad()
        loss = model.classified(tokens, lengths).penalty.sum()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]  # ten seeds: 0.0005 to 0.0054 of it; untrained: 1
    if normalise:
        assert mean_length() == pytest.approx(1.0)
    else:
        assert mean_length() < 0.7 * before  # ten seeds: 0.21 to 0.45 of it; untrained: 1


def test_the_penalty_is_the_mean_error_of_the_joins() -> None:
    model = autoencoder(reconstruction_weight=3.0)
    said, trees = model.classified(padded(), LENGTHS), model.trees(padded(), LENGTHS)
    for row, penalty in enumerate(said.penalty.tolist()):
        errors = trees.errors[trees.batch.texts == row]
        assert len(errors) == LENGTHS[row] - 1
        assert penalty == pytest.approx(3 * errors.mean().item() if len(errors) else 0.0)
    assert autoencoder(reconstruction_weight=0.0).classified(padded(), LENGTHS).penalty.sum() == 0


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_at_nodes_the_loss_is_the_mean_cross_entropy_of_all_nodes(smoothing: float) -> None:
    model = autoencoder(classify_at="nodes", reconstruction_weight=0.0)
    tokens, labels = padded(), torch.tensor([0, 1, 2, 0, 1, 2])
    said = model.classified(tokens, LENGTHS)
    assert (said.penalty >= 0).all()
    vectors = model.embedding(tokens)
    for row, (length, label) in enumerate(zip(LENGTHS.tolist(), labels, strict=True)):
        nodes = tree(model, vectors[row, :length]).below()
        assert len(nodes) == 2 * length - 1
        expected = torch.stack(
            [
                F.cross_entropy(model.class_head(node.vector), label, label_smoothing=smoothing)
                for node in nodes
            ]
        ).mean()
        found = F.cross_entropy(said.logits[row], label, label_smoothing=smoothing)
        torch.testing.assert_close(found + said.penalty[row], expected)


def test_a_word_alone_is_its_own_root() -> None:
    model = autoencoder()
    said = model.classified(torch.tensor([[5]]), torch.tensor([1]))
    vector = F.normalize(model.embedding.table.weight[5], dim=0)
    torch.testing.assert_close(said.logits[0], model.class_head(vector))
    assert said.penalty.tolist() == [0.0]


def test_it_meets_the_contract() -> None:
    model = autoencoder()
    assert isinstance(model, TextClassifier)
    tokens = padded()
    assert model.reading(tokens, LENGTHS) is None
    segments = torch.ones_like(tokens)
    assert torch.equal(model(tokens, LENGTHS, segments), model.classified(tokens, LENGTHS).logits)
    assert model.classified(tokens[:0], LENGTHS[:0]).logits.shape == (0, CLASSES)


def test_it_learns() -> None:
    """The class is whether the first word is below the middle of the vocabulary."""
    model = autoencoder(vocabulary=13, classes=2, model_dim=16)
    torch.manual_seed(3)
    tokens, lengths = torch.randint(3, 13, (60, 4)), torch.full((60,), 4)
    labels = (tokens[:, 0] < 8).long()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(60):
        optimiser.zero_grad()
        loss_of(model.classified(tokens, lengths), labels).backward()
        optimiser.step()
    said = model.classified(tokens, lengths).logits.argmax(dim=1)
    assert (said == labels).double().mean() > 0.9  # ten seeds: 1.0; untrained: 0.38 to 0.58


def test_dropout_in_training_alone_and_never_in_trees() -> None:
    model = autoencoder(dropout=0.5).train()
    tokens = padded()
    assert not torch.equal(model(tokens, LENGTHS), model(tokens, LENGTHS))
    first, again = (model.classified(tokens, LENGTHS).penalty for _ in range(2))
    assert torch.equal(first, again)
    model.eval()
    assert torch.equal(model(tokens, LENGTHS), model(tokens, LENGTHS))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"vocabulary": 0}, "RecursiveAutoencoder has vocabulary=0; it must be a whole number"),
        ({"classes": 0}, "classes=0"),
        ({"model_dim": 0}, "model_dim=0"),
        ({"dropout": 1.0}, "dropout=1.0"),
        ({"classify_at": "node"}, "Unknown choice of classify_at 'node'. Did you mean 'nodes'"),
        (
            {"reconstruction_weight": -1.0},
            "model.reconstruction_weight=-1.0: it must be a number, 0",
        ),
        ({"reconstruction_weight": float("nan")}, "reconstruction_weight=nan"),
        ({"reconstruction_weight": float("inf")}, "reconstruction_weight=inf.*and not infinite"),
    ],
    ids=str,
)
def test_what_cannot_be_built(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RegardError, match=message):
        autoencoder(**options)


def test_what_cannot_be_read() -> None:
    model, tokens = autoencoder(), padded()
    with pytest.raises(RegardError, match=r"to 29.*embedding of 29"):
        model.classified(tokens.index_fill(1, torch.tensor([0]), 29), LENGTHS)
    with pytest.raises(RegardError, match="lengths go from 0 to 17"):
        model.classified(tokens, LENGTHS.clone().index_fill(0, torch.tensor([1]), 0))


def test_one_node_at_a_time_is_what_it_says() -> None:
    """The reference itself, by pencil: two words, one join."""
    model = autoencoder(reconstruction_weight=1.0)
    words = model.embedding.table.weight[[4, 9]]
    root = tree(model, words)
    assert (root.brackets(), root.words) == ("(..)", 2)
    children = F.normalize(words, dim=1).flatten()
    parent = F.normalize(torch.tanh(model.pair.encoder(children)), dim=0)
    logits, penalty = classified_text(model, root)
    torch.testing.assert_close(logits, model.class_head(parent))
    missed = children - model.pair.decoder(parent)
    torch.testing.assert_close(penalty, missed.square().sum() / 2)
