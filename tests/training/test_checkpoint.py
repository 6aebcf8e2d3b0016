"""A checkpoint comes back as it was, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from regard.core.errors import RegardError
from regard.training.checkpoint import Checkpoint, read_checkpoint, write_checkpoint


def example() -> Checkpoint:
    tensors = {
        "model.weight": torch.tensor([[1.0, float("nan")], [-0.0, 1e-40]]),
        "optimizer.weight.step": torch.tensor(3.0),
        "generator.cpu": torch.arange(5, dtype=torch.uint8),
        "empty": torch.empty(0, 3, dtype=torch.float64),
    }
    return Checkpoint(tensors, {"step": 7, "loss": 0.1 + 0.2, "best": {"größe": 1.0}})


def test_it_comes_back_bit_by_bit(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.safetensors"
    write_checkpoint(path, example())
    back = read_checkpoint(path)
    assert back.facts == example().facts
    assert back.tensors.keys() == example().tensors.keys()
    for name, tensor in example().tensors.items():
        assert back.tensors[name].numpy().tobytes() == tensor.numpy().tobytes()
        assert back.tensors[name].dtype == tensor.dtype
    assert back.part("optimizer.") == {"weight.step": torch.tensor(3.0)}


@pytest.mark.parametrize("kept", [0, 4, 9, 200, -1])
def test_one_that_was_cut_off_is_refused(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "checkpoint.safetensors"
    write_checkpoint(path, example())
    path.write_bytes(path.read_bytes()[:kept])
    message = r"checkpoint.safetensors' is not a whole safetensors file .*Remove it to begin"
    with pytest.raises(RegardError, match=message):
        read_checkpoint(path)


def test_a_changed_byte_is_noticed_wherever_it_is(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.safetensors"
    write_checkpoint(path, example())
    content = path.read_bytes()
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 0x01
        path.write_bytes(bytes(changed))
        try:
            back = read_checkpoint(path)
        except RegardError:
            continue
        assert back.facts == example().facts, place  # only padding and the format's own notes
        assert all(
            back.tensors[name].numpy().tobytes() == tensor.numpy().tobytes()
            for name, tensor in example().tensors.items()
        ), place


def test_other_tensors_are_no_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.safetensors"
    save_file({"weight": torch.ones(2)}, path)
    with pytest.raises(RegardError, match="holds tensors but is no checkpoint"):
        read_checkpoint(path)


def test_something_else_altogether_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(RegardError, match="folder' is not a whole safetensors file"):
        read_checkpoint(tmp_path / "folder")
    with pytest.raises(RegardError, match="nothing' is not there"):
        read_checkpoint(tmp_path / "nothing")
