"""Weights go into a file and come back, tied ones once."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from torch import nn

from regard.core.errors import RegardError
from regard.training.checkpoint import load_weights, weights_step, write_weights


class Tied(nn.Module):
    """The output has the embedding's matrix."""

    def __init__(self, *, width: int = 3, bias: bool = True) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, width)
        self.output = nn.Linear(width, 5, bias=bias)
        self.output.weight = self.embedding.weight
        self.register_buffer("count", torch.tensor(4))


def test_tied_weights_are_written_once_and_come_back(tmp_path: Path) -> None:
    path, model, other = tmp_path / "model.safetensors", Tied(), Tied()
    write_weights(path, model, replaced=None, step=12)
    with safe_open(path, framework="pt") as file:
        assert sorted(file.keys()) == ["count", "embedding.weight", "output.bias"]
    load_weights(other, path)
    assert torch.equal(other.output.weight, model.embedding.weight)
    assert other.output.weight is other.embedding.weight
    assert weights_step(path) == 12


def test_averages_take_the_place_of_weights(tmp_path: Path) -> None:
    path, model, other = tmp_path / "model.safetensors", Tied(), Tied()
    write_weights(path, model, replaced={"output.bias": torch.arange(5.0)}, step=1)
    load_weights(other, path)
    assert other.output.bias.tolist() == [0, 1, 2, 3, 4]
    assert model.output.bias.tolist() != [0, 1, 2, 3, 4]


def test_another_model_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    write_weights(path, Tied(), replaced=None, step=1)
    wider = Tied(width=4)
    before = wider.embedding.weight.detach().clone()
    with pytest.raises(RegardError, match=r"'embedding.weight' has shape \(5, 3\) in the file and"):
        load_weights(wider, path)
    assert torch.equal(wider.embedding.weight, before)
    message = r"does not fit the model: the file has, and the model has not, 'output.bias'\. Build"
    with pytest.raises(RegardError, match=message):
        load_weights(Tied(bias=False), path)
    write_weights(path, Tied(bias=False), replaced=None, step=1)
    with pytest.raises(RegardError, match=r"the file lacks 'output.bias'\."):
        load_weights(Tied(), path)


def test_no_file_has_no_step(tmp_path: Path) -> None:
    (tmp_path / "broken").write_bytes(b"12345678")
    assert weights_step(tmp_path / "nothing") is None
    assert weights_step(tmp_path / "broken") is None
